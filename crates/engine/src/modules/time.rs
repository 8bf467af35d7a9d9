//! `time`: the clock, and dates as text.

use starlark::environment::GlobalsBuilder;
use starlark::eval::Evaluator;
use starlark::starlark_module;

use crate::Json;
use crate::context::perform;
use crate::effect::Effect;

fn now(eval: &Evaluator) -> anyhow::Result<(i64, i64)> {
    let answer = perform(eval, Effect::Now)?;
    let part = |key: &str| answer.get(key).and_then(Json::as_i64);
    part("seconds").zip(part("nanoseconds")).ok_or_else(|| anyhow::anyhow!("time: the host gave no time"))
}

#[starlark_module]
pub(crate) fn register(globals: &mut GlobalsBuilder) {
    /// Seconds since the Unix epoch.
    fn now<'v>(eval: &mut Evaluator<'v, '_, '_>) -> anyhow::Result<i64> {
        Ok(self::now(eval)?.0)
    }
}
