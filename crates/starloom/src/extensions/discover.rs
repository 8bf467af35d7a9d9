//! From what the operator wrote to the files that are meant.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use globset::GlobBuilder;

/// A script and the root it may load from.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ScriptFile {
    /// As the operator would write it.
    pub path: PathBuf,
    pub root: PathBuf,
    /// Below the root, with `/`.
    pub relative: String,
}

#[derive(Debug, thiserror::Error)]
pub enum DiscoverError {
    #[error("there is no file `{}`", .0.display())]
    Missing(PathBuf),
    #[error("`{}` is not a `.star` file", .0.display())]
    NotAScript(PathBuf),
    #[error("`{pattern}` is not a pattern of paths: {problem}")]
    Pattern { pattern: String, problem: String },
}

pub fn is_test_file(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().ends_with("_test.star"))
}

/// Files, folders and patterns → the scripts to serve, sorted by path.
///
/// A folder that does not exist has no scripts yet; a file that does not exist is a mistake.
pub fn discover(specs: &[PathBuf]) -> Result<Vec<ScriptFile>, DiscoverError> {
    find(specs, &|path| !is_test_file(path) && !is_helper(path))
}

/// What lies in folders to be loaded by others.
pub fn discover_helpers(specs: &[PathBuf]) -> Result<Vec<ScriptFile>, DiscoverError> {
    let folders: Vec<PathBuf> = specs.iter().filter(|spec| spec.is_dir()).cloned().collect();
    find(&folders, &|path| !is_test_file(path) && is_helper(path))
}

/// The same for test files.
pub fn discover_tests(specs: &[PathBuf]) -> Result<Vec<ScriptFile>, DiscoverError> {
    find(specs, &is_test_file)
}

/// Helpers are loaded by others and never served: `_x.star`, and everything in a folder named `lib`.
fn is_helper(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('_'))
        || path.parent().is_some_and(|folders| folders.iter().any(|folder| folder == "lib"))
}

fn find(specs: &[PathBuf], wanted: &dyn Fn(&Path) -> bool) -> Result<Vec<ScriptFile>, DiscoverError> {
    let mut found = Vec::new();
    let mut seen = BTreeSet::new();
    for spec in specs {
        let mut of_spec = Vec::new();
        if is_pattern(spec) {
            match_pattern(spec, wanted, &mut of_spec)?;
        } else if spec.is_dir() {
            walk(spec, spec, wanted, &mut BTreeSet::new(), &mut of_spec);
        } else if spec.is_file() {
            if spec.extension().is_none_or(|extension| extension != "star") {
                return Err(DiscoverError::NotAScript(spec.clone()));
            }
            // Named outright, a helper is served too; but a test is never a source, nor the reverse.
            let is_test = is_test_file(spec);
            if wanted(spec) || (!is_test && wanted(Path::new("x.star"))) {
                let root = spec.parent().filter(|parent| !parent.as_os_str().is_empty());
                of_spec.push(script(root.unwrap_or(Path::new(".")), spec));
            }
        } else if spec.extension().is_some_and(|extension| extension == "star") {
            return Err(DiscoverError::Missing(spec.clone()));
        }
        of_spec.sort_by(|a, b| a.relative.cmp(&b.relative));
        for file in of_spec {
            let identity = file.path.canonicalize().unwrap_or_else(|_| file.path.clone());
            if seen.insert(identity) {
                found.push(file);
            }
        }
    }
    Ok(found)
}

pub(super) fn is_pattern(spec: &Path) -> bool {
    spec.to_string_lossy().contains(['*', '?', '[', '{'])
}

/// The folder a pattern starts from: everything before its first wildcard.
pub(super) fn pattern_base(spec: &Path) -> PathBuf {
    let base: PathBuf = spec.iter().take_while(|part| !is_pattern(Path::new(part))).collect();
    if base.as_os_str().is_empty() { PathBuf::from(".") } else { base }
}

fn match_pattern(
    spec: &Path,
    wanted: &dyn Fn(&Path) -> bool,
    found: &mut Vec<ScriptFile>,
) -> Result<(), DiscoverError> {
    let pattern = spec.to_string_lossy();
    let pattern = pattern.strip_prefix("./").unwrap_or(&pattern);
    let matcher = GlobBuilder::new(pattern)
        .literal_separator(true)
        .build()
        .map_err(|error| DiscoverError::Pattern {
            pattern: pattern.to_owned(),
            problem: error.kind().to_string(),
        })?
        .compile_matcher();
    let base = pattern_base(spec);
    let mut below = Vec::new();
    walk(&base, &base, wanted, &mut BTreeSet::new(), &mut below);
    found.extend(below.into_iter().filter(|file| {
        let path = file.path.to_string_lossy();
        matcher.is_match(path.strip_prefix("./").unwrap_or(&path))
    }));
    Ok(())
}

/// Recursive, without hidden folders; a folder reached twice through links is walked once. What is wanted
/// is decided by the path below the root: where the root lies is nobody's business.
fn walk(
    root: &Path,
    folder: &Path,
    wanted: &dyn Fn(&Path) -> bool,
    visited: &mut BTreeSet<PathBuf>,
    found: &mut Vec<ScriptFile>,
) {
    let Ok(identity) = folder.canonicalize() else { return };
    if !visited.insert(identity) {
        return;
    }
    let Ok(entries) = std::fs::read_dir(folder) else {
        tracing::warn!(folder = %folder.display(), "cannot read folder");
        return;
    };
    for entry in entries.flatten() {
        let path = entry.path();
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name.starts_with('.') {
            continue;
        }
        if path.is_dir() {
            walk(root, &path, wanted, visited, found);
        } else if path.extension().is_some_and(|extension| extension == "star")
            && wanted(path.strip_prefix(root).unwrap_or(&path))
        {
            found.push(script(root, &path));
        }
    }
}

fn script(root: &Path, path: &Path) -> ScriptFile {
    let relative = path.strip_prefix(root).unwrap_or(path);
    let relative = relative.iter().map(|part| part.to_string_lossy()).collect::<Vec<_>>().join("/");
    ScriptFile { path: path.to_owned(), root: root.to_owned(), relative }
}
