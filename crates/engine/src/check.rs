//! What can be said about a file without serving it: lint, types, warnings of its declarations.

use std::collections::{HashMap, HashSet};

use starlark::analysis::{AstModuleLint, EvalSeverity};
use starlark::environment::Globals;
use starlark::syntax::AstModule;
use starlark::typing::{AstModuleTypecheck, Interface};

use crate::error::{Location, ScriptError};
use crate::nearest;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    Error,
    Warning,
    Advice,
}

/// One thing to tell the author.
#[derive(Debug, Clone)]
pub struct Finding {
    pub severity: Severity,
    /// A stable kebab-case name, for example `unknown-type`.
    pub code: String,
    pub error: ScriptError,
}

impl Finding {
    pub(crate) fn warning(code: &str, error: ScriptError) -> Finding {
        Finding { severity: Severity::Warning, code: code.to_owned(), error }
    }

    pub fn error(code: &str, error: ScriptError) -> Finding {
        Finding { severity: Severity::Error, code: code.to_owned(), error }
    }

    pub fn location(&self) -> Option<&Location> {
        self.error.location.as_ref()
    }

    /// As [`ScriptError::render`], with the severity in front.
    pub fn render(&self) -> String {
        let rendered = self.error.render();
        let label = match self.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Advice => "advice",
        };
        let message = rendered.strip_prefix("error").unwrap_or(&rendered);
        format!("{label}[{}]{message}", self.code)
    }
}

/// Lints that contradict how tools are written: handlers take parameters they do not use, modules
/// export what only others use, and Starlark has no generators that `any([…])` could take instead.
const SILENCED: [&str; 4] =
    ["unused-argument", "using-ignored", "duplicate-key-dubious", "eager-and-inefficient-bool-check"];

pub(crate) fn lint(ast: &AstModule, globals: &Globals) -> Vec<Finding> {
    let names: HashSet<String> = globals.names().map(|name| name.as_str().to_owned()).collect();
    ast.lint(Some(&names))
        .into_iter()
        .filter(|lint| !SILENCED.contains(&lint.short_name.as_str()))
        .filter_map(|lint| {
            let severity = match lint.severity {
                // A name that does not exist fails when the line runs; nothing else is certain.
                EvalSeverity::Error => Severity::Error,
                EvalSeverity::Warning => Severity::Warning,
                EvalSeverity::Advice => Severity::Advice,
                EvalSeverity::Disabled => return None,
            };
            let mut error =
                ScriptError::new(crate::ErrorKind::Name, lint.problem.clone()).at_span(&lint.location);
            if lint.short_name == "using-undefined" {
                let name = lint.original.as_str();
                error.message = format!("`{name}` is not defined");
                if let Some(known) = nearest(name, names.iter().map(String::as_str)) {
                    error = error.with_hint(format!("did you mean `{known}`?"));
                }
                return Some(Finding { severity: Severity::Error, code: "undefined-name".to_owned(), error });
            }
            Some(Finding { severity, code: lint.short_name, error })
        })
        .collect()
}

/// Static type errors, and the interface others check against.
pub(crate) fn typecheck(
    ast: AstModule,
    globals: &Globals,
    loads: &HashMap<String, Interface>,
) -> (Vec<Finding>, Interface) {
    let (errors, _types, interface, _approximations) = ast.typecheck(globals, loads);
    let findings = errors
        .into_iter()
        // Names are the linter's business; it suggests what was meant.
        .filter(|error| !matches!(error.kind(), starlark::ErrorKind::Scope(_)))
        .map(|error| Finding::error("type", ScriptError::from_starlark(error, None)))
        .collect();
    (findings, interface)
}
