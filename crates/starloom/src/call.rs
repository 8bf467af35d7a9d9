//! The request path: the only way anything is executed, whoever asks.
//!
//! resolve → bind and default → validate → run → shape. Authorisation, rate limits and the audit take
//! their places between these steps; nothing else may hold a handler and call it.

mod bind;
mod shape;

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};
use starloom_engine::{Arguments, CallOptions, ErrorKind, JsonObject, Limits, ScriptError, Stop};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::app::App;
use crate::catalog::{Catalog, Target, Tool};
use crate::host::{CallHost, Intercept};

pub use bind::{Problem, bind};

/// One request to run a tool.
pub struct Call {
    /// What the caller sees; taken once, so that a reload cannot tear the call.
    pub view: Arc<Catalog>,
    pub name: String,
    pub arguments: JsonObject,
    /// How many calls of tools by tools lie between the client and this one.
    pub depth: u8,
    /// Sees every effect of this call first, and of the calls it makes.
    pub intercept: Option<Arc<dyn Intercept>>,
}

/// Ends one call: wakes what waits, stops what computes.
#[derive(Clone)]
pub struct Cancel {
    pub token: CancellationToken,
    pub stop: Stop,
}

impl Cancel {
    pub fn new() -> Cancel {
        // The deadline is set when the tool and so its timeout are known.
        Cancel { token: CancellationToken::new(), stop: Stop::after(starloom_engine::declare::MAX_TIMEOUT) }
    }

    pub fn cancel(&self) {
        self.stop.cancel();
        self.token.cancel();
    }

    /// A shorter deadline inside this call: it ends when either does.
    fn within(&self, timeout: Duration) -> Cancel {
        Cancel { token: self.token.child_token(), stop: self.stop.within(timeout) }
    }
}

impl Default for Cancel {
    fn default() -> Cancel {
        Cancel::new()
    }
}

/// Why there is no result. Everything a tool itself does wrong is a result with `isError`.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum CallError {
    #[error("Unknown tool: {name}{}", suggestion.as_ref().map(|known| format!(". Did you mean `{known}`?")).unwrap_or_default())]
    UnknownTool { name: String, suggestion: Option<String> },
    #[error("the server is busy: {running} calls are running and {waiting} are waiting; try again later")]
    Busy { running: usize, waiting: usize },
    #[error("the call was cancelled")]
    Cancelled,
    #[error("{message}")]
    Protocol { code: i64, message: String, data: Option<Json> },
}

/// Tools may call tools this deep.
pub const MAX_DEPTH: u8 = 8;

/// How many calls run at once, and how many may wait for their turn.
pub struct Gate {
    running: Semaphore,
    waiting: Semaphore,
    limits: (usize, usize),
}

impl Gate {
    pub fn new(running: usize, waiting: usize) -> Gate {
        Gate {
            running: Semaphore::new(running),
            waiting: Semaphore::new(waiting),
            limits: (running, waiting),
        }
    }

    async fn enter(&self, cancel: &Cancel) -> Result<tokio::sync::SemaphorePermit<'_>, CallError> {
        if let Ok(permit) = self.running.try_acquire() {
            return Ok(permit);
        }
        let Ok(_waiting) = self.waiting.try_acquire() else {
            return Err(CallError::Busy { running: self.limits.0, waiting: self.limits.1 });
        };
        tokio::select! {
            permit = self.running.acquire() => permit.map_err(|_| CallError::Cancelled),
            () = cancel.token.cancelled() => Err(CallError::Cancelled),
        }
    }
}

/// Runs a call of a client, on this thread of the runtime.
///
/// Giving the thread's place in the runtime away costs more than a short handler does. So a tool that was
/// quick the last time keeps it, and [`CallHost`] gives it away when the handler waits or goes on for long.
pub async fn run(app: &App, call: &Call, cancel: &Cancel) -> Result<JsonObject, CallError> {
    let _permit = app.gate.enter(cancel).await?;
    if call.view.find(&call.name).is_some_and(|tool| tool.pace.was_quick()) {
        return run_here(app, call, cancel);
    }
    tokio::task::block_in_place(|| run_here(app, call, cancel))
}

/// Runs a call made by a running tool, on its thread and under its permit.
pub fn run_nested(
    app: &App,
    parent: &Call,
    cancel: &Cancel,
    name: String,
    arguments: JsonObject,
    timeout: Option<f64>,
) -> Result<JsonObject, CallError> {
    if parent.depth >= MAX_DEPTH {
        let message = format!("tools call each other more than {MAX_DEPTH} deep");
        return Ok(error_result(&message));
    }
    let call = Call {
        view: parent.view.clone(),
        name,
        arguments,
        depth: parent.depth + 1,
        intercept: parent.intercept.clone(),
    };
    match timeout.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()) {
        Some(timeout) => run_here(app, &call, &cancel.within(timeout)),
        None => run_here(app, &call, cancel),
    }
}

fn run_here(app: &App, call: &Call, cancel: &Cancel) -> Result<JsonObject, CallError> {
    let started = Instant::now();
    let Some(tool) = call.view.find(&call.name) else {
        let suggestion = call.view.suggest(&call.name).map(str::to_owned);
        return Err(CallError::UnknownTool { name: call.name.clone(), suggestion });
    };
    tracing::trace!(tool = tool.name, depth = call.depth, arguments = %Json::Object(call.arguments.clone()), "call");
    let arguments = match bind(tool, call.arguments.clone()) {
        Ok(arguments) => arguments,
        Err(problems) => return Ok(error_result(&bind::describe(&tool.name, &problems))),
    };
    tracing::trace!(tool = tool.name, arguments = %Json::Object(arguments.clone()), "bound");
    let result = match &tool.target {
        Target::Starlark { handler, grants } => {
            let timeout = tool.timeout.unwrap_or(app.limits.wall_clock);
            let cancel = cancel.within(timeout);
            let limits = Limits { wall_clock: timeout, ..app.limits.clone() };
            let host = CallHost::new(app, call, grants, &cancel);
            let options = CallOptions { host: &host, limits: &limits, stop: &cancel.stop };
            let value = handler.call(Arguments::Object(&arguments), &options);
            value.map_err(|error| (error, handler.wraps_result)).map(|value| (value, handler.wraps_result))
        }
    };
    let elapsed = started.elapsed();
    tool.pace.note(elapsed);
    let outcome = match result {
        Ok((value, wraps)) => Ok(shape::shape(tool, value, wraps)),
        Err((error, _)) => failed(app, tool, error),
    };
    let is_error = outcome.as_ref().map_or(true, |result| result.get("isError") == Some(&Json::Bool(true)));
    tracing::debug!(tool = tool.name, source = tool.source, depth = call.depth, is_error, ?elapsed, "called");
    outcome
}

/// What a handler's error means to the caller. The source stays out of it, unless the operator wants it in.
fn failed(app: &App, tool: &Tool, error: ScriptError) -> Result<JsonObject, CallError> {
    match &error.kind {
        ErrorKind::Cancelled => return Err(CallError::Cancelled),
        ErrorKind::Protocol { code, data } => {
            return Err(CallError::Protocol {
                code: *code,
                message: error.message.clone(),
                data: data.clone(),
            });
        }
        _ => {}
    }
    tracing::warn!("`{}` of `{}` failed\n{}", tool.name, tool.source, error.render().trim_end());
    let message = if app.debug_errors { error.render() } else { error.message_with_hint() };
    let message = match error.kind {
        ErrorKind::Limit(_) => format!("`{}` was {message}", tool.name),
        _ => message,
    };
    Ok(error_result(&message))
}

/// A result that tells the model what went wrong.
pub fn error_result(message: &str) -> JsonObject {
    JsonObject::from_iter([
        ("content".to_owned(), json!([{"type": "text", "text": message}])),
        ("isError".to_owned(), Json::Bool(true)),
    ])
}
