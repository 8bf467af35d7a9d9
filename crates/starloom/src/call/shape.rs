//! From what a handler returned to an MCP result.

use serde_json::{Value as Json, json};
use starloom_engine::JsonObject;

use super::error_result;
use crate::catalog::Tool;

/// A full MCP result is passed on as it is, anything else becomes one. A malformed one is an error that
/// names the field.
pub fn shape(tool: &Tool, value: Json, wraps_result: bool) -> JsonObject {
    let result = match value {
        Json::Object(object) if is_full_result(&object) => match check_result(object) {
            Ok(result) => result,
            Err(problem) => {
                return error_result(&format!("`{}` returned a malformed result: {problem}", tool.name));
            }
        },
        value if wraps_result => {
            let text = text_of(&value);
            JsonObject::from_iter([
                ("content".to_owned(), json!([{"type": "text", "text": text}])),
                ("structuredContent".to_owned(), json!({"result": value})),
            ])
        }
        Json::Object(object) => {
            let object = Json::Object(object);
            JsonObject::from_iter([
                ("content".to_owned(), json!([{"type": "text", "text": object.to_string()}])),
                ("structuredContent".to_owned(), object),
            ])
        }
        value => JsonObject::from_iter([(
            "content".to_owned(),
            json!([{"type": "text", "text": text_of(&value)}]),
        )]),
    };
    match check_output(tool, &result) {
        Ok(()) => result,
        Err(problem) => error_result(&format!(
            "`{}` returned a result that does not match its output schema: {problem}",
            tool.name
        )),
    }
}

fn text_of(value: &Json) -> String {
    match value {
        Json::Null => String::new(),
        Json::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// A dict whose `content` is a list of typed blocks, or that has `isError` or `structuredContent`.
fn is_full_result(object: &JsonObject) -> bool {
    let typed_content = object
        .get("content")
        .and_then(Json::as_array)
        .is_some_and(|blocks| blocks.iter().all(|block| block.get("type").is_some()));
    let has_flag = object.get("isError").is_some_and(Json::is_boolean);
    typed_content
        || (object.contains_key("content") && (has_flag || object.contains_key("structuredContent")))
        || (has_flag && object.contains_key("structuredContent"))
        || (object.contains_key("structuredContent") && object.len() == 1)
}

fn check_result(mut result: JsonObject) -> Result<JsonObject, String> {
    if let Some(flag) = result.get("isError") {
        if flag.is_null() {
            result.shift_remove("isError");
        } else if !flag.is_boolean() {
            return Err("`isError` must be True or False".to_owned());
        }
    }
    if result.get("structuredContent").is_some_and(Json::is_null) {
        result.shift_remove("structuredContent");
    }
    match result.get("content") {
        Some(Json::Array(blocks)) => {
            for (index, block) in blocks.iter().enumerate() {
                check_block(block).map_err(|problem| format!("content[{index}]{problem}"))?;
            }
        }
        Some(other) => return Err(format!("`content` must be a list, not {}", kind(other))),
        // Clients that do not know structured content read the text.
        None => {
            let text = result.get("structuredContent").map(Json::to_string).unwrap_or_default();
            result.shift_insert(0, "content".to_owned(), json!([{"type": "text", "text": text}]));
        }
    }
    Ok(result)
}

fn check_block(block: &Json) -> Result<(), String> {
    let Json::Object(block) = block else { return Err(format!(" must be a dict, not {}", kind(block))) };
    let text = |object: &JsonObject, key: &str| match object.get(key) {
        Some(Json::String(_)) => Ok(()),
        Some(other) => Err(format!(".{key} must be a string, not {}", kind(other))),
        None => Err(format!(".{key} is missing")),
    };
    match block.get("type").and_then(Json::as_str) {
        Some("text") => text(block, "text"),
        Some("image" | "audio") => text(block, "data").and_then(|()| text(block, "mimeType")),
        Some("resource_link") => text(block, "uri").and_then(|()| text(block, "name")),
        Some("resource") => match block.get("resource") {
            Some(Json::Object(resource)) => {
                text(resource, "uri").map_err(|problem| format!(".resource{problem}"))?;
                if resource.contains_key("text") || resource.contains_key("blob") {
                    Ok(())
                } else {
                    Err(".resource needs `text` or `blob`".to_owned())
                }
            }
            _ => Err(".resource is missing".to_owned()),
        },
        Some(other) => {
            let known =
                starloom_engine::nearest(other, ["text", "image", "audio", "resource", "resource_link"]);
            let hint = known.map(|known| format!(", did you mean `{known}`?")).unwrap_or_default();
            Err(format!(".type `{other}` is unknown{hint}"))
        }
        None => Err(".type is missing".to_owned()),
    }
}

fn kind(value: &Json) -> &'static str {
    match value {
        Json::Null => "None",
        Json::Bool(_) => "a boolean",
        Json::Number(_) => "a number",
        Json::String(_) => "a string",
        Json::Array(_) => "a list",
        Json::Object(_) => "a dict",
    }
}

fn check_output(tool: &Tool, result: &JsonObject) -> Result<(), String> {
    let Some(validator) = tool.output_validator() else { return Ok(()) };
    if result.get("isError") == Some(&Json::Bool(true)) {
        return Ok(());
    }
    let validator = validator.as_ref().map_err(Clone::clone)?;
    let Some(structured) = result.get("structuredContent") else {
        return Err("`structuredContent` is missing".to_owned());
    };
    let problems: Vec<String> = validator
        .iter_errors(structured)
        .map(|error| format!("structuredContent{}: {error}", error.instance_path()))
        .collect();
    if problems.is_empty() { Ok(()) } else { Err(problems.join("; ")) }
}
