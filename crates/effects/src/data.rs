//! Text files that lie beside a script.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Component, Path};

use serde_json::json;
use starloom_engine::{EffectError, Json};

use crate::Grants;

const MAX_BYTES: u64 = 64 << 20;

#[derive(Debug, thiserror::Error)]
enum DataError {
    #[error("path traversal not allowed: {path}")]
    Traversal { path: String },
    #[error("failed to resolve file path '{path}': {reason}")]
    Unresolved { path: String, reason: io::Error },
    #[error("path must be within extensions directory")]
    Outside,
    #[error("failed to read file '{path}': {reason}")]
    Unreadable { path: String, reason: io::Error },
    #[error("failed to read file '{path}': it is not a regular file")]
    NotAFile { path: String },
    #[error("failed to read file '{path}': it is larger than {MAX_BYTES} bytes")]
    TooLarge { path: String },
    #[error("failed to read file '{path}': it is not UTF-8 (first at byte {at})")]
    NotUtf8 { path: String, at: usize },
}

impl From<DataError> for EffectError {
    fn from(error: DataError) -> EffectError {
        EffectError::Failed(error.to_string())
    }
}

pub(crate) fn read(grants: &Grants, path: &str) -> Result<Json, EffectError> {
    Ok(json!({ "text": read_text(&grants.root, path)? }))
}

fn read_text(root: &Path, path: &str) -> Result<String, DataError> {
    let name = || path.to_owned();
    if Path::new(path).components().any(|part| part == Component::ParentDir) {
        return Err(DataError::Traversal { path: name() });
    }
    let unresolved = |reason| DataError::Unresolved { path: name(), reason };
    let root = root.canonicalize().map_err(unresolved)?;
    let resolved = root.join(path).canonicalize().map_err(unresolved)?;
    if !resolved.starts_with(&root) {
        return Err(DataError::Outside);
    }
    let unreadable = |reason| DataError::Unreadable { path: name(), reason };
    // Asked before opening: to open a pipe waits for its other end.
    if !resolved.metadata().map_err(unreadable)?.is_file() {
        return Err(DataError::NotAFile { path: name() });
    }
    let mut bytes = Vec::new();
    let file = File::open(&resolved).map_err(unreadable)?;
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(DataError::TooLarge { path: name() });
    }
    String::from_utf8(bytes)
        .map_err(|error| DataError::NotUtf8 { path: name(), at: error.utf8_error().valid_up_to() })
}
