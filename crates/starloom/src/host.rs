//! Performs what scripts ask for, one host per evaluation.
//!
//! Effects on the outside world go to `starloom-effects` with the source's grants. What concerns the
//! server itself (the log, other tools, clients) is done here.

use std::cell::Cell;
use std::time::{Duration, Instant};

use starloom_effects::{Grants, Scope, Services, perform};
use starloom_engine::{Effect, EffectError, Host, Json, JsonObject, Limits, Stop};
use tokio::task::block_in_place;
use tokio_util::sync::CancellationToken;

use crate::app::{App, Change};
use crate::call::{self, Call, Cancel};

/// While a file loads: there is no call, and nobody to cancel it but the clock.
pub struct LoadHost<'a> {
    services: &'a Services,
    runtime: &'a tokio::runtime::Handle,
    grants: Grants,
    stop: Stop,
    cancelled: CancellationToken,
}

impl<'a> LoadHost<'a> {
    pub fn new(
        services: &'a Services,
        runtime: &'a tokio::runtime::Handle,
        grants: Grants,
        limits: &Limits,
    ) -> LoadHost<'a> {
        let stop = Stop::after(limits.wall_clock);
        LoadHost { services, runtime, grants, stop, cancelled: CancellationToken::new() }
    }
}

impl Host for LoadHost<'_> {
    fn perform(&self, effect: Effect) -> Result<Json, EffectError> {
        match effect {
            Effect::Log { level, message, fields } => {
                log(&self.grants.source, &level, &message, &fields);
                Ok(Json::Null)
            }
            Effect::CallTool { .. } => Err(EffectError::failed("`call_tool` works only during a call")),
            Effect::NotifyChanged { .. } => {
                Err(EffectError::failed("`notify_changed` works only during a call"))
            }
            Effect::Testing { operation, .. } => {
                Err(EffectError::failed(format!("`testing.{operation}` works only inside a test function")))
            }
            effect => perform(
                &Scope {
                    services: self.services,
                    grants: &self.grants,
                    stop: &self.stop,
                    cancelled: &self.cancelled,
                    runtime: self.runtime,
                },
                effect,
            ),
        }
    }
}

/// Stands between scripts and the world: answers an effect in its place, or lets it pass.
pub trait Intercept: Send + Sync {
    fn intercept(&self, effect: &Effect, scope: &Scope) -> Option<Result<Json, EffectError>>;
}

/// During a call.
pub struct CallHost<'a> {
    app: &'a App,
    call: &'a Call,
    grants: &'a Grants,
    cancel: &'a Cancel,
    started: Instant,
    /// When to give this thread's place in the runtime away, counted from the start.
    give_way_after: Cell<Duration>,
}

/// A handler that computes for this long lets others have the runtime's thread.
const LONG: Duration = Duration::from_micros(500);
/// Nobody may have taken the place, so it is offered again, at this distance.
const OFFER_AGAIN: Duration = Duration::from_millis(10);
/// As long as it takes another thread to wake up and take it.
const OFFER: Duration = Duration::from_micros(100);

impl Host for CallHost<'_> {
    fn perform(&self, effect: Effect) -> Result<Json, EffectError> {
        let scope = Scope {
            services: &self.app.services,
            grants: self.grants,
            stop: &self.cancel.stop,
            cancelled: &self.cancel.token,
            runtime: &self.app.runtime,
        };
        if let Some(answer) = self.call.intercept.as_ref().and_then(|it| it.intercept(&effect, &scope)) {
            return answer;
        }
        match effect {
            Effect::Log { level, message, fields } => {
                log(&self.grants.source, &level, &message, &fields);
                Ok(Json::Null)
            }
            Effect::CallTool { name, arguments, timeout } => Ok(self.call_tool(name, arguments, timeout)),
            Effect::NotifyChanged { what } => self.notify_changed(&what),
            // Answered at once: not worth giving the thread away.
            effect @ (Effect::Now | Effect::Monotonic | Effect::Env { .. } | Effect::RandomBytes { .. }) => {
                perform(&scope, effect)
            }
            effect => block_in_place(|| perform(&scope, effect)),
        }
    }

    fn computing(&self) {
        let elapsed = self.started.elapsed();
        if elapsed >= self.give_way_after.get() {
            self.give_way_after.set(elapsed + OFFER_AGAIN);
            block_in_place(|| std::thread::sleep(OFFER));
        }
    }
}

impl<'a> CallHost<'a> {
    pub fn new(app: &'a App, call: &'a Call, grants: &'a Grants, cancel: &'a Cancel) -> CallHost<'a> {
        CallHost { app, call, grants, cancel, started: Instant::now(), give_way_after: Cell::new(LONG) }
    }
}

impl CallHost<'_> {
    /// Re-enters the one request path. Failures are results: a script has no `try`.
    fn call_tool(&self, name: String, arguments: JsonObject, timeout: Option<f64>) -> Json {
        match call::run_nested(self.app, self.call, self.cancel, name, arguments, timeout) {
            Ok(result) => Json::Object(result),
            Err(error) => Json::Object(call::error_result(&error.to_string())),
        }
    }

    fn notify_changed(&self, what: &str) -> Result<Json, EffectError> {
        match what {
            "tools" => {
                // Nobody listening is fine.
                let _ = self.app.changes.send(Change::Tools);
                Ok(Json::Null)
            }
            other => Err(EffectError::failed(format!("notify_changed: nothing is called `{other}`"))),
        }
    }
}

/// A script's own words in the server's log.
pub fn log(source: &str, level: &str, message: &str, fields: &JsonObject) {
    let fields = if fields.is_empty() { String::new() } else { Json::Object(fields.clone()).to_string() };
    match level {
        "debug" => tracing::debug!(target: "script", source, fields, "{message}"),
        "info" | "notice" => tracing::info!(target: "script", source, fields, "{message}"),
        "warning" => tracing::warn!(target: "script", source, fields, "{message}"),
        _ => tracing::error!(target: "script", source, fields, "{message}"),
    }
}
