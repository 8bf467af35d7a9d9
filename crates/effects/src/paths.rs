//! Which files a source may open.

use std::io;
use std::path::{Path, PathBuf};

use crate::grants::{CapabilityMode, Denied, Grants};

impl Grants {
    /// Where the path leads, with links and `..` followed, if the source may go there.
    ///
    /// A relative path starts at the process's working directory, an entry of `allowed_paths` at the
    /// source's root.
    pub(crate) fn check_path(&self, path: &str) -> Result<PathBuf, Denied> {
        if self.capabilities.paths.is_none() && self.mode == CapabilityMode::Strict {
            return Err(Denied::PathUndeclared { path: path.to_owned() });
        }
        let resolved = resolve(Path::new(path))
            .map_err(|error| Denied::Unresolved { path: path.to_owned(), reason: error.to_string() })?;
        let Some(allowed) = &self.capabilities.paths else {
            return Ok(resolved);
        };
        // An entry that cannot be resolved covers nothing.
        let covers = |entry: &String| {
            resolve(&self.root.join(entry)).is_ok_and(|allowed| resolved.starts_with(allowed))
        };
        if allowed.iter().any(covers) {
            Ok(resolved)
        } else {
            Err(Denied::Path { path: path.to_owned(), allowed: allowed.clone() })
        }
    }

    /// Whether `allowed_paths` or the mode restrict paths at all.
    pub(crate) fn restricts_paths(&self) -> bool {
        self.capabilities.paths.is_some() || self.mode == CapabilityMode::Strict
    }
}

/// Canonical, also for a file that is not there yet.
fn resolve(path: &Path) -> io::Result<PathBuf> {
    match path.canonicalize() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => resolve_missing(path, error),
        other => other,
    }
}

fn resolve_missing(path: &Path, error: io::Error) -> io::Result<PathBuf> {
    // A link to nothing would be followed when the file is created, to wherever it points.
    if path.symlink_metadata().is_ok() {
        return Err(error);
    }
    let Some(name) = path.file_name() else {
        return Err(error);
    };
    let parent = match path.parent() {
        Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
        Some(parent) => parent,
        None => return Err(error),
    };
    Ok(resolve(parent)?.join(name))
}
