//! Performs what a test function asks for.

use std::sync::Arc;

use starloom_effects::{Grants, Scope, perform};
use starloom_engine::{Effect, EffectError, Host, Json, JsonObject};

use super::sources::{Sources, View};
use super::world::World;
use crate::app::App;
use crate::call::{self, Call, CallError, Cancel};
use crate::extensions::ScriptFile;

pub struct TestHost<'a> {
    pub app: &'a App,
    pub sources: &'a Sources,
    pub file: &'a ScriptFile,
    pub grants: &'a Grants,
    pub cancel: &'a Cancel,
    pub world: Arc<World>,
}

impl Host for TestHost<'_> {
    fn perform(&self, effect: Effect) -> Result<Json, EffectError> {
        let scope = Scope {
            services: &self.app.services,
            grants: self.grants,
            stop: &self.cancel.stop,
            cancelled: &self.cancel.token,
            runtime: &self.app.runtime,
        };
        if let Some(answer) = crate::host::Intercept::intercept(&*self.world, &effect, &scope) {
            return answer;
        }
        match effect {
            Effect::Testing { operation, arguments } if operation == "call" => self.call(arguments),
            Effect::Testing { operation, arguments } => self.world.testing(&operation, &arguments, &scope),
            Effect::CallTool { name, arguments, timeout } => Ok(self.call_tool(name, arguments, timeout)),
            // Nobody is connected to a test.
            Effect::NotifyChanged { .. } => Ok(Json::Null),
            effect => perform(&scope, effect),
        }
    }
}

impl TestHost<'_> {
    /// `testing.call`: a test wants to hear of a call that could not even be made.
    fn call(&self, mut arguments: JsonObject) -> Result<Json, EffectError> {
        let Some(Json::String(name)) = arguments.shift_remove("tool") else {
            return Err(EffectError::failed("testing.call: the tool has no name"));
        };
        let args = match arguments.shift_remove("args") {
            Some(Json::Object(args)) => args,
            _ => JsonObject::new(),
        };
        let view = self.sources.view(self.file);
        let view = view.as_ref().as_ref().map_err(|problem| EffectError::failed(problem.clone()))?;
        match self.run(view, name, args, None) {
            Ok(result) => Ok(Json::Object(result)),
            Err(CallError::Cancelled) => Err(EffectError::Stopped),
            Err(CallError::Protocol { code, message, data }) => {
                Err(EffectError::Protocol { code, message, data })
            }
            Err(error @ CallError::UnknownTool { .. }) => {
                Err(EffectError::failed(format!("{error}{}", view.failures())))
            }
            Err(error @ CallError::Busy { .. }) => Err(EffectError::failed(error.to_string())),
        }
    }

    /// `call_tool`, which a function of an extension may use and which never raises.
    fn call_tool(&self, name: String, arguments: JsonObject, timeout: Option<f64>) -> Json {
        let view = self.sources.view(self.file);
        let outcome = match &*view {
            Ok(view) => self.run(view, name, arguments, timeout).map_err(|error| error.to_string()),
            Err(problem) => Err(problem.clone()),
        };
        Json::Object(outcome.unwrap_or_else(|problem| call::error_result(&problem)))
    }

    /// The one request path, as if this test were a tool.
    fn run(
        &self,
        view: &View,
        name: String,
        arguments: JsonObject,
        timeout: Option<f64>,
    ) -> Result<JsonObject, CallError> {
        let test = Call {
            view: view.catalog.clone(),
            name: String::new(),
            arguments: JsonObject::new(),
            depth: 0,
            intercept: Some(self.world.clone()),
        };
        call::run_nested(self.app, &test, self.cancel, name, arguments, timeout)
    }
}
