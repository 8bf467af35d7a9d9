//! The second form: a file of plain functions, each documented public one a tool.

use starlark::codemap::FileSpan;
use starlark::docs::{DocFunction, DocItem, DocMember};
use starlark::environment::{FrozenModule, Module};
use starlark::syntax::AstModule;
use starlark::typing::{Ty, TyBasic};
use starlark::values::{OwnedFrozenValue, Value};
use starlark_syntax::syntax::ast::{AstStmt, StmtP};

use crate::check::Finding;
use crate::declare::{Capabilities, Extension, Reader, Tool};
use crate::error::{ErrorKind, ScriptError, locate};
use crate::run::{Convention, Handler};
use crate::schema::annotation;
use crate::{Json, JsonObject};

/// What the module itself says about the source, read before it is frozen.
pub(crate) struct ModuleFacts {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) description: String,
    pub(crate) capabilities: Capabilities,
    pub(crate) export: Option<Vec<String>>,
}

pub(crate) fn module_facts<'v>(module: &Module<'v>, stem: &str, reader: &mut Reader<'v, '_>) -> ModuleFacts {
    let at = reader.fallback.clone();
    // A function may be called `name`; only a text or a list is meant for us.
    let text = |key: &str| module.get(key).and_then(|value| value.unpack_str()).map(str::to_owned);
    let mut list = |key: &str| {
        let value = module.get(key).filter(|value| is_list_like(*value))?;
        reader.name_list(value, key, &at)
    };
    ModuleFacts {
        name: text("name").unwrap_or_else(|| stem.to_owned()),
        version: text("version").unwrap_or_default(),
        description: text("description").unwrap_or_default(),
        capabilities: Capabilities {
            exec: list("allowed_exec").unwrap_or_default(),
            hosts: list("allowed_hosts"),
            env: list("allowed_env"),
            paths: list("allowed_paths"),
        },
        export: list("export"),
    }
}

fn is_list_like(value: Value) -> bool {
    matches!(value.get_type(), "list" | "tuple")
}

/// Top-level functions defined in the text itself, in order.
pub(crate) fn defined_functions(ast: &AstModule) -> Vec<(String, FileSpan)> {
    fn collect(statement: &AstStmt, ast: &AstModule, found: &mut Vec<(String, FileSpan)>) {
        match &statement.node {
            StmtP::Statements(statements) => statements.iter().for_each(|inner| collect(inner, ast, found)),
            StmtP::Def(def) => {
                found.push((def.name.node.ident.clone(), ast.file_span(def.signature_span())));
            }
            _ => {}
        }
    }
    let mut found = Vec::new();
    collect(ast.statement(), ast, &mut found);
    found
}

/// Makes tools of the functions, and says what was left out and why.
pub(crate) fn extension_of_functions(
    facts: ModuleFacts,
    ast: &AstModule,
    module: &FrozenModule,
    errors: &mut Vec<ScriptError>,
    warnings: &mut Vec<Finding>,
) -> Extension {
    let functions = defined_functions(ast);
    if let Some(export) = &facts.export {
        let fallback = functions.first().map(|(_, span)| span);
        for name in export.iter().filter(|name| !functions.iter().any(|(known, _)| known == *name)) {
            let mut error = ScriptError::new(
                ErrorKind::Declaration,
                format!("`export` names `{name}`, which the file does not define"),
            );
            if let Some(known) = crate::nearest(name, functions.iter().map(|(known, _)| known.as_str())) {
                error = error.with_hint(format!("did you mean `{known}`?"));
            }
            errors.push(match fallback {
                Some(span) => error.at_span(span),
                None => error,
            });
        }
    }
    let mut tools: Vec<Tool> = Vec::new();
    for (name, span) in functions {
        let exported = match &facts.export {
            Some(export) => export.contains(&name),
            None => !name.starts_with('_'),
        };
        if !exported {
            continue;
        }
        // A later `def` of the same name is the one that runs.
        if let Some(earlier) = tools.iter().position(|tool| tool.name == name) {
            tools.remove(earlier);
        }
        let Ok(function) = module.get_any_visibility(&name).map(|(value, _)| value) else { continue };
        let DocItem::Member(DocMember::Function(docs)) = function.value().documentation() else { continue };
        if docs.docs.is_none() {
            let error = ScriptError::new(
                ErrorKind::Declaration,
                format!("`{name}` has no docstring, so it is not served"),
            )
            .with_hint(
                "a docstring tells the model what the tool does; start the name with `_` to keep it private",
            );
            warnings.push(Finding::warning("no-docstring", error.at_span(&span)));
            continue;
        }
        match tool_of_function(name, &docs, function, module, &span) {
            Ok(tool) => tools.push(tool),
            Err(error) => errors.push(error),
        }
    }
    Extension {
        name: facts.name,
        version: facts.version,
        description: facts.description,
        tools,
        capabilities: facts.capabilities,
    }
}

fn tool_of_function(
    name: String,
    docs: &DocFunction,
    function: OwnedFrozenValue,
    module: &FrozenModule,
    span: &FileSpan,
) -> Result<Tool, ScriptError> {
    if let Some(positional) = docs.params.pos_only.first() {
        let message = format!(
            "`{name}`: arguments arrive by name, so `{}` must not be positional-only",
            positional.name
        );
        return Err(ScriptError::new(ErrorKind::Declaration, message).at_span(span));
    }
    let mut properties = JsonObject::new();
    let mut required = Vec::new();
    let (mut floats, mut enums) = (Vec::new(), Vec::new());
    for parameter in docs.params.pos_or_named.iter().chain(&docs.params.named_only) {
        let annotation = annotation(&parameter.typ);
        let mut schema = annotation.schema;
        if let Some(type_name) = custom_type(&parameter.typ) {
            let Some((constructor, members)) = enumeration(type_name, module) else {
                let message = format!(
                    "`{name}`: JSON cannot carry a `{type_name}`, so `{}` cannot be one",
                    parameter.name
                );
                let error = ScriptError::new(ErrorKind::Declaration, message)
                    .with_hint("take a dict or a list and build the value from it");
                return Err(error.at_span(span));
            };
            schema = enum_schema(members, annotation.may_be_none);
            enums.push((parameter.name.clone(), constructor));
        }
        if let Some(widen) = annotation.widen {
            floats.push((parameter.name.clone(), widen));
        }
        if let Some(text) = &parameter.docs {
            schema.insert("description".to_owned(), Json::from(described(text)));
        }
        match &parameter.default_value {
            None => required.push(Json::from(parameter.name.as_str())),
            Some(written) => {
                // `None` as a default says "absent", which needs no saying unless null is a value too.
                if let Some(default) =
                    literal(written).filter(|value| !value.is_null() || annotation.may_be_none)
                {
                    schema.insert("default".to_owned(), default);
                }
            }
        }
        properties.insert(parameter.name.clone(), Json::Object(schema));
    }
    let input_schema = JsonObject::from_iter([
        ("type".to_owned(), Json::from("object")),
        ("properties".to_owned(), Json::Object(properties)),
        ("required".to_owned(), Json::Array(required)),
    ]);
    let (output_schema, wraps) = output_schema(docs);
    Ok(Tool {
        name,
        title: None,
        description: docs.docs.as_ref().map(described).unwrap_or_default(),
        input_schema,
        output_schema,
        annotations: None,
        icons: None,
        meta: None,
        timeout: None,
        strict_args: docs.params.kwargs.is_none(),
        handler: Handler { function, convention: Convention::Named { floats, enums }, wraps_result: wraps },
        location: locate(span).0,
    })
}

/// The name of a type the file itself made: an enum or a record.
fn custom_type(ty: &Ty) -> Option<&str> {
    ty.iter_union().iter().find_map(|basic| match basic {
        TyBasic::Custom(_) => basic.as_name(),
        _ => None,
    })
}

/// An `enum(…)` by its name in the file: what makes a member of a text, and the texts.
fn enumeration(name: &str, module: &FrozenModule) -> Option<(OwnedFrozenValue, Vec<Json>)> {
    let (constructor, _) = module.get_any_visibility(name).ok()?;
    let members = Module::with_temp_heap(|temporary| {
        let heap = temporary.heap();
        let members = heap.access_owned_frozen_value(&constructor).iterate(heap).ok()?;
        members.map(|member| crate::convert::from_starlark(member, heap).ok()).collect::<Option<Vec<_>>>()
    })?;
    (!members.is_empty()).then_some((constructor, members))
}

fn enum_schema(mut members: Vec<Json>, may_be_none: bool) -> JsonObject {
    let mut schema = JsonObject::new();
    if may_be_none {
        members.push(Json::Null);
    } else if members.iter().all(Json::is_string) {
        schema.insert("type".to_owned(), Json::from("string"));
    }
    schema.insert("enum".to_owned(), Json::Array(members));
    schema
}

fn described(docs: &starlark::docs::DocString) -> String {
    match &docs.details {
        Some(details) => format!("{}\n\n{details}", docs.summary),
        None => docs.summary.clone(),
    }
}

/// The schema of `-> T`. MCP wants an object, so anything else is served as `{"result": …}`.
fn output_schema(docs: &DocFunction) -> (Option<JsonObject>, bool) {
    let schema = annotation(&docs.ret.typ).schema;
    // `-> dict` says nothing about its keys; such a function may as well return a full MCP result.
    let bare_object = schema.len() == 1 && schema.get("type") == Some(&Json::from("object"));
    if schema.is_empty() || bare_object {
        return (None, false);
    }
    if schema.get("type") == Some(&Json::from("object")) {
        return (Some(schema), false);
    }
    let wrapped = serde_json::json!({
        "type": "object",
        "properties": {"result": schema},
        "required": ["result"],
    });
    match wrapped {
        Json::Object(wrapped) => (Some(wrapped), true),
        _ => (None, false),
    }
}

/// A default as the interpreter prints it, if it is plain data.
fn literal(written: &str) -> Option<Json> {
    match written {
        "None" => return Some(Json::Null),
        "True" => return Some(Json::Bool(true)),
        "False" => return Some(Json::Bool(false)),
        _ => {}
    }
    serde_json::from_str(written).ok().or_else(|| evaluate_literal(written))
}

fn evaluate_literal(written: &str) -> Option<Json> {
    let ast = crate::compile::parse("<default>", written).ok()?;
    let globals = starlark::environment::Globals::new();
    Module::with_temp_heap(|module| {
        let mut eval = starlark::eval::Evaluator::new(&module);
        let value = eval.eval_module(ast, &globals).ok()?;
        crate::convert::from_starlark(value, module.heap()).ok()
    })
}
