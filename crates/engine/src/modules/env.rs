//! `env`: variables of the process and of `--env`, as far as the extension may see them.

use starlark::environment::GlobalsBuilder;
use starlark::eval::Evaluator;
use starlark::values::Value;
use starloom_builtins_macro::builtins;

use crate::Json;
use crate::context::perform;
use crate::effect::Effect;

#[builtins]
pub(crate) fn register(globals: &mut GlobalsBuilder) {
    /// The variable's value, or `default` when it is unset.
    ///
    /// Args:
    ///     name: the variable; it must be in the extension's `allowed_env`, if it has any
    ///     default: any value, `None` too
    fn get<'v>(
        name: &str,
        #[starlark(default = "")] default: Value<'v>,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> anyhow::Result<Value<'v>> {
        match perform(eval, Effect::Env { name: name.to_owned() })? {
            Json::String(value) => Ok(eval.heap().alloc(value)),
            _ => Ok(default),
        }
    }
}
