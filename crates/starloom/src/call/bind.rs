//! From the arguments a client sent to those the handler gets: nulls dropped, types coerced, defaults
//! applied, everything checked at once.

use serde_json::Value as Json;
use starloom_engine::schema::{Fit, fit};
use starloom_engine::{JsonObject, nearest};

use crate::catalog::Tool;

/// One thing wrong with one argument.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// `$.items[2].name`
    pub path: String,
    pub message: String,
}

pub fn describe(tool: &str, problems: &[Problem]) -> String {
    let lines: Vec<String> =
        problems.iter().map(|problem| format!("- {}: {}", problem.path, problem.message)).collect();
    format!("Invalid arguments for `{tool}`:\n{}", lines.join("\n"))
}

pub fn bind(tool: &Tool, mut arguments: JsonObject) -> Result<JsonObject, Vec<Problem>> {
    let schema = &tool.input_schema;
    let mut problems = Vec::new();
    if let Some(Json::Object(properties)) = schema.get("properties") {
        if tool.strict_args && is_closed(schema) {
            refuse_unknown(&arguments, properties, &mut problems);
        }
        prepare(&mut arguments, properties, schema.get("required"));
    }
    let arguments = Json::Object(arguments);
    match tool.input_validator() {
        Ok(validator) => {
            if !validator.is_valid(&arguments) {
                problems.extend(validator.iter_errors(&arguments).map(|error| Problem {
                    path: json_path(&error.instance_path().to_string()),
                    message: message(&error),
                }));
            }
        }
        Err(message) => problems.push(Problem { path: "$".to_owned(), message: message.clone() }),
    }
    match arguments {
        Json::Object(arguments) if problems.is_empty() => Ok(arguments),
        _ => Err(problems),
    }
}

/// The validator leaves out most members of a long enumeration; a model needs them all.
fn message(error: &jsonschema::ValidationError) -> String {
    use jsonschema::error::ValidationErrorKind;
    match error.kind() {
        ValidationErrorKind::Enum { options } => {
            let options: Vec<String> =
                options.as_array().into_iter().flatten().map(Json::to_string).collect();
            format!("{} is not one of {}", error.instance(), options.join(", "))
        }
        _ => error.to_string(),
    }
}

/// Whether the schema names all arguments there can be.
fn is_closed(schema: &JsonObject) -> bool {
    const OPENING: [&str; 8] = [
        "patternProperties",
        "allOf",
        "anyOf",
        "oneOf",
        "$ref",
        "if",
        "dependentSchemas",
        "unevaluatedProperties",
    ];
    !OPENING.iter().any(|key| schema.contains_key(*key))
        && schema.get("additionalProperties").is_none_or(|additional| *additional == Json::Bool(false))
}

fn refuse_unknown(arguments: &JsonObject, properties: &JsonObject, problems: &mut Vec<Problem>) {
    for name in arguments.keys().filter(|name| !properties.contains_key(*name)) {
        let suggestion = nearest(name, properties.keys().map(String::as_str));
        let message = match suggestion {
            Some(known) => format!("unknown argument, did you mean `{known}`?"),
            None if properties.is_empty() => "unknown argument; the tool takes none".to_owned(),
            None => {
                let known: Vec<&str> = properties.keys().map(String::as_str).collect();
                format!("unknown argument; the tool takes {}", known.join(", "))
            }
        };
        problems.push(Problem {
            path: json_path(&format!("/{}", name.replace('~', "~0").replace('/', "~1"))),
            message,
        });
    }
}

/// Drops nulls that stand for "absent", coerces what is unambiguous, fills in defaults; in nested
/// objects too.
fn prepare(arguments: &mut JsonObject, properties: &JsonObject, required: Option<&Json>) {
    let is_required = |name: &str| {
        required.and_then(Json::as_array).is_some_and(|names| names.iter().any(|required| required == name))
    };
    for (name, schema) in properties {
        let Json::Object(schema) = schema else { continue };
        if arguments.get(name).is_some_and(Json::is_null) && !is_required(name) && !admits_null(schema) {
            arguments.shift_remove(name);
        }
        match arguments.get_mut(name) {
            Some(value) => {
                coerce(value, schema);
                if let (Json::Object(nested), Some(Json::Object(properties))) =
                    (value, schema.get("properties"))
                {
                    prepare(nested, properties, schema.get("required"));
                }
            }
            None => {
                if let Some(default) = schema.get("default") {
                    arguments.insert(name.clone(), default.clone());
                }
            }
        }
    }
}

fn admits_null(schema: &JsonObject) -> bool {
    match schema.get("type") {
        Some(Json::String(name)) => name == "null",
        Some(Json::Array(names)) => names.iter().any(|name| name == "null"),
        // Without a type only the validator can tell.
        _ => true,
    }
}

fn coerce(value: &mut Json, schema: &JsonObject) {
    let mut types = match schema.get("type") {
        Some(Json::String(name)) => vec![name.as_str()],
        Some(Json::Array(names)) => {
            names.iter().filter_map(Json::as_str).filter(|name| *name != "null").collect()
        }
        _ => return,
    };
    // With several types to choose from, a string would be ambiguous.
    if types.len() != 1 {
        return;
    }
    if let Some(Fit::Coerced(coerced)) = types.pop().map(|name| fit(value, name)) {
        *value = coerced;
    }
    if let (Json::Array(items), Some(Json::Object(item_schema))) = (value, schema.get("items")) {
        items.iter_mut().for_each(|item| coerce(item, item_schema));
    }
}

/// A JSON pointer as the path people write.
fn json_path(pointer: &str) -> String {
    let mut path = "$".to_owned();
    for part in pointer.split('/').skip(1) {
        let part = part.replace("~1", "/").replace("~0", "~");
        if part.bytes().all(|byte| byte.is_ascii_digit()) && !part.is_empty() {
            path.push_str(&format!("[{part}]"));
        } else if !part.is_empty() && part.chars().all(|c| c.is_alphanumeric() || c == '_' || c == '-') {
            path.push_str(&format!(".{part}"));
        } else {
            path.push_str(&format!("[{part:?}]"));
        }
    }
    path
}
