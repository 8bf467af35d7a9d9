//! What a builtin finds in the evaluator: the host, the watch and what the file declares.

use std::cell::RefCell;

use starlark::any::ProvidesStaticType;
use starlark::eval::Evaluator;
use starlark::values::Value;

use crate::Json;
use crate::convert::{from_starlark, to_starlark};
use crate::declare::DeclarationSites;
use crate::effect::{Effect, EffectError, Host};
use crate::error::Uncatchable;
use crate::limits::Watch;

#[derive(ProvidesStaticType)]
pub(crate) struct Context<'e> {
    pub(crate) host: &'e dyn Host,
    pub(crate) watch: Watch,
    /// Where `Tool(…)` and its kin were called, for errors that point at the line.
    pub(crate) sites: RefCell<DeclarationSites>,
}

impl<'e> Context<'e> {
    pub(crate) fn new(host: &'e dyn Host, watch: Watch) -> Context<'e> {
        Context { host, watch, sites: RefCell::default() }
    }

    pub(crate) fn of<'a>(eval: &Evaluator<'_, 'a, 'e>) -> anyhow::Result<&'a Context<'e>> {
        eval.extra
            .and_then(|extra| extra.downcast_ref::<Context<'e>>())
            .ok_or_else(|| anyhow::anyhow!("this builtin cannot be used here"))
    }
}

/// Performs an effect for the running script.
pub(crate) fn perform(eval: &Evaluator, effect: Effect) -> anyhow::Result<Json> {
    let context = Context::of(eval)?;
    if context.watch.check().is_some() {
        return Err(Uncatchable::Stopped.into());
    }
    let answer = context.host.perform(effect);
    if context.watch.check().is_some() {
        return Err(Uncatchable::Stopped.into());
    }
    match answer {
        Ok(json) => Ok(json),
        Err(EffectError::Failed(message)) => Err(anyhow::Error::msg(message)),
        Err(EffectError::Stopped) => {
            // The host saw the stop before the watch did: a cancellation.
            context.watch.set(crate::limits::StopReason::Cancelled);
            Err(Uncatchable::Stopped.into())
        }
        Err(EffectError::Protocol { code, message, data }) => {
            Err(Uncatchable::Protocol { code, message, data }.into())
        }
    }
}

/// Performs an effect and gives its answer to the script.
pub(crate) fn perform_value<'v>(eval: &Evaluator<'v, '_, '_>, effect: Effect) -> anyhow::Result<Value<'v>> {
    let json = perform(eval, effect)?;
    Ok(to_starlark(&json, eval.heap())?)
}

/// A script's value as JSON, for an effect's arguments.
pub(crate) fn argument_json<'v>(
    what: &str,
    value: Value<'v>,
    eval: &Evaluator<'v, '_, '_>,
) -> anyhow::Result<Json> {
    from_starlark(value, eval.heap()).map_err(|error| anyhow::anyhow!("{what}: {error}"))
}
