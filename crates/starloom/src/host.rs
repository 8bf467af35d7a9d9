//! Performs what scripts ask for, one host per evaluation.
//!
//! Effects on the outside world go to `starloom-effects` with the source's grants. What concerns the
//! server itself (the log, other tools, clients) is done here.

use starloom_effects::{Grants, Scope, Services, perform};
use starloom_engine::{Effect, EffectError, Host, Json, JsonObject, Limits, Stop};
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
            Effect::NotifyChanged { .. } => Err(EffectError::failed("`notify_changed` works only during a call")),
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
    pub app: &'a App,
    pub call: &'a Call,
    pub grants: &'a Grants,
    pub cancel: &'a Cancel,
}

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
            effect => perform(&scope, effect),
        }
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
