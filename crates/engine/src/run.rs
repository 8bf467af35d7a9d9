//! Calls a function of a loaded file: JSON in, JSON out, under limits.

use std::panic::{AssertUnwindSafe, catch_unwind};

use starlark::environment::Module;
use starlark::eval::Evaluator;
use starlark::values::{OwnedFrozenValue, Value};

use crate::context::Context;
use crate::convert::{from_starlark, object_to_starlark, to_starlark};
use crate::effect::Host;
use crate::error::{ErrorKind, ScriptError};
use crate::limits::{Limits, Stop, Watch};
use crate::schema::Widen;
use crate::{Json, JsonObject};

/// A function of a loaded file that outlives it, callable from any thread.
#[derive(Clone)]
pub struct Handler {
    pub(crate) function: OwnedFrozenValue,
    pub(crate) convention: Convention,
    /// What it returns is served as `{"result": …}`, because MCP wants an object.
    pub wraps_result: bool,
}

/// How arguments reach the function.
#[derive(Debug, Clone)]
pub(crate) enum Convention {
    /// One dict, as `Tool` handlers take it.
    Dict,
    /// By name, as a plain function takes them. `floats` are those with a `float` in their annotation.
    /// `enums` are those that take a member of an `enum`, with what makes one of a text.
    Named { floats: Vec<(String, Widen)>, enums: Vec<(String, OwnedFrozenValue)> },
    /// No arguments, as tests take them.
    Nothing,
}

impl std::fmt::Debug for Handler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Handler").field("convention", &self.convention).finish_non_exhaustive()
    }
}

pub enum Arguments<'a> {
    Object(&'a JsonObject),
    None,
}

/// What one call runs with.
pub struct CallOptions<'a> {
    pub host: &'a dyn Host,
    pub limits: &'a Limits,
    pub stop: &'a Stop,
}

impl Handler {
    pub fn call(&self, arguments: Arguments, options: &CallOptions) -> Result<Json, ScriptError> {
        let watch = Watch::new(options.limits, options.stop);
        let current = watch.make_current();
        let result = contain_panics(|| {
            Module::with_temp_heap(|module| self.call_in(&module, arguments, options.host, &watch))
        });
        drop(current);
        result
    }

    fn call_in(
        &self,
        module: &Module,
        arguments: Arguments,
        host: &dyn Host,
        watch: &Watch,
    ) -> Result<Json, ScriptError> {
        let context = Context::new(host, watch.clone());
        let mut eval = Evaluator::new(module);
        watch
            .install(&mut eval, host)
            .map_err(|error| ScriptError::new(ErrorKind::Runtime, error.to_string()))?;
        eval.set_print_handler(&PrintToLog);
        eval.extra = Some(&context);
        let heap = eval.heap();
        let function = heap.access_owned_frozen_value(&self.function);
        let conversion = |error: crate::convert::ConversionError| {
            ScriptError::new(ErrorKind::Conversion, format!("argument {error}"))
        };
        let outcome = match (&self.convention, arguments) {
            (Convention::Nothing, _) => eval.eval_function(function, &[], &[]),
            (Convention::Dict, Arguments::Object(object)) => {
                let dict = object_to_starlark(object, heap).map_err(conversion)?;
                eval.eval_function(function, &[dict], &[])
            }
            (Convention::Dict, Arguments::None) => {
                let dict = object_to_starlark(&JsonObject::new(), heap).map_err(conversion)?;
                eval.eval_function(function, &[dict], &[])
            }
            (Convention::Named { .. }, Arguments::None) => eval.eval_function(function, &[], &[]),
            (Convention::Named { floats, enums }, Arguments::Object(object)) => {
                let mut named: Vec<(&str, Value)> = Vec::with_capacity(object.len());
                for (name, json) in object {
                    let value = match floats.iter().find(|(known, _)| known == name) {
                        Some((_, widen)) => to_starlark(&widen.apply(json), heap),
                        None => to_starlark(json, heap),
                    }
                    .map_err(conversion)?;
                    let value = match enums.iter().find(|(known, _)| known == name) {
                        Some((_, make)) if !json.is_null() => {
                            let make = heap.access_owned_frozen_value(make);
                            eval.eval_function(make, &[value], &[])
                                .map_err(|error| ScriptError::from_starlark(error, Some(watch)))?
                        }
                        _ => value,
                    };
                    named.push((name, value));
                }
                eval.eval_function(function, &[], &named)
            }
        };
        let stopped = watch.check_with(&eval);
        let value = outcome.map_err(|error| ScriptError::from_starlark(error, Some(watch)))?;
        if let Some(reason) = stopped {
            return Err(ScriptError::stopped(reason));
        }
        from_starlark(value, heap).map_err(|error| match watch.check() {
            Some(reason) => ScriptError::stopped(reason),
            None => ScriptError::new(ErrorKind::Conversion, format!("the result {error}")),
        })
    }
}

/// Scripts print to the log, through our own `print`; the interpreter's is never reached.
pub(crate) struct PrintToLog;

impl starlark::PrintHandler for PrintToLog {
    fn println(&self, _text: &str) -> starlark::Result<()> {
        Ok(())
    }
}

/// A panic inside the interpreter ends the call, not the process.
pub(crate) fn contain_panics<T>(run: impl FnOnce() -> Result<T, ScriptError>) -> Result<T, ScriptError> {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| {
        let what = panic
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| panic.downcast_ref::<&str>().copied())
            .unwrap_or("unknown cause");
        Err(ScriptError::new(ErrorKind::Panic, format!("the interpreter broke: {what}")))
    })
}
