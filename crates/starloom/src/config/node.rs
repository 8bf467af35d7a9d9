//! A configuration value that knows its line, so that a mistake can be shown where it stands.

use saphyr::{LoadableYamlNode, MarkedYaml, Scalar, YamlData};
use serde_json::Value as Json;
use starloom_engine::nearest;

/// Something wrong in a configuration file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError {
    pub file: String,
    /// 0 when the value did not come from a text.
    pub line: usize,
    pub message: String,
    pub hint: Option<String>,
}

impl std::fmt::Display for ConfigError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.file, self.message),
            line => write!(f, "{}:{line}: {}", self.file, self.message),
        }
    }
}

impl std::error::Error for ConfigError {}

#[derive(Debug, Clone)]
pub struct Node {
    pub file: String,
    pub line: usize,
    /// The keys that lead here, for messages: `limits.timeout`.
    pub key: String,
    pub value: NodeValue,
}

#[derive(Debug, Clone)]
pub enum NodeValue {
    Null,
    Bool(bool),
    Number(f64),
    String(String),
    List(Vec<Node>),
    Map(Vec<(String, Node)>),
}

/// The deepest nesting a configuration has any use for.
const MAX_DEPTH: usize = 32;

impl Node {
    /// JSON is valid YAML, so one parser reads both.
    pub fn from_yaml(file: &str, text: &str) -> Result<Node, ConfigError> {
        let documents = MarkedYaml::load_from_str(text).map_err(|error| ConfigError {
            file: file.to_owned(),
            line: error.marker().line(),
            message: error.info().to_owned(),
            hint: None,
        })?;
        match documents.as_slice() {
            [] => Ok(Node {
                file: file.to_owned(),
                line: 1,
                key: String::new(),
                value: NodeValue::Map(Vec::new()),
            }),
            [document] => from_marked(file, String::new(), document, 0),
            _ => Err(ConfigError {
                file: file.to_owned(),
                line: documents[1].span.start.line(),
                message: "a configuration is one document".to_owned(),
                hint: None,
            }),
        }
    }

    pub fn from_json(file: &str, key: &str, json: &Json) -> Node {
        let below = |name: &str| if key.is_empty() { name.to_owned() } else { format!("{key}.{name}") };
        let value = match json {
            Json::Null => NodeValue::Null,
            Json::Bool(value) => NodeValue::Bool(*value),
            Json::Number(number) => NodeValue::Number(number.as_f64().unwrap_or(f64::NAN)),
            Json::String(text) => NodeValue::String(text.clone()),
            Json::Array(items) => {
                NodeValue::List(items.iter().map(|item| Node::from_json(file, key, item)).collect())
            }
            Json::Object(object) => NodeValue::Map(
                object
                    .iter()
                    .map(|(name, item)| (name.clone(), Node::from_json(file, &below(name), item)))
                    .collect(),
            ),
        };
        Node { file: file.to_owned(), line: 0, key: key.to_owned(), value }
    }

    pub fn error(&self, message: impl Into<String>) -> ConfigError {
        let message = message.into();
        let message = if self.key.is_empty() { message } else { format!("`{}` {message}", self.key) };
        ConfigError { file: self.file.clone(), line: self.line, message, hint: None }
    }

    /// `${VAR}` and `${VAR:-default}` in every string.
    pub fn expand(self, lookup: &dyn Fn(&str) -> Option<String>) -> Result<Node, ConfigError> {
        let value = match self.value {
            NodeValue::String(ref text) => match expand(text, lookup) {
                Ok(text) => NodeValue::String(text),
                Err(name) => {
                    let mut error = self.error(format!("uses ${{{name}}}, which is not set"));
                    error.hint = Some(format!("set {name}, or write ${{{name}:-default}}"));
                    return Err(error);
                }
            },
            NodeValue::List(items) => {
                NodeValue::List(items.into_iter().map(|item| item.expand(lookup)).collect::<Result<_, _>>()?)
            }
            NodeValue::Map(entries) => NodeValue::Map(
                entries
                    .into_iter()
                    .map(|(name, item)| item.expand(lookup).map(|item| (name, item)))
                    .collect::<Result<_, _>>()?,
            ),
            plain => plain,
        };
        Ok(Node { file: self.file, line: self.line, key: self.key, value })
    }

    pub fn map(&self) -> Result<Fields<'_>, ConfigError> {
        match &self.value {
            NodeValue::Map(entries) => Ok(Fields { node: self, entries, known: Vec::new() }),
            NodeValue::Null => Ok(Fields { node: self, entries: &[], known: Vec::new() }),
            _ => Err(self.error("must be a mapping")),
        }
    }

    pub fn string(&self) -> Result<String, ConfigError> {
        match &self.value {
            NodeValue::String(text) => Ok(text.clone()),
            NodeValue::Number(number) => Ok(number.to_string()),
            NodeValue::Bool(flag) => Ok(flag.to_string()),
            _ => Err(self.error("must be a string")),
        }
    }

    pub fn bool(&self) -> Result<bool, ConfigError> {
        match self.value {
            NodeValue::Bool(flag) => Ok(flag),
            _ => Err(self.error("must be true or false")),
        }
    }

    pub fn number(&self) -> Result<f64, ConfigError> {
        match self.value {
            NodeValue::Number(number) if number.is_finite() && number >= 0.0 => Ok(number),
            _ => Err(self.error("must be a number that is not negative")),
        }
    }

    pub fn strings(&self) -> Result<Vec<String>, ConfigError> {
        match &self.value {
            NodeValue::List(items) => items.iter().map(Node::string).collect(),
            NodeValue::String(_) => Ok(vec![self.string()?]),
            NodeValue::Null => Ok(Vec::new()),
            _ => Err(self.error("must be a list of strings")),
        }
    }
}

fn from_marked(file: &str, key: String, marked: &MarkedYaml, depth: usize) -> Result<Node, ConfigError> {
    let node = Node { file: file.to_owned(), line: marked.span.start.line(), key, value: NodeValue::Null };
    if depth > MAX_DEPTH {
        return Err(node.error(format!("nested deeper than {MAX_DEPTH}")));
    }
    let value = match &marked.data {
        YamlData::Value(Scalar::Null) => NodeValue::Null,
        YamlData::Value(Scalar::Boolean(flag)) => NodeValue::Bool(*flag),
        YamlData::Value(Scalar::Integer(number)) => NodeValue::Number(*number as f64),
        YamlData::Value(Scalar::FloatingPoint(number)) => NodeValue::Number(number.0),
        YamlData::Value(Scalar::String(text)) => NodeValue::String(text.to_string()),
        YamlData::Sequence(items) => NodeValue::List(
            items
                .iter()
                .map(|item| from_marked(file, node.key.clone(), item, depth + 1))
                .collect::<Result<_, _>>()?,
        ),
        YamlData::Mapping(entries) => {
            let mut map = Vec::with_capacity(entries.len());
            for (name, item) in entries {
                let name = match &name.data {
                    YamlData::Value(Scalar::String(text)) => text.to_string(),
                    YamlData::Value(Scalar::Integer(number)) => number.to_string(),
                    YamlData::Value(Scalar::Boolean(flag)) => flag.to_string(),
                    _ => return Err(node.error("has a key that is not text")),
                };
                let key = if node.key.is_empty() { name.clone() } else { format!("{}.{name}", node.key) };
                map.push((name, from_marked(file, key, item, depth + 1)?));
            }
            NodeValue::Map(map)
        }
        _ => return Err(node.error("is not plain data")),
    };
    Ok(Node { value, ..node })
}

fn expand(text: &str, lookup: &dyn Fn(&str) -> Option<String>) -> Result<String, String> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find("${") {
        out.push_str(&rest[..start]);
        let Some(length) = rest[start..].find('}') else {
            break;
        };
        let inside = &rest[start + 2..start + length];
        let (name, default) = match inside.split_once(":-") {
            Some((name, default)) => (name, Some(default)),
            None => (inside, None),
        };
        match lookup(name).or_else(|| default.map(str::to_owned)) {
            Some(value) => out.push_str(&value),
            None => return Err(name.to_owned()),
        }
        rest = &rest[start + length + 1..];
    }
    out.push_str(rest);
    Ok(out)
}

/// Reads the keys of a mapping one by one; what was not asked for is unknown.
pub struct Fields<'a> {
    node: &'a Node,
    entries: &'a [(String, Node)],
    known: Vec<&'static str>,
}

impl<'a> Fields<'a> {
    pub fn get(&mut self, name: &'static str) -> Option<&'a Node> {
        self.known.push(name);
        self.entries.iter().find(|(key, _)| key == name).map(|(_, node)| node)
    }

    /// All entries, for mappings whose keys are the user's.
    pub fn entries(self) -> &'a [(String, Node)] {
        self.entries
    }

    pub fn finish(self) -> Result<(), ConfigError> {
        let Some((name, node)) = self.entries.iter().find(|(name, _)| !self.known.contains(&name.as_str()))
        else {
            return Ok(());
        };
        let mut error = ConfigError {
            file: node.file.clone(),
            line: if node.line == 0 { 0 } else { node.line.max(1) },
            message: format!("unknown key `{}`", node.key),
            hint: None,
        };
        error.hint = match nearest(name, self.known.iter().copied()) {
            Some(known) => Some(format!("did you mean `{known}`?")),
            None if self.node.key.is_empty() => Some("`starloom config --default` shows all keys".to_owned()),
            None => Some(format!("`{}` knows {}", self.node.key, self.known.join(", "))),
        };
        Err(error)
    }
}
