//! Runs a text and shows what came of it.

use std::cell::RefCell;
use std::collections::HashMap;
use std::time::Duration;

use starloom_engine::{
    Arguments, CallOptions, Effect, EffectError, Engine, Host, Json, JsonObject, Limits, Loaded, MemoryFiles,
    ScriptError, Stop, StoreOperation, Vocabulary,
};

/// Performs what tests of the language need: a fixed clock and silence. The rest is answered with
/// something of the right shape, and remembered.
pub struct TestHost;

thread_local! {
    static EFFECTS: RefCell<Vec<Effect>> = const { RefCell::new(Vec::new()) };
}

/// The effects performed on this thread since the last look.
pub fn take_effects() -> Vec<Effect> {
    EFFECTS.take()
}

impl Host for TestHost {
    fn perform(&self, effect: Effect) -> Result<Json, EffectError> {
        EFFECTS.with_borrow_mut(|effects| effects.push(effect.clone()));
        match effect {
            Effect::Now => Ok(serde_json::json!({"seconds": 1_700_000_000, "nanoseconds": 123_456_789})),
            Effect::Monotonic => Ok(serde_json::json!(5_000_000_000_u64)),
            Effect::Log { .. } | Effect::Sleep { .. } => Ok(Json::Null),
            Effect::RandomBytes { count } => {
                let bytes: Vec<u8> = (0..count).map(|index| index as u8).collect();
                Ok(Json::String(base64::Engine::encode(&base64::engine::general_purpose::STANDARD, bytes)))
            }
            Effect::Http(request) if request.url.contains("/fail") => {
                Err(EffectError::failed("Request failed: no route to host"))
            }
            Effect::Http(request) if request.url.contains("/binary") => Ok(serde_json::json!({
                "status": 404, "headers": {"content-type": "image/png"}, "url": request.url, "body_base64": "/wBh",
            })),
            Effect::Http(request) => Ok(serde_json::json!({
                "status": 200, "headers": {"a": "b"}, "url": request.url, "body": "{\"n\": 12345678901234567890}",
            })),
            Effect::Sqlite { .. } | Effect::Postgres { .. } => Ok(serde_json::json!([{"n": 1}])),
            Effect::Store(StoreOperation::Get { key }) => {
                Ok(if key == "known" { serde_json::json!({"n": 1}) } else { Json::Null })
            }
            Effect::Store(StoreOperation::Keys { .. }) => Ok(serde_json::json!(["a", "b"])),
            Effect::Store(StoreOperation::Increment { by, .. }) => Ok(serde_json::json!(by)),
            Effect::Store(StoreOperation::Set { .. }) => Ok(Json::Null),
            Effect::Store(_) => Ok(Json::Bool(true)),
            Effect::Testing { operation, .. } => Ok(serde_json::json!({"did": operation})),
            other => Err(EffectError::failed(format!("not in tests: {other:?}"))),
        }
    }
}

pub fn files(entries: &[(&str, &str)]) -> MemoryFiles {
    MemoryFiles(
        entries.iter().map(|(path, text)| (path.to_string(), text.to_string())).collect::<HashMap<_, _>>(),
    )
}

pub fn load(source: &str) -> Result<Loaded, Vec<ScriptError>> {
    load_as(Vocabulary::Server, source)
}

pub fn load_as(vocabulary: Vocabulary, source: &str) -> Result<Loaded, Vec<ScriptError>> {
    let files = files(&[("x.star", source)]);
    Engine::new().load(&files, "x.star", vocabulary, &TestHost, &Limits::for_loading())
}

/// Loads a text and calls its only tool, or the one named `run`.
pub fn call_with(source: &str, arguments: Json, limits: &Limits) -> Result<Json, ScriptError> {
    call_tool(load(source), arguments, limits)
}

/// As [`call`], with the words of a test file.
pub fn call_as_test(source: &str) -> Result<Json, ScriptError> {
    let limits = Limits { wall_clock: Duration::from_secs(20), ..Limits::for_calls() };
    call_tool(load_as(Vocabulary::Test, source), Json::Null, &limits)
}

fn call_tool(
    loaded: Result<Loaded, Vec<ScriptError>>,
    arguments: Json,
    limits: &Limits,
) -> Result<Json, ScriptError> {
    let loaded = loaded.map_err(|mut errors| errors.remove(0))?;
    let tools = &loaded.extension.tools;
    let tool = tools.iter().find(|tool| tool.name == "run").or(tools.first()).expect("a tool");
    let stop = Stop::after(limits.wall_clock);
    let arguments: JsonObject = arguments.as_object().cloned().unwrap_or_default();
    tool.handler.call(Arguments::Object(&arguments), &CallOptions { host: &TestHost, limits, stop: &stop })
}

pub fn call(source: &str, arguments: Json) -> Result<Json, ScriptError> {
    call_with(source, arguments, &Limits { wall_clock: Duration::from_secs(20), ..Limits::for_calls() })
}

/// A handler body as a file: `run(params)` returns the expression or runs the statements.
pub fn handler(body: &str) -> String {
    let body = if body.contains("return") { body.to_owned() } else { format!("return {body}") };
    let indented: String = body.lines().map(|line| format!("    {line}\n")).collect();
    format!(
        "def _run(params):\n{indented}\n\
         def describe_extension():\n    return Extension(name = \"x\", version = \"1\", description = \"d\", tools = [\n        \
         Tool(name = \"run\", description = \"d\", handler = _run)])\n"
    )
}
