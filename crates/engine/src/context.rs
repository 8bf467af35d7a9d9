//! What a builtin finds in the evaluator: the host, the watch and what the file declares.

use std::cell::RefCell;

use starlark::any::ProvidesStaticType;
use starlark::eval::Evaluator;
use starlark::values::Value;

use crate::Json;
use crate::convert::{from_starlark, to_starlark};
use crate::declare::DeclarationSites;
use crate::effect::{Effect, EffectError, Host};
use crate::error::{ScriptError, Uncatchable};
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

/// Counts the rounds of a builtin's own loop, and ends it when the call has to stop.
#[derive(Default)]
pub(crate) struct Rounds(usize);

impl Rounds {
    pub(crate) fn tick(&mut self) -> anyhow::Result<()> {
        self.tick_by(1)
    }

    /// For a round that takes as long, or as much memory, as so many.
    pub(crate) fn tick_by(&mut self, rounds: usize) -> anyhow::Result<()> {
        self.0 = self.0.saturating_add(rounds);
        if self.0 < 1024 {
            return Ok(());
        }
        self.0 = 0;
        if Watch::current_must_stop() { Err(Uncatchable::Stopped.into()) } else { Ok(()) }
    }
}

/// Text that grows only as far as the call's memory allows.
pub(crate) struct Output {
    bytes: Vec<u8>,
    watch: Watch,
}

impl Output {
    pub(crate) fn new(eval: &Evaluator) -> anyhow::Result<Output> {
        Ok(Output { bytes: Vec::new(), watch: Context::of(eval)?.watch.clone() })
    }

    pub(crate) fn push(&mut self, piece: &str) -> Result<(), Uncatchable> {
        self.extend(piece.as_bytes())
    }

    fn extend(&mut self, piece: &[u8]) -> Result<(), Uncatchable> {
        let needed = self.bytes.len().saturating_add(piece.len());
        if needed > self.bytes.capacity() {
            self.watch.require_memory(needed.saturating_mul(2))?;
        }
        self.bytes.extend_from_slice(piece);
        Ok(())
    }

    pub(crate) fn into_text(self) -> anyhow::Result<String> {
        Ok(String::from_utf8(self.bytes)?)
    }
}

impl std::io::Write for Output {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.extend(bytes).map_err(std::io::Error::other)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Calls a function for a builtin that wants to know how it failed.
///
/// The outer error is one that must not be caught: a limit, a cancellation, `mcp_error`, a skip.
pub(crate) fn try_call<'v>(
    eval: &mut Evaluator<'v, '_, '_>,
    function: Value<'v>,
    args: &[Value<'v>],
    kwargs: &[(&str, Value<'v>)],
) -> starlark::Result<Result<Value<'v>, ScriptError>> {
    let error = match eval.eval_function(function, args, kwargs) {
        Ok(value) => return Ok(Ok(value)),
        Err(error) => error,
    };
    let watch = Context::of(eval).map_err(starlark::Error::new_native)?.watch.clone();
    let stopped = matches!(error.kind(), starlark::ErrorKind::StackOverflow(_))
        || watch.check_with(eval).is_some()
        || match error.kind() {
            starlark::ErrorKind::Native(inner) | starlark::ErrorKind::Other(inner) => {
                inner.downcast_ref::<Uncatchable>().is_some()
            }
            _ => false,
        };
    if stopped { Err(error) } else { Ok(Err(ScriptError::from_starlark(error, None))) }
}

/// A script's value as JSON, for an effect's arguments.
pub(crate) fn argument_json<'v>(
    what: &str,
    value: Value<'v>,
    eval: &Evaluator<'v, '_, '_>,
) -> anyhow::Result<Json> {
    from_starlark(value, eval.heap()).map_err(|error| anyhow::anyhow!("{what}: {error}"))
}
