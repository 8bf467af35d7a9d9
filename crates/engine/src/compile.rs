//! One dialect, one way from text to a syntax tree.

use starlark::syntax::{AstModule, Dialect, DialectTypes};

use crate::error::ScriptError;
use crate::guard;
use crate::scan;

/// The dialect of server, test and check alike: types, f-strings, keyword-only arguments, statements
/// at top level.
pub(crate) fn dialect() -> Dialect {
    Dialect {
        enable_def: true,
        enable_lambda: true,
        enable_load: true,
        enable_keyword_only_arguments: true,
        enable_positional_only_arguments: true,
        enable_types: DialectTypes::Enable,
        enable_load_reexport: true,
        enable_top_level_stmt: true,
        enable_f_strings: true,
        ..Dialect::Standard
    }
}

/// The tree of the text as written, for looking at.
pub(crate) fn parse(file: &str, source: &str) -> Result<AstModule, ScriptError> {
    scan::check_depth(file, source)?;
    // A byte order mark is an editor's business, not the author's.
    let source = source.strip_prefix('\u{feff}').unwrap_or(source);
    AstModule::parse(file, source.to_owned(), &dialect())
        .map_err(|error| ScriptError::from_starlark(error, None))
}

/// The tree to run: as written, with its growing operators guarded.
pub(crate) fn guarded(ast: &AstModule, file: &str, source: &str) -> Result<AstModule, ScriptError> {
    let source = source.strip_prefix('\u{feff}').unwrap_or(source);
    let mut ast = match guard::guard_assignments(ast, source) {
        Some(text) => AstModule::parse(file, text, &dialect())
            .map_err(|error| ScriptError::from_starlark(error, None))?,
        None => ast.clone(),
    };
    guard::guard_operators(&mut ast);
    Ok(ast)
}
