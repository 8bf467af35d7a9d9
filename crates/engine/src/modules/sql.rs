//! What `sqlite` and `postgres` share: the parameters of a statement.

use starlark::eval::Evaluator;
use starlark::values::Value;
use starlark::values::none::NoneOr;

use crate::Json;
use crate::context::{Rounds, argument_json};
use crate::effect::SqlParams;

/// Lists and tuples by position, dicts by name. `function` names the caller in errors.
pub(super) fn sql_params<'v>(
    function: &str,
    params: NoneOr<Value<'v>>,
    eval: &Evaluator<'v, '_, '_>,
) -> anyhow::Result<SqlParams> {
    let Some(params) = params.into_option() else { return Ok(SqlParams::Positional(Vec::new())) };
    let what = format!("{function}: params");
    match params.get_type() {
        "list" | "tuple" | "dict" => match argument_json(&what, params, eval)? {
            Json::Array(values) => Ok(SqlParams::Positional(values)),
            Json::Object(values) => Ok(SqlParams::Named(values)),
            _ => anyhow::bail!("{what} must be a list, a tuple or a dict"),
        },
        other => {
            let items = params
                .iterate(eval.heap())
                .map_err(|_| anyhow::anyhow!("{what} must be a list, a tuple or a dict, got: {other}"))?;
            let mut rounds = Rounds::default();
            let mut values = Vec::new();
            for item in items {
                rounds.tick()?;
                values.push(argument_json(&what, item, eval)?);
            }
            Ok(SqlParams::Positional(values))
        }
    }
}
