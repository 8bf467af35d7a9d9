//! What has to be evaluated for a file, and in which order: reads, parses and resolves `load()`, runs nothing.

use sha2::{Digest, Sha256};
use starlark::codemap::FileSpan;
use starlark::syntax::AstModule;

use crate::compile::parse;
use crate::error::{ErrorKind, ScriptError};
use crate::files::{Files, ModulePath};
use crate::run::contain_panics;

/// A file and all it loads, parsed and in the order to evaluate.
pub(crate) struct Plan {
    pub(crate) files: Vec<PlannedFile>,
}

pub(crate) struct PlannedFile {
    pub(crate) path: ModulePath,
    pub(crate) display: String,
    pub(crate) source: String,
    pub(crate) ast: AstModule,
    /// What each `load("…")` of the text means: index into `Plan::files`.
    pub(crate) loads: Vec<(String, usize)>,
    pub(crate) key: [u8; 32],
}

impl Plan {
    /// Reads and parses a file and everything it loads; finds cycles before anything runs.
    pub(crate) fn new(files: &dyn Files, path: &str) -> Result<Plan, ScriptError> {
        let Some(path) = ModulePath::new(path) else {
            return Err(ScriptError::new(
                ErrorKind::Load,
                format!("`{path}` is outside of the source's root"),
            ));
        };
        let mut plan = Plan { files: Vec::new() };
        let mut under_way = Vec::new();
        contain_panics(|| plan_file(files, path, None, &mut plan, &mut under_way))?;
        Ok(plan)
    }
}

fn plan_file(
    files: &dyn Files,
    path: ModulePath,
    loaded_from: Option<&FileSpan>,
    plan: &mut Plan,
    under_way: &mut Vec<ModulePath>,
) -> Result<usize, ScriptError> {
    if let Some(known) = plan.files.iter().position(|file| file.path == path) {
        return Ok(known);
    }
    let point = |error: ScriptError| match loaded_from {
        Some(span) => error.at_span(span),
        None => error,
    };
    if let Some(start) = under_way.iter().position(|open| *open == path) {
        let mut cycle: Vec<&str> = under_way[start..].iter().map(ModulePath::as_str).collect();
        cycle.push(path.as_str());
        return Err(point(ScriptError::new(
            ErrorKind::Load,
            format!("files load each other: {}", cycle.join(" → ")),
        )));
    }
    if under_way.len() > 64 {
        return Err(point(ScriptError::new(ErrorKind::Load, "`load()` nested deeper than 64 files")));
    }
    let display = files.display(path.as_str());
    let source = files.read(path.as_str()).map_err(|problem| {
        point(ScriptError::new(ErrorKind::Load, format!("cannot read `{display}`: {problem}")))
    })?;
    let ast = parse(&display, &source)?;
    under_way.push(path.clone());
    let mut loads = Vec::new();
    let mut digest = Sha256::new();
    digest.update(display.as_bytes());
    digest.update([0]);
    digest.update(source.as_bytes());
    for load in ast.loads() {
        let target = resolve_load(files, &path, load.module_id)
            .map_err(|problem| ScriptError::new(ErrorKind::Load, problem).at_span(&load.span))?;
        let index = plan_file(files, target, Some(&load.span), plan, under_way)?;
        digest.update(plan.files[index].key);
        loads.push((load.module_id.to_owned(), index));
    }
    under_way.pop();
    plan.files.push(PlannedFile { path, display, source, ast, loads, key: digest.finalize().into() });
    Ok(plan.files.len() - 1)
}

/// `load("x.star")` and `load("x")` beside the file, then below the root; `load("//x.star")` below the root.
fn resolve_load(files: &dyn Files, from: &ModulePath, text: &str) -> Result<ModulePath, String> {
    if text.starts_with('@') {
        return Err(format!("there is no library `{text}`"));
    }
    let (bases, rest): (Vec<Vec<&str>>, &str) = match text.strip_prefix("//") {
        Some(rest) => (vec![Vec::new()], rest),
        None => (vec![from.folder(), Vec::new()], text),
    };
    let mut escaped = false;
    for base in &bases {
        for spelling in [rest.to_owned(), format!("{rest}.star")] {
            match ModulePath::resolve(base, &spelling) {
                None => escaped = true,
                Some(path) if path.as_str().ends_with(".star") && files.exists(path.as_str()) => {
                    return Ok(path);
                }
                Some(_) => {}
            }
        }
    }
    if escaped {
        return Err(format!("`load(\"{text}\")` leaves the source's root"));
    }
    Err(format!("there is no `{text}` beside this file or below the source's root"))
}
