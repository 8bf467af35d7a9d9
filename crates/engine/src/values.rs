//! `Extension`, `Tool` and `ToolParameter`: constructors that check their arguments and return plain
//! dicts, so that a dict written by hand works as well.

use starlark::codemap::FileSpan;
use starlark::environment::GlobalsBuilder;
use starlark::eval::Evaluator;
use starlark::values::Value;
use starlark::values::dict::AllocDict;
use starlark::values::list::AllocList;
use starlark::values::none::NoneOr;
use starloom_builtins_macro::builtins;

use crate::context::Context;

/// Remembers where a declaration was written. Outside of loading there is nobody to tell.
fn remember(eval: &Evaluator, kind: &'static str, name: &str) {
    if let (Ok(context), Some(span)) = (Context::of(eval), eval.call_stack_top_location()) {
        context.sites.borrow_mut().add(kind, name, span);
    }
}

/// The keys every dict of this kind has, and those it has only when they were given.
fn declared<'v>(
    eval: &Evaluator<'v, '_, '_>,
    always: &[(&'static str, Value<'v>)],
    if_given: &[(&'static str, Option<Value<'v>>)],
) -> Value<'v> {
    let given = if_given.iter().filter_map(|(key, value)| value.filter(|v| !v.is_none()).map(|v| (*key, v)));
    eval.heap().alloc(AllocDict(always.iter().copied().chain(given)))
}

#[builtins]
pub(crate) fn register(globals: &mut GlobalsBuilder) {
    /// What `describe_extension()` returns: a named set of tools and what they may reach.
    ///
    /// Args:
    ///     name: unique among all sources; policies and logs use it
    ///     version: shown to people
    ///     description: shown to people
    ///     tools: list of `Tool`
    ///     allowed_exec: commands `exec.run` may start; without it none
    ///     allowed_hosts: hosts `http` and `postgres` may reach, `*.example.com` for subdomains
    ///     allowed_env: variables `env.get` may read, `AWS_*` for a prefix
    ///     allowed_paths: folders and files `sqlite` may open
    fn Extension<'v>(
        name: &str,
        version: &str,
        description: &str,
        tools: Option<Value<'v>>,
        allowed_exec: Option<Value<'v>>,
        #[starlark(require = named)] allowed_hosts: Option<Value<'v>>,
        #[starlark(require = named)] allowed_env: Option<Value<'v>>,
        #[starlark(require = named)] allowed_paths: Option<Value<'v>>,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> anyhow::Result<Value<'v>> {
        remember(eval, "extension", name);
        let heap = eval.heap();
        let tools = tools.unwrap_or_else(|| heap.alloc(AllocList::EMPTY));
        Ok(declared(
            eval,
            &[
                ("name", heap.alloc(name)),
                ("version", heap.alloc(version)),
                ("description", heap.alloc(description)),
                ("tools", tools),
                ("allowed_exec", allowed_exec.unwrap_or(Value::new_none())),
            ],
            &[
                ("allowed_hosts", allowed_hosts),
                ("allowed_env", allowed_env),
                ("allowed_paths", allowed_paths),
            ],
        ))
    }

    /// One tool. The handler is called with one dict of arguments.
    ///
    /// Args:
    ///     name: what clients call it
    ///     description: what it does, for the model that chooses it
    ///     parameters: list of `ToolParameter`
    ///     handler: any function of one parameter; lambdas and closures too
    ///     title: a name for people
    ///     annotations: dict of `readOnlyHint`, `destructiveHint`, `idempotentHint`, `openWorldHint`, `title`
    ///     output_schema: JSON Schema of `structuredContent`, which is checked against it
    ///     input_schema: JSON Schema of the arguments, instead of `parameters`
    ///     icons: list of dicts with `src`, `mimeType`, `sizes`
    ///     meta: dict for the tool's `_meta`
    ///     timeout: seconds a call may take, up to 600
    ///     strict_args: `False` lets arguments through that the schema does not name
    fn Tool<'v>(
        name: &str,
        description: &str,
        parameters: Option<Value<'v>>,
        handler: Option<Value<'v>>,
        #[starlark(default = NoneOr::None)] title: NoneOr<&str>,
        annotations: Option<Value<'v>>,
        output_schema: Option<Value<'v>>,
        #[starlark(require = named)] input_schema: Option<Value<'v>>,
        #[starlark(require = named)] icons: Option<Value<'v>>,
        #[starlark(require = named)] meta: Option<Value<'v>>,
        #[starlark(require = named)] timeout: Option<Value<'v>>,
        #[starlark(require = named)] strict_args: Option<Value<'v>>,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> anyhow::Result<Value<'v>> {
        remember(eval, "tool", name);
        let Some(handler) = handler else {
            anyhow::bail!("tool `{name}` has no `handler`");
        };
        let heap = eval.heap();
        let none = Value::new_none();
        Ok(declared(
            eval,
            &[
                ("name", heap.alloc(name)),
                ("description", heap.alloc(description)),
                ("parameters", parameters.unwrap_or(none)),
                ("handler", handler),
                ("title", title.into_option().map_or(none, |title| heap.alloc(title))),
                ("annotations", annotations.unwrap_or(none)),
                ("output_schema", output_schema.unwrap_or(none)),
            ],
            &[
                ("input_schema", input_schema),
                ("icons", icons),
                ("meta", meta),
                ("timeout", timeout),
                ("strict_args", strict_args),
            ],
        ))
    }

    /// One parameter of a tool.
    ///
    /// Args:
    ///     name: the argument's key
    ///     param_type: `string`, `integer`, `number`, `boolean`, `array`, `object` or `any`
    ///     required: whether a call without it is refused
    ///     default: used when the argument is absent
    ///     description: for the model that fills it in
    ///     items: for arrays: a type name, or a JSON Schema
    ///     enum: list of the values allowed
    ///     minimum: smallest number allowed
    ///     maximum: largest number allowed
    ///     pattern: regular expression a string must match
    ///     format: JSON Schema format, for example `date`
    ///     min_length: shortest string allowed
    ///     max_length: longest string allowed
    ///     min_items: shortest array allowed
    ///     max_items: longest array allowed
    ///     properties: for objects: dict of JSON Schemas, or list of `ToolParameter`
    fn ToolParameter<'v>(
        name: &str,
        param_type: &str,
        #[starlark(default = NoneOr::None)] required: NoneOr<bool>,
        default: Option<Value<'v>>,
        #[starlark(default = "")] description: &str,
        #[starlark(require = named)] items: Option<Value<'v>>,
        #[starlark(require = named)] r#enum: Option<Value<'v>>,
        #[starlark(require = named)] minimum: Option<Value<'v>>,
        #[starlark(require = named)] maximum: Option<Value<'v>>,
        #[starlark(require = named)] pattern: Option<Value<'v>>,
        #[starlark(require = named)] format: Option<Value<'v>>,
        #[starlark(require = named)] min_length: Option<Value<'v>>,
        #[starlark(require = named)] max_length: Option<Value<'v>>,
        #[starlark(require = named)] min_items: Option<Value<'v>>,
        #[starlark(require = named)] max_items: Option<Value<'v>>,
        #[starlark(require = named)] properties: Option<Value<'v>>,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> anyhow::Result<Value<'v>> {
        remember(eval, "parameter", name);
        let heap = eval.heap();
        let default = default.unwrap_or(Value::new_none());
        // Unsaid, a parameter is required exactly when nothing can stand in for it.
        let required = required.into_option().unwrap_or(default.is_none());
        Ok(declared(
            eval,
            &[
                ("name", heap.alloc(name)),
                ("type", heap.alloc(param_type)),
                ("required", Value::new_bool(required)),
                ("default", default),
                ("description", heap.alloc(description)),
            ],
            &[
                ("items", items),
                ("enum", r#enum),
                ("minimum", minimum),
                ("maximum", maximum),
                ("pattern", pattern),
                ("format", format),
                ("min_length", min_length),
                ("max_length", max_length),
                ("min_items", min_items),
                ("max_items", max_items),
                ("properties", properties),
            ],
        ))
    }
}

/// The places declarations were written at, in the order they ran.
#[derive(Default)]
pub struct DeclarationSites {
    sites: Vec<(&'static str, String, FileSpan)>,
}

impl DeclarationSites {
    fn add(&mut self, kind: &'static str, name: &str, span: FileSpan) {
        self.sites.push((kind, name.to_owned(), span));
    }

    /// Takes the first place not taken yet: declarations of one name are read in the order they ran.
    pub(crate) fn take(&mut self, kind: &str, name: &str) -> Option<FileSpan> {
        let at = self.sites.iter().position(|(k, n, _)| *k == kind && n == name)?;
        Some(self.sites.remove(at).2)
    }
}
