//! Where texts come from, and how they are called.

use std::collections::HashMap;

/// The texts of one source. Paths are relative to its root, with `/`, and never leave it.
pub trait Files: Sync {
    /// Tells roots apart, so that modules of one are never served to another.
    fn root(&self) -> &str;
    /// The text of a file, or what to tell the author.
    fn read(&self, path: &str) -> Result<String, String>;
    fn exists(&self, path: &str) -> bool;
    /// The path as the author knows it.
    fn display(&self, path: &str) -> String;
}

/// Texts in memory.
#[derive(Default, Clone)]
pub struct MemoryFiles(pub HashMap<String, String>);

impl Files for MemoryFiles {
    fn root(&self) -> &str {
        "memory"
    }

    fn read(&self, path: &str) -> Result<String, String> {
        self.0.get(path).cloned().ok_or_else(|| "no such file".to_owned())
    }

    fn exists(&self, path: &str) -> bool {
        self.0.contains_key(path)
    }

    fn display(&self, path: &str) -> String {
        path.to_owned()
    }
}

/// A path below a source's root, in its one spelling.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ModulePath(pub(crate) String);

impl ModulePath {
    /// `None` when the path would leave the root.
    pub fn new(path: &str) -> Option<ModulePath> {
        ModulePath::resolve(&[], path)
    }

    pub(crate) fn resolve(base: &[&str], path: &str) -> Option<ModulePath> {
        let mut parts = base.to_vec();
        for part in path.split('/') {
            match part {
                "" | "." => {}
                ".." => {
                    parts.pop()?;
                }
                part => parts.push(part),
            }
        }
        Some(ModulePath(parts.join("/")))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub(crate) fn folder(&self) -> Vec<&str> {
        let mut parts: Vec<&str> = self.0.split('/').collect();
        parts.pop();
        parts
    }

    pub(crate) fn stem(&self) -> &str {
        let file = self.0.rsplit('/').next().unwrap_or("");
        file.strip_suffix(".star").unwrap_or(file)
    }
}
