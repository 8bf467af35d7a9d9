//! What a file declares, read out of the values it made.

use std::time::Duration;

use starlark::codemap::FileSpan;
use starlark::values::dict::DictRef;
use starlark::values::{Heap, Value};

pub use crate::values::DeclarationSites;

use crate::check::Finding;
use crate::convert::from_starlark;
use crate::error::{ErrorKind, Location, ScriptError, locate};
use crate::run::Handler;
use crate::schema::{Fit, fit, json_type, nearest_type};
use crate::{Json, JsonObject};

/// A named set of tools with what they may reach.
#[derive(Debug, Clone)]
pub struct Extension {
    pub name: String,
    pub version: String,
    pub description: String,
    pub tools: Vec<Tool>,
    pub capabilities: Capabilities,
}

/// What an extension says it needs. `None` is "said nothing", which the operator decides about.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Capabilities {
    pub exec: Vec<String>,
    pub hosts: Option<Vec<String>>,
    pub env: Option<Vec<String>>,
    pub paths: Option<Vec<String>>,
}

#[derive(Debug, Clone)]
pub struct Tool {
    pub name: String,
    pub title: Option<String>,
    pub description: String,
    pub input_schema: JsonObject,
    pub output_schema: Option<JsonObject>,
    pub annotations: Option<JsonObject>,
    pub icons: Option<Json>,
    pub meta: Option<JsonObject>,
    pub timeout: Option<Duration>,
    /// Whether arguments the schema does not name are refused.
    pub strict_args: bool,
    pub handler: Handler,
    pub location: Location,
}

/// A tool whose handler is still a value of the module being loaded.
pub(crate) struct ToolDraft<'v> {
    pub(crate) handler: Value<'v>,
    pub(crate) finish: Box<dyn FnOnce(Handler) -> Tool>,
}

pub(crate) struct ExtensionDraft<'v> {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) description: String,
    pub(crate) capabilities: Capabilities,
    pub(crate) tools: Vec<ToolDraft<'v>>,
}

/// The longest `timeout` a tool may ask for.
pub const MAX_TIMEOUT: Duration = Duration::from_secs(600);

/// Reads declarations and collects everything that is wrong with them.
pub(crate) struct Reader<'v, 'a> {
    pub(crate) heap: Heap<'v>,
    pub(crate) sites: &'a mut DeclarationSites,
    /// Where to point when a declaration is a dict written by hand.
    pub(crate) fallback: FileSpan,
    pub(crate) errors: Vec<ScriptError>,
    pub(crate) warnings: Vec<Finding>,
}

impl<'v> Reader<'v, '_> {
    fn error(&mut self, at: &FileSpan, message: impl Into<String>) {
        self.errors.push(ScriptError::new(ErrorKind::Declaration, message).at_span(at));
    }

    fn site(&mut self, kind: &str, name: &str) -> FileSpan {
        self.sites.take(kind, name).unwrap_or_else(|| self.fallback.clone())
    }

    pub(crate) fn extension(&mut self, value: Value<'v>) -> Option<ExtensionDraft<'v>> {
        let fallback = self.fallback.clone();
        let Some(dict) = DictRef::from_value(value) else {
            self.error(
                &fallback,
                format!("`describe_extension()` returned a `{}`, not an `Extension`", value.get_type()),
            );
            return None;
        };
        let name = dict.get_str("name").and_then(|name| name.unpack_str()).unwrap_or("").to_owned();
        let at = self.site("extension", &name);
        if name.trim().is_empty() {
            self.error(&at, "the extension has no `name`");
        }
        let text = |reader: &mut Self, key: &str| match dict.get_str(key) {
            None => String::new(),
            Some(value) => value.unpack_str().map(str::to_owned).unwrap_or_else(|| {
                reader.error(&at, format!("`{key}` must be a string, not a `{}`", value.get_type()));
                String::new()
            }),
        };
        let (version, description) = (text(self, "version"), text(self, "description"));
        let capabilities = Capabilities {
            exec: self.names(&dict, "allowed_exec", &at).unwrap_or_default(),
            hosts: self.names(&dict, "allowed_hosts", &at),
            env: self.names(&dict, "allowed_env", &at),
            paths: self.names(&dict, "allowed_paths", &at),
        };
        let mut tools = Vec::new();
        match dict.get_str("tools").map(|tools| tools.iterate(self.heap)) {
            None => self.error(&at, "the extension has no `tools`"),
            Some(Err(_)) => self.error(&at, "`tools` must be a list of `Tool`"),
            Some(Ok(items)) => {
                for item in items {
                    tools.extend(self.tool(item));
                }
            }
        }
        Some(ExtensionDraft { name, version, description, capabilities, tools })
    }

    /// A list of strings, or `None` when the key is absent or `None`.
    fn names(&mut self, dict: &DictRef<'v>, key: &str, at: &FileSpan) -> Option<Vec<String>> {
        let value = dict.get_str(key).filter(|value| !value.is_none())?;
        self.name_list(value, key, at)
    }

    pub(crate) fn name_list(&mut self, value: Value<'v>, key: &str, at: &FileSpan) -> Option<Vec<String>> {
        let mut names = Vec::new();
        let Ok(items) = value.iterate(self.heap) else {
            self.error(at, format!("`{key}` must be a list of strings"));
            return Some(names);
        };
        for item in items {
            match item.unpack_str() {
                Some(name) => names.push(name.to_owned()),
                None => self.error(at, format!("`{key}` must be a list of strings")),
            }
        }
        Some(names)
    }

    fn json(&mut self, dict: &DictRef<'v>, key: &str, at: &FileSpan) -> Option<Json> {
        let value = dict.get_str(key).filter(|value| !value.is_none())?;
        match from_starlark(value, self.heap) {
            Ok(json) => Some(json),
            Err(error) => {
                self.error(at, format!("`{key}` is not JSON: {error}"));
                None
            }
        }
    }

    fn object(&mut self, dict: &DictRef<'v>, key: &str, at: &FileSpan) -> Option<JsonObject> {
        match self.json(dict, key, at)? {
            Json::Object(object) => Some(object),
            _ => {
                self.error(at, format!("`{key}` must be a dict"));
                None
            }
        }
    }

    fn tool(&mut self, value: Value<'v>) -> Option<ToolDraft<'v>> {
        let fallback = self.fallback.clone();
        let Some(dict) = DictRef::from_value(value) else {
            self.error(&fallback, format!("`tools` holds a `{}`, not a `Tool`", value.get_type()));
            return None;
        };
        let name = dict.get_str("name").and_then(|name| name.unpack_str()).unwrap_or("").to_owned();
        let at = self.site("tool", &name);
        if name.trim().is_empty() {
            self.error(&at, "a tool has no `name`");
            return None;
        }
        self.check_name(&name, &at);
        let description = match dict.get_str("description").map(|value| value.unpack_str()) {
            Some(Some(text)) => text.to_owned(),
            _ => {
                self.error(&at, format!("tool `{name}` has no `description`"));
                String::new()
            }
        };
        let title = match dict.get_str("title").filter(|title| !title.is_none()) {
            None => None,
            Some(title) => match title.unpack_str() {
                Some(text) => Some(text.to_owned()),
                None => {
                    self.error(&at, format!("tool `{name}`: `title` must be a string"));
                    None
                }
            },
        };
        let annotations = self.annotations(&dict, &name, &at);
        let output_schema = self.object(&dict, "output_schema", &at);
        let input_schema = self.input_schema(&dict, &name, &at);
        let icons = self.json(&dict, "icons", &at);
        if icons.as_ref().is_some_and(|icons| !icons.is_array()) {
            self.error(&at, format!("tool `{name}`: `icons` must be a list"));
        }
        let meta = self.object(&dict, "meta", &at);
        let timeout = self.timeout(&dict, &name, &at);
        let strict_args = match dict.get_str("strict_args").filter(|value| !value.is_none()) {
            None => true,
            Some(value) => value.unpack_bool().unwrap_or_else(|| {
                self.error(&at, format!("tool `{name}`: `strict_args` must be True or False"));
                true
            }),
        };
        let Some(handler) = dict.get_str("handler").filter(|handler| !handler.is_none()) else {
            self.error(&at, format!("tool `{name}` has no `handler`"));
            return None;
        };
        self.check_handler(handler, &name, &at);
        let location = locate(&at).0;
        let finish = Box::new(move |handler: Handler| Tool {
            name,
            title,
            description,
            input_schema,
            output_schema,
            annotations,
            icons,
            meta,
            timeout,
            strict_args,
            handler,
            location,
        });
        Some(ToolDraft { handler, finish })
    }

    /// Clients differ in what they accept; the newest revision names this set.
    fn check_name(&mut self, name: &str, at: &FileSpan) {
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/');
        if name.chars().count() > 128 || !name.chars().all(plain) {
            let error = ScriptError::new(
                ErrorKind::Declaration,
                format!(
                    "tool name `{name}`: some clients refuse names that are longer than 128 or use other characters than letters, digits, `_`, `-`, `.` and `/`"
                ),
            );
            self.warnings.push(Finding::warning("tool-name", error.at_span(at)));
        }
    }

    fn check_handler(&mut self, handler: Value<'v>, tool: &str, at: &FileSpan) {
        if let Some(parameters) = handler.parameters_spec() {
            if !parameters.can_fill_with_args(1, &[]) {
                let name = handler.function_name().unwrap_or("lambda");
                self.error(
                    at,
                    format!("tool `{tool}`: the handler `{name}({})` must take one parameter, the dict of arguments", parameters.parameters_str()),
                );
            }
        } else if !matches!(handler.get_type(), "function" | "native_function" | "partial") {
            self.error(
                at,
                format!("tool `{tool}`: the handler is a `{}`, not a function", handler.get_type()),
            );
        }
    }

    fn annotations(&mut self, dict: &DictRef<'v>, tool: &str, at: &FileSpan) -> Option<JsonObject> {
        const HINTS: [&str; 4] = ["readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"];
        let annotations = self.object(dict, "annotations", at)?;
        for (key, value) in &annotations {
            if HINTS.contains(&key.as_str()) && !value.is_boolean() {
                self.error(at, format!("tool `{tool}`: annotation `{key}` must be True or False"));
            } else if !HINTS.contains(&key.as_str()) && key != "title" {
                let mut error = ScriptError::new(
                    ErrorKind::Declaration,
                    format!("tool `{tool}`: clients do not know the annotation `{key}`"),
                );
                if let Some(known) = crate::nearest(key, HINTS) {
                    error = error.with_hint(format!("did you mean `{known}`?"));
                }
                self.warnings.push(Finding::warning("unknown-annotation", error.at_span(at)));
            }
        }
        Some(annotations)
    }

    fn timeout(&mut self, dict: &DictRef<'v>, tool: &str, at: &FileSpan) -> Option<Duration> {
        let seconds = self.json(dict, "timeout", at)?.as_f64();
        match seconds.filter(|seconds| *seconds > 0.0).and_then(|s| Duration::try_from_secs_f64(s).ok()) {
            Some(timeout) if timeout <= MAX_TIMEOUT => Some(timeout),
            _ => {
                let max = MAX_TIMEOUT.as_secs();
                self.error(at, format!("tool `{tool}`: `timeout` must be a number of seconds up to {max}"));
                None
            }
        }
    }

    fn input_schema(&mut self, dict: &DictRef<'v>, tool: &str, at: &FileSpan) -> JsonObject {
        let parameters = dict.get_str("parameters").filter(|value| !value.is_none());
        if let Some(schema) = self.object(dict, "input_schema", at) {
            if parameters.is_some() {
                self.error(at, format!("tool `{tool}` has both `parameters` and `input_schema`"));
            }
            if schema.get("type").is_some_and(|kind| kind != "object") {
                self.error(at, format!("tool `{tool}`: `input_schema` must be of type object"));
            }
            let mut schema = schema;
            if !schema.contains_key("type") {
                schema.shift_insert(0, "type".to_owned(), Json::from("object"));
            }
            return schema;
        }
        let mut properties = JsonObject::new();
        let mut required = Vec::new();
        if let Some(parameters) = parameters {
            match parameters.iterate(self.heap) {
                Err(_) => {
                    self.error(at, format!("tool `{tool}`: `parameters` must be a list of `ToolParameter`"))
                }
                Ok(items) => {
                    for item in items {
                        if let Some((name, schema, is_required)) = self.parameter(item, tool, at) {
                            if properties.contains_key(&name) {
                                self.error(at, format!("tool `{tool}` has two parameters named `{name}`"));
                            }
                            if is_required {
                                required.push(Json::from(name.as_str()));
                            }
                            properties.insert(name, Json::Object(schema));
                        }
                    }
                }
            }
        }
        JsonObject::from_iter([
            ("type".to_owned(), Json::from("object")),
            ("properties".to_owned(), Json::Object(properties)),
            ("required".to_owned(), Json::Array(required)),
        ])
    }

    fn parameter(
        &mut self,
        value: Value<'v>,
        tool: &str,
        tool_at: &FileSpan,
    ) -> Option<(String, JsonObject, bool)> {
        let Some(dict) = DictRef::from_value(value) else {
            self.error(
                tool_at,
                format!("tool `{tool}`: `parameters` holds a `{}`, not a `ToolParameter`", value.get_type()),
            );
            return None;
        };
        let name = dict.get_str("name").and_then(|name| name.unpack_str()).unwrap_or("").to_owned();
        let at = self.sites.take("parameter", &name).unwrap_or_else(|| tool_at.clone());
        if name.is_empty() {
            self.error(&at, format!("tool `{tool}` has a parameter without a `name`"));
            return None;
        }
        let required = match dict.get_str("required").map(|required| required.unpack_bool()) {
            Some(Some(required)) => required,
            None => dict.get_str("default").is_none_or(|default| default.is_none()),
            Some(None) => {
                self.error(&at, format!("parameter `{name}`: `required` must be True or False"));
                false
            }
        };
        let schema = self.parameter_schema(&dict, &name, &at);
        Some((name, schema, required))
    }

    fn parameter_schema(&mut self, dict: &DictRef<'v>, name: &str, at: &FileSpan) -> JsonObject {
        let mut schema = JsonObject::new();
        let declared = dict.get_str("type").and_then(|kind| kind.unpack_str()).unwrap_or("");
        let kind = self.type_name(declared, &format!("parameter `{name}`"), at);
        if let Some(kind) = kind {
            schema.insert("type".to_owned(), Json::from(kind));
        }
        if let Some(description) =
            dict.get_str("description").and_then(|text| text.unpack_str()).filter(|text| !text.is_empty())
        {
            schema.insert("description".to_owned(), Json::from(description));
        }
        for (key, json_key) in [
            ("enum", "enum"),
            ("minimum", "minimum"),
            ("maximum", "maximum"),
            ("pattern", "pattern"),
            ("format", "format"),
            ("min_length", "minLength"),
            ("max_length", "maxLength"),
            ("min_items", "minItems"),
            ("max_items", "maxItems"),
        ] {
            if let Some(value) = self.json(dict, key, at) {
                schema.insert(json_key.to_owned(), value);
            }
        }
        if let Some(items) = self.items(dict, name, at) {
            schema.insert("items".to_owned(), items);
        }
        if let Some(properties) = dict.get_str("properties").filter(|value| !value.is_none()) {
            self.nested_properties(properties, name, at, &mut schema);
        }
        if let Some(default) = self.json(dict, "default", at) {
            let default = match kind.map_or(Fit::Fits, |kind| fit(&default, kind)) {
                Fit::Fits => default,
                Fit::Coerced(coerced) => {
                    let error = ScriptError::new(
                        ErrorKind::Declaration,
                        format!(
                            "parameter `{name}`: the default {default} is not of type {declared}; {coerced} is served"
                        ),
                    );
                    self.warnings.push(Finding::warning("default-type", error.at_span(at)));
                    coerced
                }
                Fit::Differs => {
                    self.error(
                        at,
                        format!("parameter `{name}`: the default {default} is not of type {declared}"),
                    );
                    default
                }
            };
            schema.insert("default".to_owned(), default);
        }
        schema
    }

    /// The JSON type for a declared one. An unknown one is served as a string, as it always was.
    fn type_name(&mut self, declared: &str, what: &str, at: &FileSpan) -> Option<&'static str> {
        json_type(declared).unwrap_or_else(|| {
            let error = ScriptError::new(
                ErrorKind::Declaration,
                format!("{what}: unknown type `{declared}`, served as string"),
            );
            let error = match nearest_type(declared) {
                Some(known) => error.with_hint(format!("did you mean `{known}`?")),
                None => error.with_hint("types are string, integer, number, boolean, array, object and any"),
            };
            self.warnings.push(Finding::warning("unknown-type", error.at_span(at)));
            Some("string")
        })
    }

    fn items(&mut self, dict: &DictRef<'v>, name: &str, at: &FileSpan) -> Option<Json> {
        match self.json(dict, "items", at)? {
            Json::String(kind) => {
                let kind = self.type_name(&kind, &format!("items of `{name}`"), at);
                Some(kind.map_or(Json::Bool(true), |kind| serde_json::json!({"type": kind})))
            }
            schema @ (Json::Object(_) | Json::Bool(_)) => Some(schema),
            _ => {
                self.error(at, format!("parameter `{name}`: `items` must be a type name or a JSON Schema"));
                None
            }
        }
    }

    /// A dict of schemas as it is, or a list of parameters, each with its own `required`.
    fn nested_properties(&mut self, value: Value<'v>, name: &str, at: &FileSpan, schema: &mut JsonObject) {
        if DictRef::from_value(value).is_some() {
            match from_starlark(value, self.heap) {
                Ok(properties) => {
                    schema.insert("properties".to_owned(), properties);
                }
                Err(error) => {
                    self.error(at, format!("parameter `{name}`: `properties` is not JSON: {error}"))
                }
            }
            return;
        }
        let Ok(items) = value.iterate(self.heap) else {
            self.error(at, format!("parameter `{name}`: `properties` must be a dict or a list"));
            return;
        };
        let mut properties = JsonObject::new();
        let mut required = Vec::new();
        for item in items {
            if let Some((key, nested, is_required)) = self.parameter(item, name, at) {
                if is_required {
                    required.push(Json::from(key.as_str()));
                }
                properties.insert(key, Json::Object(nested));
            }
        }
        schema.insert("properties".to_owned(), Json::Object(properties));
        schema.insert("required".to_owned(), Json::Array(required));
    }
}
