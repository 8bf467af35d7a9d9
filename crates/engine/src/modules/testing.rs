//! `testing`: assertions, and what the test runner can do for a test.

mod show;

use starlark::collections::SmallMap;
use starlark::docs::{DocItem, DocMember};
use starlark::environment::GlobalsBuilder;
use starlark::eval::Evaluator;
use starlark::values::dict::DictRef;
use starlark::values::float::UnpackFloat;
use starlark::values::none::{NoneOr, NoneType};
use starlark::values::tuple::{TupleRef, UnpackTuple};
use starlark::values::typing::StarlarkNever;
use starlark::values::{UnpackValue, Value};
use starloom_builtins_macro::builtins;

use self::show::{compared, shown};
use super::arguments::Number;
use crate::builtins::printable;
use crate::context::{argument_json, perform_value, try_call};
use crate::effect::Effect;
use crate::error::{AssertionFailed, ScriptError, Uncatchable};
use crate::{Json, JsonObject};

/// The author's message, or else ours.
fn failed(message: &str, default: impl FnOnce() -> String) -> anyhow::Error {
    let text =
        if message.is_empty() { format!("Assertion failed: {}", default()) } else { message.to_owned() };
    AssertionFailed(text).into()
}

fn equal<'v>(expected: Value<'v>, actual: Value<'v>) -> anyhow::Result<bool> {
    expected
        .equals(actual)
        .map_err(|error| anyhow::anyhow!("Error comparing values: {}", error.without_diagnostic()))
}

fn ask<'v>(
    operation: &str,
    arguments: JsonObject,
    eval: &Evaluator<'v, '_, '_>,
) -> anyhow::Result<Value<'v>> {
    perform_value(eval, Effect::Testing { operation: operation.to_owned(), arguments })
}

/// The arguments of an effect, in the order of the function's parameters.
fn arguments<const N: usize>(entries: [(&str, Json); N]) -> JsonObject {
    entries.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

fn optional<'v>(what: &str, value: NoneOr<Value<'v>>, eval: &Evaluator<'v, '_, '_>) -> anyhow::Result<Json> {
    value.into_option().map_or(Ok(Json::Null), |value| argument_json(what, value, eval))
}

fn object<'v>(
    what: &str,
    value: NoneOr<Value<'v>>,
    eval: &Evaluator<'v, '_, '_>,
) -> anyhow::Result<JsonObject> {
    let Some(value) = value.into_option() else { return Ok(JsonObject::new()) };
    match argument_json(what, value, eval)? {
        Json::Object(object) => Ok(object),
        _ => anyhow::bail!("{what} must be a dict, got: {}", value.get_type()),
    }
}

fn times(function: &str, times: NoneOr<i64>) -> anyhow::Result<Json> {
    match times.into_option() {
        None => Ok(Json::Null),
        Some(times) if times > 0 => Ok(times.into()),
        Some(times) => anyhow::bail!("testing.{function}: times must be positive, got: {times}"),
    }
}

/// A value of a variable: text, or `None` for one that is not set.
fn variable(value: Value) -> anyhow::Result<Json> {
    if value.is_none() { Ok(Json::Null) } else { Ok(Json::String(printable(value)?)) }
}

/// Whether a function takes an argument of this name.
fn takes(function: Value, name: &str) -> bool {
    let DocItem::Member(DocMember::Function(docs)) = function.documentation() else { return true };
    docs.params.kwargs.is_some() || docs.params.regular_params().any(|param| param.name == name)
}

/// Calls a function with one case of a table.
fn call_case<'v>(
    function: Value<'v>,
    case: Value<'v>,
    takes_name: bool,
    eval: &mut Evaluator<'v, '_, '_>,
) -> starlark::Result<Result<Value<'v>, ScriptError>> {
    if let Some(dict) = DictRef::from_value(case) {
        let mut kwargs = Vec::with_capacity(dict.len());
        for (key, value) in dict.iter() {
            let Some(key) = key.unpack_str() else {
                let problem =
                    format!("testing.table: the keys of a case must be strings, got: {}", key.get_type());
                return Err(starlark::Error::new_native(anyhow::Error::msg(problem)));
            };
            if takes_name || key != "name" {
                kwargs.push((key, value));
            }
        }
        return try_call(eval, function, &[], &kwargs);
    }
    if let Some(tuple) = TupleRef::from_value(case) {
        return try_call(eval, function, tuple.content(), &[]);
    }
    try_call(eval, function, &[case], &[])
}

/// How a report calls a case: its name, or what is in it.
fn case_title(index: usize, case: Value) -> String {
    let name =
        DictRef::from_value(case).and_then(|dict| dict.get_str("name")?.unpack_str().map(str::to_owned));
    match name {
        Some(name) => format!("case {index} ({name})"),
        None => format!("case {index} {}", shown(case)),
    }
}

#[builtins]
pub(crate) fn register(globals: &mut GlobalsBuilder) {
    /// Fails unless both values are equal. Shows where they differ.
    ///
    /// Args:
    ///     expected: the value that is right
    ///     actual: the value that came out
    ///     message: shown instead of the values
    fn eq<'v>(
        expected: Value<'v>,
        actual: Value<'v>,
        #[starlark(default = "")] message: &str,
    ) -> anyhow::Result<NoneType> {
        if equal(expected, actual)? {
            return Ok(NoneType);
        }
        Err(failed(message, || compared(expected, actual)))
    }

    /// Fails if both values are equal.
    ///
    /// Args:
    ///     expected: the value it must not be
    ///     actual: the value that came out
    ///     message: shown instead of the value
    fn ne<'v>(
        expected: Value<'v>,
        actual: Value<'v>,
        #[starlark(default = "")] message: &str,
    ) -> anyhow::Result<NoneType> {
        if !equal(expected, actual)? {
            return Ok(NoneType);
        }
        Err(failed(message, || format!("expected values to be different, but both are {}", shown(actual))))
    }

    /// Fails unless the value is true, not empty and not zero.
    ///
    /// Args:
    ///     value: the value
    ///     message: shown instead of the value
    fn is_true<'v>(value: Value<'v>, #[starlark(default = "")] message: &str) -> anyhow::Result<NoneType> {
        if value.to_bool() {
            return Ok(NoneType);
        }
        Err(failed(message, || format!("expected truthy value, got {}", shown(value))))
    }

    /// Fails unless the value is false, `None`, empty or zero.
    ///
    /// Args:
    ///     value: the value
    ///     message: shown instead of the value
    fn is_false<'v>(value: Value<'v>, #[starlark(default = "")] message: &str) -> anyhow::Result<NoneType> {
        if !value.to_bool() {
            return Ok(NoneType);
        }
        Err(failed(message, || format!("expected falsy value, got {}", shown(value))))
    }

    /// Fails unless `item in container`.
    ///
    /// Args:
    ///     container: list, tuple, dict (its keys), set, or string
    ///     item: what must be in it
    ///     message: shown instead of the values
    fn contains<'v>(
        container: Value<'v>,
        item: Value<'v>,
        #[starlark(default = "")] message: &str,
    ) -> anyhow::Result<NoneType> {
        let found = container
            .is_in(item)
            .map_err(|error| anyhow::anyhow!("Error checking containment: {}", error.without_diagnostic()))?;
        if found {
            return Ok(NoneType);
        }
        Err(failed(message, || format!("{} not in {}", shown(item), shown(container))))
    }

    /// Fails the test.
    ///
    /// Args:
    ///     message: why
    fn fail(message: &str) -> anyhow::Result<StarlarkNever> {
        Err(failed(message, || "testing.fail was called".to_owned()))
    }

    /// Fails unless two numbers are as good as equal.
    ///
    /// Args:
    ///     expected: the number that is right
    ///     actual: the number that came out
    ///     rel: the difference allowed, as a part of the larger number
    ///     abs: the difference allowed, however small the numbers are
    ///     message: shown instead of the numbers
    fn approx<'v>(
        expected: UnpackFloat,
        actual: UnpackFloat,
        #[starlark(default = 1e-6)] rel: Value<'v>,
        #[starlark(default = 1e-12)] abs: Value<'v>,
        #[starlark(default = "")] message: &str,
    ) -> anyhow::Result<NoneType> {
        let tolerance = |name: &str, value: Value<'v>| match UnpackFloat::unpack_value(value) {
            Ok(Some(UnpackFloat(tolerance))) if tolerance >= 0.0 => Ok(tolerance),
            _ => Err(anyhow::anyhow!("testing.approx: {name} must be a number that is not negative")),
        };
        let (rel, abs) = (tolerance("rel", rel)?, tolerance("abs", abs)?);
        let (expected, actual) = (expected.0, actual.0);
        let difference = (expected - actual).abs();
        let allowed = (rel * expected.abs().max(actual.abs())).max(abs);
        // Infinite numbers are near nothing but themselves.
        let near = expected == actual || (difference.is_finite() && difference <= allowed);
        if near {
            return Ok(NoneType);
        }
        Err(failed(message, || {
            format!(
                "expected about {expected}, got {actual}: they differ by {difference}, more than {allowed}"
            )
        }))
    }

    /// Calls a function that must fail, and returns the message of its error.
    ///
    /// Limits and cancellation still end the test. Args and keywords go to the function.
    ///
    /// Args:
    ///     function: the function to call
    ///     match: regular expression that must occur in the message
    fn raises<'v>(
        #[starlark(require = pos)] function: Value<'v>,
        #[starlark(args)] args: UnpackTuple<Value<'v>>,
        #[starlark(require = named, default = NoneOr::None)] r#match: NoneOr<&str>,
        #[starlark(kwargs)] kwargs: SmallMap<String, Value<'v>>,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> starlark::Result<String> {
        let native = starlark::Error::new_native;
        let kwargs: Vec<(&str, Value)> = kwargs.iter().map(|(key, value)| (key.as_str(), *value)).collect();
        let message = match try_call(eval, function, &args.items, &kwargs) {
            Ok(Err(error)) => error.message,
            Ok(Ok(value)) => {
                let problem = || format!("expected an error, but the call returned {}", shown(value));
                return Err(native(failed("", problem)));
            }
            // What `mcp_error` does to a call is what a test may want to see.
            Err(error) => match error.kind() {
                starlark::ErrorKind::Native(inner) => match inner.downcast_ref::<Uncatchable>() {
                    Some(Uncatchable::Protocol { message, .. }) => message.clone(),
                    _ => return Err(error),
                },
                _ => return Err(error),
            },
        };
        if let NoneOr::Other(pattern) = r#match
            && !super::re::occurs("testing.raises", pattern, &message).map_err(native)?
        {
            let problem = || format!("the error {message:?} does not match {pattern:?}");
            return Err(native(failed("", problem)));
        }
        Ok(message)
    }

    /// Calls a function once for each case, and fails with all that failed.
    ///
    /// Args:
    ///     cases: list of dicts, which become keyword arguments, or of tuples. A `name` in a dict names the
    ///         case in reports, and is passed on only to a function that takes it
    ///     fn: the function
    fn table<'v>(
        cases: Value<'v>,
        r#fn: Value<'v>,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> starlark::Result<NoneType> {
        let native = starlark::Error::new_native;
        let cases: Vec<Value> = match cases.iterate(eval.heap()) {
            Ok(cases) => cases.collect(),
            Err(_) => {
                let problem = format!("testing.table: cases must be a list, got: {}", cases.get_type());
                return Err(native(anyhow::Error::msg(problem)));
            }
        };
        let takes_name = takes(r#fn, "name");
        let mut failures = Vec::new();
        for (index, case) in cases.iter().enumerate() {
            let Err(error) = call_case(r#fn, *case, takes_name, eval)? else { continue };
            let place = error.location.as_ref().map(|location| format!(" ({location})")).unwrap_or_default();
            let message = error.message.replace('\n', "\n    ");
            failures.push(format!("  {}: {message}{place}", case_title(index, *case)));
        }
        if failures.is_empty() {
            return Ok(NoneType);
        }
        let problem =
            || format!("{} of {} cases failed\n{}", failures.len(), cases.len(), failures.join("\n"));
        Err(native(failed("", problem)))
    }

    /// Ends the test, which then counts as skipped.
    ///
    /// Args:
    ///     reason: shown in the report
    fn skip(#[starlark(default = "")] reason: &str) -> anyhow::Result<StarlarkNever> {
        Err(Uncatchable::Skipped { reason: reason.to_owned() }.into())
    }

    /// Calls a tool as a client would: arguments are checked and defaults filled in. Returns its result
    /// dict.
    ///
    /// Args:
    ///     tool: the tool's name, or `source/tool`
    ///     args: dict of arguments
    fn call<'v>(
        tool: &str,
        #[starlark(default = NoneOr::None)] args: NoneOr<Value<'v>>,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> anyhow::Result<Value<'v>> {
        let args = object("testing.call: args", args, eval)?;
        ask("call", arguments([("tool", tool.into()), ("args", args.into())]), eval)
    }

    /// Answers requests to a URL without sending them.
    ///
    /// Args:
    ///     url: the URL to answer for
    ///     body: the text to answer with
    ///     status: the status to answer with
    ///     headers: dict of headers to answer with
    ///     json: value to answer with as JSON, instead of `body`
    ///     method: answer only requests of this method
    ///     times: answer only so many requests
    fn mock_http<'v>(
        url: &str,
        #[starlark(default = "")] body: &str,
        #[starlark(default = 200)] status: i32,
        #[starlark(default = NoneOr::None)] headers: NoneOr<Value<'v>>,
        #[starlark(default = NoneOr::None)] json: NoneOr<Value<'v>>,
        #[starlark(default = NoneOr::None)] method: NoneOr<&str>,
        #[starlark(default = NoneOr::None)] times: NoneOr<i64>,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> anyhow::Result<Value<'v>> {
        anyhow::ensure!(
            (100..1000).contains(&status),
            "testing.mock_http: status must be from 100 to 999, got: {status}"
        );
        let headers: JsonObject = super::arguments::pairs("headers", headers)?
            .into_iter()
            .map(|(name, value)| (name, Json::String(value)))
            .collect();
        let entries = [
            ("url", url.into()),
            ("body", body.into()),
            ("status", status.into()),
            ("headers", headers.into()),
            ("json", optional("testing.mock_http: json", json, eval)?),
            ("method", method.into_option().map_or(Json::Null, |method| method.to_ascii_uppercase().into())),
            ("times", self::times("mock_http", times)?),
        ];
        ask("mock_http", arguments(entries), eval)
    }

    /// Answers `exec.run` of a command without starting it.
    ///
    /// Args:
    ///     command: the command
    ///     stdout: what it writes
    ///     stderr: what it writes beside that
    ///     exit_code: how it ends
    ///     args: list of arguments to answer for; without it, any
    ///     times: answer only so many calls
    fn mock_exec<'v>(
        command: &str,
        #[starlark(default = "")] stdout: &str,
        #[starlark(default = "")] stderr: &str,
        #[starlark(default = 0)] exit_code: i32,
        #[starlark(default = NoneOr::None)] args: NoneOr<Value<'v>>,
        #[starlark(default = NoneOr::None)] times: NoneOr<i64>,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> anyhow::Result<Value<'v>> {
        let args = match args.into_option() {
            None => Json::Null,
            Some(args) => {
                let items = args.iterate(eval.heap()).map_err(|_| {
                    anyhow::anyhow!("testing.mock_exec: args must be a list, got: {}", args.get_type())
                })?;
                Json::Array(
                    items.map(|item| printable(item).map(Json::String)).collect::<anyhow::Result<_>>()?,
                )
            }
        };
        let entries = [
            ("command", command.into()),
            ("stdout", stdout.into()),
            ("stderr", stderr.into()),
            ("exit_code", exit_code.into()),
            ("args", args),
            ("times", self::times("mock_exec", times)?),
        ];
        ask("mock_exec", arguments(entries), eval)
    }

    /// Sets variables for `env.get`, for this test only.
    ///
    /// Args:
    ///     vars: dict of variables; `None` makes one unset
    ///     more: variables by name
    fn mock_env<'v>(
        #[starlark(require = pos, default = NoneOr::None)] vars: NoneOr<Value<'v>>,
        #[starlark(kwargs)] more: SmallMap<String, Value<'v>>,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> anyhow::Result<Value<'v>> {
        let mut variables = JsonObject::new();
        if let NoneOr::Other(vars) = vars {
            let Some(dict) = DictRef::from_value(vars) else {
                anyhow::bail!("testing.mock_env: vars must be a dict, got: {}", vars.get_type());
            };
            for (name, value) in dict.iter() {
                variables.insert(printable(name)?, variable(value)?);
            }
        }
        for (name, value) in more {
            variables.insert(name, variable(value)?);
        }
        ask("mock_env", arguments([("vars", variables.into())]), eval)
    }

    /// Sets the clock, for this test only.
    ///
    /// Args:
    ///     seconds: seconds since the Unix epoch, int or float
    fn mock_time<'v>(seconds: Value<'v>, eval: &mut Evaluator<'v, '_, '_>) -> anyhow::Result<Value<'v>> {
        anyhow::ensure!(
            matches!(Number::unpack_value(seconds), Ok(Some(_))),
            "testing.mock_time: seconds must be a number, got: {}",
            seconds.get_type()
        );
        let seconds = argument_json("testing.mock_time: seconds", seconds, eval)?;
        ask("mock_time", arguments([("seconds", seconds)]), eval)
    }

    /// The requests this test has made, as a list of dicts.
    fn http_requests<'v>(eval: &mut Evaluator<'v, '_, '_>) -> anyhow::Result<Value<'v>> {
        ask("http_requests", JsonObject::new(), eval)
    }

    /// The commands this test has run, as a list of dicts.
    fn exec_calls<'v>(eval: &mut Evaluator<'v, '_, '_>) -> anyhow::Result<Value<'v>> {
        ask("exec_calls", JsonObject::new(), eval)
    }

    /// What this test has logged and printed, as a list of dicts.
    fn logs<'v>(eval: &mut Evaluator<'v, '_, '_>) -> anyhow::Result<Value<'v>> {
        ask("logs", JsonObject::new(), eval)
    }
}
