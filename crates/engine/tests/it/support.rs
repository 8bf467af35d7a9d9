//! Runs a text and shows what came of it.

use std::collections::HashMap;
use std::time::Duration;

use starloom_engine::{
    Arguments, CallOptions, Effect, EffectError, Engine, Host, Json, JsonObject, Limits, Loaded, MemoryFiles,
    ScriptError, Stop, Vocabulary,
};

/// Performs what tests of the language need: a fixed clock and silence.
pub struct TestHost;

impl Host for TestHost {
    fn perform(&self, effect: Effect) -> Result<Json, EffectError> {
        match effect {
            Effect::Now => Ok(serde_json::json!({"seconds": 1_700_000_000, "nanoseconds": 123_456_789})),
            Effect::Monotonic => Ok(serde_json::json!(5_000_000_000_u64)),
            Effect::Log { .. } | Effect::Sleep { .. } => Ok(Json::Null),
            Effect::RandomBytes { count } => {
                let bytes: Vec<u8> = (0..count).map(|index| index as u8).collect();
                Ok(Json::String(base64::Engine::encode(&base64::engine::general_purpose::STANDARD, bytes)))
            }
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
    let files = files(&[("x.star", source)]);
    Engine::new().load(&files, "x.star", Vocabulary::Server, &TestHost, &Limits::for_loading())
}

/// Loads a text and calls its only tool, or the one named `run`.
pub fn call_with(source: &str, arguments: Json, limits: &Limits) -> Result<Json, ScriptError> {
    let loaded = load(source).map_err(|mut errors| errors.remove(0))?;
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
