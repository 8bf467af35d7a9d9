//! `json`: exact both ways.

use serde::Serialize;
use starlark::environment::GlobalsBuilder;
use starlark::eval::Evaluator;
use starlark::values::Value;
use starloom_builtins_macro::builtins;

use crate::Json;
use crate::context::{Output, argument_json};
use crate::convert::to_starlark;

#[builtins]
pub(crate) fn register(globals: &mut GlobalsBuilder) {
    /// The value as JSON text, compact unless `indent` is given.
    ///
    /// Args:
    ///     x: None, booleans, numbers, strings, lists, tuples, dicts with string keys, structs
    ///     indent: spaces per level
    fn encode<'v>(
        #[starlark(require = pos)] x: Value<'v>,
        #[starlark(default = 0)] indent: u32,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> anyhow::Result<String> {
        let json = argument_json("json.encode", x, eval)?;
        if indent == 0 {
            return Ok(json.to_string());
        }
        let spaces = " ".repeat(indent.min(16) as usize);
        let formatter = serde_json::ser::PrettyFormatter::with_indent(spaces.as_bytes());
        // Deep values have more spaces than text.
        let mut out = Output::new(eval)?;
        json.serialize(&mut serde_json::Serializer::with_formatter(&mut out, formatter))?;
        out.into_text()
    }

    /// The value a JSON text stands for; integers of any size stay exact.
    ///
    /// Args:
    ///     x: the text
    ///     default: returned instead of failing when the text is not JSON
    fn decode<'v>(
        #[starlark(require = pos)] x: &str,
        default: Option<Value<'v>>,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> anyhow::Result<Value<'v>> {
        let decoded = serde_json::from_str::<Json>(x)
            .map_err(|error| anyhow::anyhow!("json.decode: {error}"))
            .and_then(|json| {
                to_starlark(&json, eval.heap()).map_err(|error| anyhow::anyhow!("json.decode: {error}"))
            });
        match (decoded, default) {
            (Ok(value), _) => Ok(value),
            (Err(_), Some(default)) => Ok(default),
            (Err(error), None) => Err(error),
        }
    }
}
