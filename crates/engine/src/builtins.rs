//! Builtins that belong to no module: errors, output, content, calls of other tools.

use starlark::collections::SmallMap;
use starlark::environment::GlobalsBuilder;
use starlark::eval::Evaluator;
use starlark::values::dict::AllocDict;
use starlark::values::list::AllocList;
use starlark::values::none::{NoneOr, NoneType};
use starlark::values::string::StarlarkStr;
use starlark::values::structs::AllocStruct;
use starlark::values::tuple::UnpackTuple;
use starlark::values::typing::StarlarkNever;
use starlark::values::{StringValue, Value};
use starloom_builtins_macro::builtins;

use crate::context::{argument_json, perform, perform_value, try_call};
use crate::convert::{alloc_dict, check_printable};
use crate::effect::Effect;
use crate::error::Uncatchable;
use crate::limits::Watch;
use crate::{Json, JsonObject};

/// The levels of RFC 5424, as MCP names them.
const LEVELS: [&str; 8] = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];

/// The value as `str` writes it, unless it is too deep or too large to be written.
pub(crate) fn printable(value: Value) -> anyhow::Result<String> {
    if let Some(text) = value.unpack_str() {
        Watch::require_current_memory(text.len())?;
        return Ok(text.to_owned());
    }
    check_printable(value).map_err(anyhow::Error::msg)?;
    Ok(value.to_str())
}

fn joined(args: &UnpackTuple<Value>) -> anyhow::Result<String> {
    let texts = args.items.iter().map(|value| printable(*value)).collect::<anyhow::Result<Vec<_>>>()?;
    Ok(texts.join(" "))
}

/// Optional keys of a content block.
fn with_optional<'v>(
    eval: &Evaluator<'v, '_, '_>,
    required: &[(&'static str, Value<'v>)],
    optional: &[(&'static str, Option<Value<'v>>)],
) -> Value<'v> {
    let given = optional.iter().filter_map(|(key, value)| value.filter(|v| !v.is_none()).map(|v| (*key, v)));
    eval.heap().alloc(AllocDict(required.iter().copied().chain(given)))
}

#[builtins]
pub(crate) fn register(globals: &mut GlobalsBuilder) {
    /// The value as text; a string stays as it is.
    #[starlark(as_type = StarlarkStr)]
    fn str<'v>(
        #[starlark(require = pos)] x: Value<'v>,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> anyhow::Result<StringValue<'v>> {
        match StringValue::new(x) {
            Some(text) => Ok(text),
            None => Ok(eval.heap().alloc_str(&printable(x)?)),
        }
    }

    /// The value as it would be written in a script.
    fn repr<'v>(
        #[starlark(require = pos)] x: Value<'v>,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> anyhow::Result<StringValue<'v>> {
        check_printable(x).map_err(anyhow::Error::msg)?;
        Ok(eval.heap().alloc_str(&x.to_repr()))
    }

    /// Ends the call with an error; the caller sees the message.
    fn fail(#[starlark(args)] args: UnpackTuple<Value>) -> starlark::Result<StarlarkNever> {
        let message = joined(&args).map_err(starlark::Error::new_native)?;
        Err(starlark::Error::new_kind(starlark::ErrorKind::Fail(anyhow::Error::msg(message))))
    }

    /// Writes to the log, never to the protocol.
    fn print<'v>(
        #[starlark(args)] args: UnpackTuple<Value<'v>>,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> anyhow::Result<NoneType> {
        let message = joined(&args)?;
        perform(eval, Effect::Log { level: "info".to_owned(), message, fields: JsonObject::new() })?;
        Ok(NoneType)
    }

    /// Writes to the log with a level of RFC 5424 and any fields.
    ///
    /// Args:
    ///     message: what happened
    ///     level: debug, info, notice, warning, error, critical, alert or emergency
    ///     fields: anything worth keeping beside the message
    fn log<'v>(
        message: Value<'v>,
        #[starlark(default = "info")] level: &str,
        #[starlark(kwargs)] fields: SmallMap<String, Value<'v>>,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> anyhow::Result<NoneType> {
        if !LEVELS.contains(&level) {
            let hint = crate::nearest(level, LEVELS).map(|known| format!(", did you mean `{known}`?"));
            anyhow::bail!("log: unknown level `{level}`{}", hint.unwrap_or_default());
        }
        let mut object = JsonObject::new();
        for (key, value) in fields {
            object.insert(key.clone(), argument_json(&format!("log: {key}"), value, eval)?);
        }
        perform(eval, Effect::Log { level: level.to_owned(), message: printable(message)?, fields: object })?;
        Ok(NoneType)
    }

    /// Calls `function` and returns `struct(ok, value, error)` instead of failing.
    ///
    /// Limits and cancellation still end the call. Args and keywords go to the function.
    fn attempt<'v>(
        #[starlark(require = pos)] function: Value<'v>,
        #[starlark(args)] args: UnpackTuple<Value<'v>>,
        #[starlark(kwargs)] kwargs: SmallMap<String, Value<'v>>,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> starlark::Result<Value<'v>> {
        let named: Vec<(&str, Value)> = kwargs.iter().map(|(key, value)| (key.as_str(), *value)).collect();
        let outcome = try_call(eval, function, &args.items, &named)?;
        let heap = eval.heap();
        let (ok, value, error) = match outcome {
            Ok(value) => (true, value, Value::new_none()),
            Err(error) => (false, Value::new_none(), heap.alloc(error.message)),
        };
        Ok(heap.alloc(AllocStruct([("ok", Value::new_bool(ok)), ("value", value), ("error", error)])))
    }

    /// Waits without keeping others from running.
    fn sleep<'v>(
        seconds: starlark::values::float::UnpackFloat,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> anyhow::Result<NoneType> {
        anyhow::ensure!(seconds.0.is_finite() && seconds.0 >= 0.0, "sleep: seconds must not be negative");
        perform(eval, Effect::Sleep { seconds: seconds.0 })?;
        Ok(NoneType)
    }

    /// Calls another tool and returns its result dict, `isError` included; it never raises.
    ///
    /// Args:
    ///     name: a name in the caller's view, or `source/tool`
    ///     args: dict of arguments
    ///     timeout: seconds
    fn call_tool<'v>(
        name: &str,
        args: Option<Value<'v>>,
        #[starlark(default = NoneOr::None)] timeout: NoneOr<starlark::values::float::UnpackFloat>,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> anyhow::Result<Value<'v>> {
        let arguments = match args.filter(|args| !args.is_none()) {
            None => JsonObject::new(),
            Some(args) => match argument_json("call_tool: args", args, eval)? {
                Json::Object(object) => object,
                _ => anyhow::bail!("call_tool: args must be a dict, got: {}", args.get_type()),
            },
        };
        let timeout = timeout.into_option().map(|seconds| seconds.0);
        perform_value(eval, Effect::CallTool { name: name.to_owned(), arguments, timeout })
    }

    /// Tells clients that `tools`, `resources`, `prompts` or the resource with this URI changed.
    fn notify_changed<'v>(what: &str, eval: &mut Evaluator<'v, '_, '_>) -> anyhow::Result<NoneType> {
        perform(eval, Effect::NotifyChanged { what: what.to_owned() })?;
        Ok(NoneType)
    }

    /// Ends the call with a JSON-RPC error instead of a result.
    fn mcp_error<'v>(
        code: i64,
        message: &str,
        data: Option<Value<'v>>,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> anyhow::Result<StarlarkNever> {
        let data = match data.filter(|data| !data.is_none()) {
            Some(data) => Some(argument_json("mcp_error: data", data, eval)?),
            None => None,
        };
        Err(Uncatchable::Protocol { code, message: message.to_owned(), data }.into())
    }

    /// A text block.
    fn text<'v>(
        text: Value<'v>,
        #[starlark(require = named)] annotations: Option<Value<'v>>,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> anyhow::Result<Value<'v>> {
        let heap = eval.heap();
        let text = heap.alloc(printable(text)?);
        Ok(with_optional(
            eval,
            &[("type", heap.alloc("text")), ("text", text)],
            &[("annotations", annotations)],
        ))
    }

    /// An image block; `data` is base64 text.
    fn image<'v>(
        data: &str,
        #[starlark(default = "image/png")] mime_type: &str,
        #[starlark(require = named)] annotations: Option<Value<'v>>,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> anyhow::Result<Value<'v>> {
        let heap = eval.heap();
        let required =
            [("type", heap.alloc("image")), ("data", heap.alloc(data)), ("mimeType", heap.alloc(mime_type))];
        Ok(with_optional(eval, &required, &[("annotations", annotations)]))
    }

    /// An audio block; `data` is base64 text.
    fn audio<'v>(
        data: &str,
        #[starlark(default = "audio/wav")] mime_type: &str,
        #[starlark(require = named)] annotations: Option<Value<'v>>,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> anyhow::Result<Value<'v>> {
        let heap = eval.heap();
        let required =
            [("type", heap.alloc("audio")), ("data", heap.alloc(data)), ("mimeType", heap.alloc(mime_type))];
        Ok(with_optional(eval, &required, &[("annotations", annotations)]))
    }

    /// A resource inside the result: `text`, or `blob` as base64 text.
    fn embedded_resource<'v>(
        uri: &str,
        #[starlark(default = NoneOr::None)] text: NoneOr<&str>,
        #[starlark(require = named, default = NoneOr::None)] blob: NoneOr<&str>,
        #[starlark(require = named, default = NoneOr::None)] mime_type: NoneOr<&str>,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> anyhow::Result<Value<'v>> {
        let heap = eval.heap();
        let mut resource = vec![("uri", heap.alloc(uri))];
        if let Some(mime_type) = mime_type.into_option() {
            resource.push(("mimeType", heap.alloc(mime_type)));
        }
        match (text.into_option(), blob.into_option()) {
            (Some(text), None) => resource.push(("text", heap.alloc(text))),
            (None, Some(blob)) => resource.push(("blob", heap.alloc(blob))),
            _ => anyhow::bail!("embedded_resource: give either `text` or `blob`"),
        }
        let resource = alloc_dict(heap, resource);
        Ok(alloc_dict(heap, [("type", heap.alloc("resource")), ("resource", resource)]))
    }

    /// A link to a resource the client may read.
    fn resource_link<'v>(
        uri: &str,
        name: &str,
        #[starlark(require = named)] title: Option<Value<'v>>,
        #[starlark(require = named)] description: Option<Value<'v>>,
        #[starlark(require = named)] mime_type: Option<Value<'v>>,
        #[starlark(require = named)] size: Option<Value<'v>>,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> anyhow::Result<Value<'v>> {
        let heap = eval.heap();
        let required =
            [("type", heap.alloc("resource_link")), ("uri", heap.alloc(uri)), ("name", heap.alloc(name))];
        let optional =
            [("title", title), ("description", description), ("mimeType", mime_type), ("size", size)];
        Ok(with_optional(eval, &required, &optional))
    }

    /// A result that tells the model what went wrong.
    fn error_result<'v>(
        message: Value<'v>,
        #[starlark(require = named)] structured: Option<Value<'v>>,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> anyhow::Result<Value<'v>> {
        let heap = eval.heap();
        let text = heap.alloc(printable(message)?);
        let block = alloc_dict(heap, [("type", heap.alloc("text")), ("text", text)]);
        let required = [("content", heap.alloc(AllocList([block]))), ("isError", Value::new_bool(true))];
        Ok(with_optional(eval, &required, &[("structuredContent", structured)]))
    }
}
