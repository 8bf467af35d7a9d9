//! What there is to call: an immutable snapshot of all sources.
//!
//! A change in one source builds a new catalog, which is swapped in whole. Whoever holds the old one
//! goes on with it.

mod filter;
mod merge;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use jsonschema::Validator;
use serde_json::{Value as Json, json};
use starloom_effects::Grants;
use starloom_engine::{Handler, JsonObject, Location};

pub use filter::{FilterError, ToolFilter};
pub use merge::{Conflict, MergeError, OnConflict, merge};

/// One tool as clients see it, with what runs when it is called.
pub struct Tool {
    /// The name clients use.
    pub name: String,
    /// The id of the source it comes from, and its name there.
    pub source: String,
    pub origin: String,
    pub title: Option<String>,
    pub description: String,
    pub input_schema: JsonObject,
    pub output_schema: Option<JsonObject>,
    pub annotations: Option<JsonObject>,
    pub icons: Option<Json>,
    pub meta: Option<JsonObject>,
    pub timeout: Option<Duration>,
    pub strict_args: bool,
    pub target: Target,
    pub location: Location,
    /// How it fared when it was last called.
    pub pace: Pace,
    input_validator: OnceLock<Result<Validator, String>>,
    output_validator: OnceLock<Result<Validator, String>>,
}

/// Whether a tool was quick the last time. A guess about the next time, nothing more.
#[derive(Default)]
pub struct Pace(AtomicBool);

impl Pace {
    const QUICK: Duration = Duration::from_micros(300);

    pub fn was_quick(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    pub fn note(&self, elapsed: Duration) {
        self.0.store(elapsed < Pace::QUICK, Ordering::Relaxed);
    }
}

/// What runs a tool.
#[derive(Clone)]
pub enum Target {
    Starlark { handler: Handler, grants: Arc<Grants> },
}

impl Tool {
    pub fn from_declaration(
        tool: &starloom_engine::declare::Tool,
        source: &str,
        grants: &Arc<Grants>,
    ) -> Tool {
        Tool {
            name: tool.name.clone(),
            source: source.to_owned(),
            origin: tool.name.clone(),
            title: tool.title.clone(),
            description: tool.description.clone(),
            input_schema: tool.input_schema.clone(),
            output_schema: tool.output_schema.clone(),
            annotations: tool.annotations.clone(),
            icons: tool.icons.clone(),
            meta: tool.meta.clone(),
            timeout: tool.timeout,
            strict_args: tool.strict_args,
            target: Target::Starlark { handler: tool.handler.clone(), grants: grants.clone() },
            location: tool.location.clone(),
            pace: Pace::default(),
            input_validator: OnceLock::new(),
            output_validator: OnceLock::new(),
        }
    }

    /// The same tool under another name.
    fn renamed(&self, name: String) -> Tool {
        Tool {
            name,
            source: self.source.clone(),
            origin: self.origin.clone(),
            title: self.title.clone(),
            description: self.description.clone(),
            input_schema: self.input_schema.clone(),
            output_schema: self.output_schema.clone(),
            annotations: self.annotations.clone(),
            icons: self.icons.clone(),
            meta: self.meta.clone(),
            timeout: self.timeout,
            strict_args: self.strict_args,
            target: self.target.clone(),
            location: self.location.clone(),
            pace: Pace::default(),
            input_validator: OnceLock::new(),
            output_validator: OnceLock::new(),
        }
    }

    /// Compiled at the first call: most tools of a large catalog are never called.
    pub fn input_validator(&self) -> &Result<Validator, String> {
        self.input_validator.get_or_init(|| compile_schema(&self.input_schema))
    }

    pub fn output_validator(&self) -> Option<&Result<Validator, String>> {
        let schema = self.output_schema.as_ref()?;
        Some(self.output_validator.get_or_init(|| compile_schema(schema)))
    }

    /// The entry of `tools/list`.
    fn wire(&self) -> Json {
        let mut wire = JsonObject::new();
        wire.insert("name".to_owned(), json!(self.name));
        if let Some(title) = &self.title {
            wire.insert("title".to_owned(), json!(title));
        }
        wire.insert("description".to_owned(), json!(self.description));
        wire.insert("inputSchema".to_owned(), Json::Object(self.input_schema.clone()));
        if let Some(schema) = &self.output_schema {
            wire.insert("outputSchema".to_owned(), Json::Object(schema.clone()));
        }
        if let Some(annotations) = &self.annotations {
            wire.insert("annotations".to_owned(), Json::Object(annotations.clone()));
        }
        if let Some(icons) = &self.icons {
            wire.insert("icons".to_owned(), icons.clone());
        }
        if let Some(meta) = &self.meta {
            wire.insert("_meta".to_owned(), Json::Object(meta.clone()));
        }
        Json::Object(wire)
    }
}

fn compile_schema(schema: &JsonObject) -> Result<Validator, String> {
    jsonschema::options()
        .build(&Json::Object(schema.clone()))
        .map_err(|error| format!("the schema itself is not valid: {error}"))
}

/// One place tools come from, and how it fares.
#[derive(Clone)]
pub struct Source {
    /// The extension's name; before it ever loaded, the file's stem.
    pub id: String,
    pub path: PathBuf,
    pub version: String,
    pub description: String,
    pub state: SourceState,
    pub tools: Vec<Arc<Tool>>,
    pub grants: Option<Arc<Grants>>,
}

impl Source {
    /// A source that never loaded.
    pub fn failed(id: String, path: PathBuf, error: String) -> Source {
        Source {
            id,
            path,
            version: String::new(),
            description: String::new(),
            state: SourceState::Failed { error },
            tools: Vec::new(),
            grants: None,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SourceState {
    Loaded,
    /// The last good version is served; this is what is wrong with the newest.
    Stale {
        error: String,
    },
    /// It never loaded.
    Failed {
        error: String,
    },
    /// Its file is gone.
    Removed,
}

impl SourceState {
    pub fn name(&self) -> &'static str {
        match self {
            SourceState::Loaded => "loaded",
            SourceState::Stale { .. } => "stale",
            SourceState::Failed { .. } => "failed",
            SourceState::Removed => "removed",
        }
    }

    pub fn error(&self) -> Option<&str> {
        match self {
            SourceState::Stale { error } | SourceState::Failed { error } => Some(error),
            SourceState::Loaded | SourceState::Removed => None,
        }
    }
}

/// The snapshot. Tools stand in a stable order: by source path, then as declared.
#[derive(Default)]
pub struct Catalog {
    tools: Vec<Arc<Tool>>,
    by_name: HashMap<String, usize>,
    pub sources: Vec<Source>,
    wire: OnceLock<Vec<Json>>,
}

impl Catalog {
    pub fn new(tools: Vec<Arc<Tool>>, sources: Vec<Source>) -> Catalog {
        let by_name = tools.iter().enumerate().map(|(index, tool)| (tool.name.clone(), index)).collect();
        Catalog { tools, by_name, sources, wire: OnceLock::new() }
    }

    pub fn tools(&self) -> &[Arc<Tool>] {
        &self.tools
    }

    /// A tool by its published name, or by `source/tool`.
    pub fn find(&self, name: &str) -> Option<&Arc<Tool>> {
        if let Some(index) = self.by_name.get(name) {
            return self.tools.get(*index);
        }
        let (source, origin) = name.split_once('/')?;
        self.tools.iter().find(|tool| tool.source == source && tool.origin == origin)
    }

    /// The name nearest to one that is not there.
    pub fn suggest(&self, name: &str) -> Option<&str> {
        starloom_engine::nearest(name, self.tools.iter().map(|tool| tool.name.as_str()))
    }

    /// The entries of `tools/list`, made once.
    pub fn wire_tools(&self) -> &[Json] {
        self.wire.get_or_init(|| self.tools.iter().map(|tool| tool.wire()).collect())
    }
}
