//! JSON Schema from what authors write: parameter declarations and type annotations.

use starlark::typing::{Ty, TyBasic};

use crate::{Json, JsonObject, nearest};

/// The type names a parameter may have, with the JSON type each stands for.
const TYPES: [(&str, &str); 12] = [
    ("string", "string"),
    ("str", "string"),
    ("integer", "integer"),
    ("int", "integer"),
    ("number", "number"),
    ("float", "number"),
    ("boolean", "boolean"),
    ("bool", "boolean"),
    ("array", "array"),
    ("list", "array"),
    ("object", "object"),
    ("dict", "object"),
];

/// The JSON type for a name, `Some(None)` for `any`.
pub(crate) fn json_type(name: &str) -> Option<Option<&'static str>> {
    if name == "any" {
        return Some(None);
    }
    TYPES.iter().find(|(known, _)| *known == name).map(|(_, json)| Some(*json))
}

pub(crate) fn nearest_type(name: &str) -> Option<&'static str> {
    nearest(name, TYPES.iter().map(|(known, _)| *known))
}

/// How a value stands to a schema's `type`.
#[derive(Debug, PartialEq)]
pub enum Fit {
    Fits,
    /// It says the same in another type, as `"5"` does for an integer.
    Coerced(Json),
    Differs,
}

/// Whether a value is of a JSON type, or unambiguously means one.
pub fn fit(value: &Json, json_type: &str) -> Fit {
    let fits = match (json_type, value) {
        ("string", Json::String(_)) | ("boolean", Json::Bool(_)) => true,
        ("array", Json::Array(_)) | ("object", Json::Object(_)) | ("null", Json::Null) => true,
        ("number", Json::Number(_)) => true,
        ("integer", Json::Number(number)) => is_integer(number),
        _ => false,
    };
    if fits {
        return Fit::Fits;
    }
    let coerced = match (json_type, value) {
        ("integer", Json::String(text)) => parse_number(text).filter(is_integer).map(Json::Number),
        ("number", Json::String(text)) => parse_number(text).map(Json::Number),
        ("boolean", Json::String(text)) => match text.as_str() {
            "true" | "True" | "TRUE" => Some(Json::Bool(true)),
            "false" | "False" | "FALSE" => Some(Json::Bool(false)),
            _ => None,
        },
        ("array" | "object", Json::String(text)) => {
            serde_json::from_str(text).ok().filter(|parsed| fit(parsed, json_type) == Fit::Fits)
        }
        _ => None,
    };
    coerced.map_or(Fit::Differs, Fit::Coerced)
}

fn is_integer(number: &serde_json::Number) -> bool {
    let digits = number.as_str();
    // JSON Schema: 5.0 is an integer. 5e400 is one too, but nothing here could hold it.
    !digits.contains(['.', 'e', 'E'])
        || digits.parse::<f64>().is_ok_and(|f| f.is_finite() && f.fract() == 0.0)
}

fn parse_number(text: &str) -> Option<serde_json::Number> {
    let number: serde_json::Number = text.trim().parse().ok()?;
    number.as_str().parse::<f64>().ok().filter(|float| float.is_finite())?;
    Some(number)
}

/// The schema of a type annotation, and what the interpreter will want converted for it.
pub(crate) struct Annotation {
    pub(crate) schema: JsonObject,
    /// Where whole numbers must arrive as floats.
    pub(crate) widen: Option<Widen>,
    pub(crate) may_be_none: bool,
}

/// Where in a value the interpreter wants floats: to it `3` is no `float`, to JSON it is.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Widen {
    Number,
    Items(Box<Widen>),
    Values(Box<Widen>),
}

impl Widen {
    fn of(ty: &Ty) -> Option<Widen> {
        let alternatives = ty.iter_union();
        let has = |name: &str| alternatives.iter().any(|basic| basic.as_name() == Some(name));
        if has("float") && !has("int") {
            return Some(Widen::Number);
        }
        alternatives.iter().find_map(|basic| match basic {
            TyBasic::List(item) => Widen::of(item).map(|inner| Widen::Items(Box::new(inner))),
            TyBasic::Dict(_, value) => Widen::of(value).map(|inner| Widen::Values(Box::new(inner))),
            _ => None,
        })
    }

    /// The value with the digits of a float where one is wanted.
    pub(crate) fn apply(&self, json: &Json) -> Json {
        match (self, json) {
            (Widen::Number, Json::Number(number)) if !number.as_str().contains(['.', 'e', 'E']) => {
                format!("{number}.0").parse().map_or_else(|_| json.clone(), Json::Number)
            }
            (Widen::Items(inner), Json::Array(items)) => {
                Json::Array(items.iter().map(|item| inner.apply(item)).collect())
            }
            (Widen::Values(inner), Json::Object(object)) => {
                Json::Object(object.iter().map(|(key, item)| (key.clone(), inner.apply(item))).collect())
            }
            _ => json.clone(),
        }
    }
}

pub(crate) fn annotation(ty: &Ty) -> Annotation {
    let alternatives = ty.iter_union();
    let may_be_none = alternatives.iter().any(is_none);
    let others: Vec<&TyBasic> = alternatives.iter().filter(|basic| !is_none(basic)).collect();
    let has_int = others.iter().any(|basic| basic.as_name() == Some("int"));
    let mut schemas: Vec<JsonObject> = Vec::new();
    for basic in others {
        let schema = basic_schema(basic);
        // `int | float` is one `number`.
        if has_int && basic.as_name() == Some("float") {
            schemas.retain(|known| known.get("type") != Some(&Json::from("integer")));
        }
        let is_covered = basic.as_name() == Some("int")
            && schemas.iter().any(|known| known.get("type") == Some(&Json::from("number")));
        if !is_covered && !schemas.contains(&schema) {
            schemas.push(schema);
        }
    }
    let mut schema = match schemas.len() {
        0 => JsonObject::new(),
        1 => schemas.remove(0),
        _ => {
            let any_of = schemas.into_iter().map(Json::Object).collect::<Vec<_>>();
            JsonObject::from_iter([("anyOf".to_owned(), Json::Array(any_of))])
        }
    };
    if may_be_none {
        schema = nullable(schema);
    }
    Annotation { schema, widen: Widen::of(ty), may_be_none }
}

fn nullable(mut schema: JsonObject) -> JsonObject {
    if schema.is_empty() {
        return schema;
    }
    let null = || serde_json::json!({"type": "null"});
    if let Some(Json::String(name)) = schema.get("type") {
        let types = Json::from(vec![name.as_str(), "null"]);
        schema.insert("type".to_owned(), types);
        return schema;
    }
    if let Some(Json::Array(any_of)) = schema.get_mut("anyOf") {
        any_of.push(null());
        return schema;
    }
    JsonObject::from_iter([("anyOf".to_owned(), Json::Array(vec![Json::Object(schema), null()]))])
}

fn is_none(basic: &TyBasic) -> bool {
    basic.as_name() == Some("NoneType")
}

fn typed(name: &str) -> JsonObject {
    JsonObject::from_iter([("type".to_owned(), Json::from(name))])
}

fn basic_schema(basic: &TyBasic) -> JsonObject {
    match basic {
        TyBasic::List(item) | TyBasic::Set(item) | TyBasic::Iter(item) => {
            let mut schema = typed("array");
            let items = annotation(item).schema;
            if !items.is_empty() {
                schema.insert("items".to_owned(), Json::Object(items));
            }
            if matches!(basic, TyBasic::Set(_)) {
                schema.insert("uniqueItems".to_owned(), Json::Bool(true));
            }
            schema
        }
        TyBasic::Dict(_, value) => {
            let mut schema = typed("object");
            let values = annotation(value).schema;
            if !values.is_empty() {
                schema.insert("additionalProperties".to_owned(), Json::Object(values));
            }
            schema
        }
        TyBasic::Tuple(_) => typed("array"),
        _ => match basic.as_name() {
            Some("string") => typed("string"),
            Some("int") => typed("integer"),
            Some("float") => typed("number"),
            Some("bool") => typed("boolean"),
            Some("struct" | "record") => typed("object"),
            _ => JsonObject::new(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn values_fit_are_coerced_or_differ() {
        for (value, json_type, expected) in [
            (json!("x"), "string", Fit::Fits),
            (json!(5), "integer", Fit::Fits),
            (json!(5.0), "integer", Fit::Fits),
            (json!(5.5), "integer", Fit::Differs),
            (json!("5"), "integer", Fit::Coerced(json!(5))),
            (json!("5.5"), "integer", Fit::Differs),
            (json!("5.5"), "number", Fit::Coerced(json!(5.5))),
            (json!("nan"), "number", Fit::Differs),
            (json!("true"), "boolean", Fit::Coerced(json!(true))),
            (json!("True"), "boolean", Fit::Coerced(json!(true))),
            (json!("yes"), "boolean", Fit::Differs),
            (json!(1), "boolean", Fit::Differs),
            (json!(5), "string", Fit::Differs),
            (json!("[1]"), "array", Fit::Coerced(json!([1]))),
            (json!("{"), "object", Fit::Differs),
        ] {
            assert_eq!(fit(&value, json_type), expected, "{value} as {json_type}");
        }
    }
}
