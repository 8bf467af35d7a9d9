//! `data`: files that lie beside the script.

use starlark::environment::GlobalsBuilder;
use starlark::eval::Evaluator;
use starlark::values::Value;
use starloom_builtins_macro::builtins;

use crate::Json;
use crate::context::perform;
use crate::convert::to_starlark;
use crate::effect::Effect;

fn read(function: &str, path: &str, eval: &Evaluator) -> anyhow::Result<String> {
    let answer = perform(eval, Effect::ReadData { path: path.to_owned() })
        .map_err(|error| error.context(format!("data.{function}")))?;
    match answer.get("text") {
        Some(Json::String(text)) => Ok(text.clone()),
        _ => anyhow::bail!("data.{function}: the host gave no text"),
    }
}

#[builtins]
pub(crate) fn register(globals: &mut GlobalsBuilder) {
    /// The value of a JSON file below the source's root. The tools reload when it changes.
    ///
    /// Args:
    ///     path: path of the file, relative to the root
    fn load_json<'v>(path: &str, eval: &mut Evaluator<'v, '_, '_>) -> anyhow::Result<Value<'v>> {
        let text = read("load_json", path, eval)?;
        let json: Json = serde_json::from_str(&text)
            .map_err(|error| anyhow::anyhow!("data.load_json: failed to parse JSON in '{path}': {error}"))?;
        to_starlark(&json, eval.heap()).map_err(|error| anyhow::anyhow!("data.load_json: '{path}' {error}"))
    }

    /// The text of a file below the source's root. The tools reload when it changes.
    ///
    /// Args:
    ///     path: path of the file, relative to the root
    fn load_text<'v>(path: &str, eval: &mut Evaluator<'v, '_, '_>) -> anyhow::Result<String> {
        read("load_text", path, eval)
    }
}
