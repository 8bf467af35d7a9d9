//! Puts sources together, and decides when two of them want the same name.

use std::collections::HashMap;
use std::sync::Arc;

use super::{Catalog, FilterError, Source, SourceState, Tool, ToolFilter};

/// What happens when two sources declare a tool of the same name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnConflict {
    /// The start fails; after the start the newcomer is refused.
    #[default]
    Error,
    /// The names in conflict become `source__tool`.
    Prefix,
}

/// Two things that want one name, each with its place.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} `{name}` is declared twice: at {first} and at {second}")]
pub struct Conflict {
    pub what: &'static str,
    pub name: String,
    pub first: String,
    pub second: String,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MergeError {
    #[error(transparent)]
    Conflict(#[from] Conflict),
    #[error(transparent)]
    Filter(#[from] FilterError),
}

/// Builds the catalog of all sources, in their order.
pub fn merge(
    sources: Vec<Source>,
    filter: &ToolFilter,
    on_conflict: OnConflict,
) -> Result<Catalog, MergeError> {
    unique_ids(&sources)?;
    let all: Vec<&Arc<Tool>> = sources.iter().flat_map(|source| &source.tools).collect();
    let mut counts: HashMap<&str, Vec<&Arc<Tool>>> = HashMap::new();
    for tool in &all {
        counts.entry(&tool.name).or_default().push(tool);
    }
    let mut tools: Vec<Arc<Tool>> = Vec::with_capacity(all.len());
    for tool in &all {
        let namesakes = &counts[tool.name.as_str()];
        if namesakes.len() == 1 {
            tools.push(Arc::clone(tool));
            continue;
        }
        match on_conflict {
            OnConflict::Error => {
                return Err(MergeError::Conflict(Conflict {
                    what: "tool",
                    name: tool.name.clone(),
                    first: namesakes[0].location.to_string(),
                    second: namesakes[1].location.to_string(),
                }));
            }
            OnConflict::Prefix => {
                tools.push(Arc::new(tool.renamed(format!("{}__{}", tool.source, tool.name))))
            }
        }
    }
    filter.check(tools.iter().map(|tool| tool.name.as_str()))?;
    tools.retain(|tool| filter.admits(&tool.name));
    Ok(Catalog::new(tools, sources))
}

/// Ids name sources in policies, logs and calls, so there can be only one of each.
fn unique_ids(sources: &[Source]) -> Result<(), MergeError> {
    let mut seen: HashMap<&str, &Source> = HashMap::new();
    for source in sources
        .iter()
        .filter(|source| !matches!(source.state, SourceState::Removed | SourceState::Failed { .. }))
    {
        if let Some(first) = seen.insert(&source.id, source) {
            return Err(MergeError::Conflict(Conflict {
                what: "extension",
                name: source.id.clone(),
                first: first.path.display().to_string(),
                second: source.path.display().to_string(),
            }));
        }
    }
    Ok(())
}
