//! What stands in for the outside during one test.
//!
//! Permissions hold as in the server: a mocked command still has to be in `allowed_exec`, a mocked host
//! in `allowed_hosts`. Otherwise a test would pass where the tool could not work.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value as Json, json};
use starloom_effects::{Scope, perform, permit_exec, preview_http};
use starloom_engine::{Effect, EffectError, ExecRequest, HttpRequest, JsonObject};

use super::clock::{Clock, nanoseconds_from};
use super::event::LogLine;
use super::mocks::{ExecMock, HttpMock, HttpSent, Mocks, command_line};
use super::store::TestStore;
use crate::host::Intercept;

#[derive(Default)]
pub struct World {
    state: Mutex<State>,
    store: TestStore,
}

#[derive(Default)]
struct State {
    http: Mocks<HttpMock>,
    exec: Mocks<ExecMock>,
    /// `None` is a variable that is not set.
    env: BTreeMap<String, Option<String>>,
    clock: Option<Clock>,
    requests: Vec<Json>,
    commands: Vec<Json>,
    logs: Vec<Logged>,
}

struct Logged {
    line: LogLine,
    /// Not by the server on its behalf.
    by_script: bool,
}

impl World {
    /// What `testing` asks for, but for calls.
    pub fn testing(
        &self,
        operation: &str,
        arguments: &JsonObject,
        scope: &Scope,
    ) -> Result<Json, EffectError> {
        let times = arguments.get("times").and_then(Json::as_u64);
        match operation {
            "mock_http" => self.state().http.add(HttpMock::from_arguments(arguments), times),
            "mock_exec" => self.state().exec.add(ExecMock::from_arguments(arguments), times),
            "mock_env" => self.mock_env(arguments),
            "mock_time" => self.mock_time(arguments, scope)?,
            "http_requests" => return Ok(Json::from(self.state().requests.clone())),
            "exec_calls" => return Ok(Json::from(self.state().commands.clone())),
            "logs" => return Ok(self.script_logs()),
            other => return Err(EffectError::failed(format!("this runner does not know `testing.{other}`"))),
        }
        Ok(Json::Null)
    }

    pub fn log(&self, line: LogLine) {
        self.state().logs.push(Logged { line, by_script: false });
    }

    /// Everything that was logged, for the report.
    pub fn take_logs(&self) -> Vec<LogLine> {
        std::mem::take(&mut self.state().logs).into_iter().map(|logged| logged.line).collect()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn script_logs(&self) -> Json {
        let state = self.state();
        let lines = state.logs.iter().filter(|logged| logged.by_script).map(|logged| &logged.line);
        lines
            .map(|line| json!({"level": line.level, "message": line.message, "fields": line.fields}))
            .collect()
    }

    fn mock_env(&self, arguments: &JsonObject) {
        let Some(Json::Object(variables)) = arguments.get("vars") else { return };
        let variables =
            variables.iter().map(|(name, value)| (name.clone(), value.as_str().map(str::to_owned)));
        self.state().env.extend(variables);
    }

    fn mock_time(&self, arguments: &JsonObject, scope: &Scope) -> Result<(), EffectError> {
        let seconds = arguments.get("seconds").unwrap_or(&Json::Null);
        let Some(now) = nanoseconds_from(seconds) else {
            return Err(EffectError::failed(format!("testing.mock_time: no date is {seconds} s from 1970")));
        };
        // Read first: what was measured before must not lie in the future afterwards.
        let monotonic = perform(scope, Effect::Monotonic)?.as_u64().unwrap_or(0);
        self.state().clock.get_or_insert(Clock::new(now, monotonic)).set(now);
        Ok(())
    }

    fn now(&self) -> i128 {
        if let Some(clock) = self.state().clock {
            return clock.nanoseconds();
        }
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as i128)
    }

    /// The real answer is asked for first: it knows whether the script may see the variable at all.
    fn env(&self, name: &str, scope: &Scope) -> Option<Result<Json, EffectError>> {
        let value = self.state().env.get(name)?.clone();
        let permitted = perform(scope, Effect::Env { name: name.to_owned() });
        Some(permitted.map(|_| value.map_or(Json::Null, Json::from)))
    }

    fn env_all(&self, scope: &Scope) -> Result<Json, EffectError> {
        let mut all = perform(scope, Effect::EnvAll)?;
        let mocked = self.state().env.clone();
        let Some(variables) = all.as_object_mut() else { return Ok(all) };
        for (name, value) in mocked {
            let permitted = perform(scope, Effect::Env { name: name.clone() }).is_ok();
            match value.filter(|_| permitted) {
                Some(value) => variables.insert(name, Json::from(value)),
                None => variables.shift_remove(&name),
            };
        }
        Ok(all)
    }

    fn exec(&self, request: &ExecRequest, scope: &Scope) -> Option<Result<Json, EffectError>> {
        if let Err(denied) = permit_exec(scope.grants, &request.command) {
            return Some(Err(denied));
        }
        let mut state = self.state();
        state.commands.push(json!({
            "command": request.command,
            "args": request.args,
            "cwd": request.cwd,
            "env": JsonObject::from_iter(request.env.iter().map(|(name, value)| (name.clone(), json!(value)))),
            "stdin": request.stdin,
            "timeout": request.timeout,
        }));
        if state.exec.is_empty() {
            return None;
        }
        let title = format!("`{}`", command_line(&request.command, &request.args));
        Some(state.exec.answer(&title, request))
    }

    fn http(&self, request: &HttpRequest, scope: &Scope) -> Option<Result<Json, EffectError>> {
        let mut sent = match preview_http(scope.grants, request.clone()) {
            Ok(sent) => sent,
            Err(error) => return Some(Err(error)),
        };
        let text = |key: &str| sent.get(key).and_then(Json::as_str).unwrap_or("").to_owned();
        let seen = HttpSent { method: text("method"), url: text("url"), written_url: request.url.clone() };
        let json = serde_json::from_str(&text("body")).unwrap_or(Json::Null);
        sent.insert("json".to_owned(), json);
        let mut state = self.state();
        state.requests.push(Json::Object(sent));
        if state.http.is_empty() {
            return None;
        }
        Some(state.http.answer(&format!("{} {}", seen.method, seen.url), &seen))
    }
}

impl Intercept for World {
    fn intercept(&self, effect: &Effect, scope: &Scope) -> Option<Result<Json, EffectError>> {
        match effect {
            Effect::Now => self.state().clock.map(|clock| Ok(clock.now())),
            Effect::Monotonic => self.state().clock.map(|clock| Ok(clock.monotonic())),
            Effect::Sleep { seconds } => {
                self.state().clock.as_mut()?.advance(*seconds);
                Some(Ok(Json::Null))
            }
            Effect::Env { name } => self.env(name, scope),
            Effect::EnvAll => Some(self.env_all(scope)),
            Effect::Exec(request) => self.exec(request, scope),
            Effect::Http(request) => self.http(request, scope),
            Effect::Store(operation) => Some(self.store.run(operation, scope, self.now())),
            Effect::Log { level, message, fields } => {
                let line = LogLine { level: level.clone(), message: message.clone(), fields: fields.clone() };
                self.state().logs.push(Logged { line, by_script: true });
                Some(Ok(Json::Null))
            }
            _ => None,
        }
    }
}
