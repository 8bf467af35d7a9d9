//! One client: its lifecycle, its requests in flight, and the methods it may call.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value as Json, json};
use starloom_engine::JsonObject;

use super::era::{self, BATCH_VERSION, Era, LEGACY_VERSIONS, META_SERVER_INFO, MODERN_VERSIONS};
use super::rpc::{BUSY, INVALID_PARAMS, INVALID_REQUEST, Id, METHOD_NOT_FOUND, Message, Params, RpcError};
use crate::app::App;
use crate::call::{self, Call, CallError, Cancel};
use crate::catalog::Catalog;

/// How long a modern client may keep a list before it asks again.
const LIST_TTL_MS: u64 = 5_000;

/// Where a legacy client is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    New,
    /// Answered, but not confirmed with `notifications/initialized`.
    Initialized(&'static str),
    Ready(&'static str),
}

pub struct Peer {
    app: Arc<App>,
    phase: Mutex<Phase>,
    in_flight: Mutex<HashMap<String, Cancel>>,
}

/// What became of a message as it was taken in.
pub enum Admission {
    /// It needs no answer.
    Nothing,
    /// The answer is known already.
    Answered(Id, Result<Json, RpcError>),
    /// It has to be run; it is in flight until [`Peer::run`] ends.
    Run(Admitted),
}

pub struct Admitted {
    pub id: Id,
    era: Era,
    method: String,
    params: JsonObject,
    cancel: Cancel,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Peer {
    pub fn new(app: Arc<App>) -> Peer {
        Peer { app, phase: Mutex::new(Phase::New), in_flight: Mutex::default() }
    }

    /// The version agreed on, if the client came with `initialize`.
    pub fn version(&self) -> Option<&'static str> {
        match *lock(&self.phase) {
            Phase::New => None,
            Phase::Initialized(version) | Phase::Ready(version) => Some(version),
        }
    }

    pub fn takes_batches(&self) -> bool {
        self.version() == Some(BATCH_VERSION)
    }

    /// Whether the client may be sent notifications.
    pub fn is_ready(&self) -> bool {
        matches!(*lock(&self.phase), Phase::Ready(_))
    }

    /// Takes a message in. What must happen in the order it was sent happens here.
    pub fn admit(&self, message: Message) -> Admission {
        let (id, method, params) = match message {
            Message::Response => return Admission::Nothing,
            Message::Notification { method, params } => {
                self.notified(&method, params);
                return Admission::Nothing;
            }
            Message::Request { id, method, params } => (id, method, params),
        };
        let era = match era::of_request(&params) {
            Ok(era) => era,
            Err(error) => return Admission::Answered(id, Err(error)),
        };
        let params = match params.object() {
            Ok(params) => params,
            Err(error) => return Admission::Answered(id, Err(error)),
        };
        match (era, method.as_str()) {
            (Era::Legacy, "initialize") => return Admission::Answered(id, self.initialize(&params)),
            (Era::Legacy, "ping") => return Admission::Answered(id, Ok(json!({}))),
            (Era::Legacy, _) if !self.is_ready() => {
                let what = match *lock(&self.phase) {
                    Phase::New => "`initialize` must come first",
                    _ => "`notifications/initialized` must come first",
                };
                return Admission::Answered(id, Err(RpcError::new(INVALID_REQUEST, what)));
            }
            _ => {}
        }
        let cancel = Cancel::new();
        let mut in_flight = lock(&self.in_flight);
        if in_flight.contains_key(&id.key()) {
            let message = format!("a request with id {} is already running", id.key());
            return Admission::Answered(id, Err(RpcError::new(INVALID_REQUEST, message)));
        }
        in_flight.insert(id.key(), cancel.clone());
        Admission::Run(Admitted { id, era, method, params, cancel })
    }

    /// Runs a request. `None` when it was cancelled: no answer goes out after a cancellation that won.
    pub async fn run(&self, request: Admitted) -> Option<(Id, Result<Json, RpcError>)> {
        let Admitted { id, era, method, params, cancel } = request;
        let outcome = self.dispatch(era, &method, params, &cancel).await;
        // Whoever takes the id out of the table has won.
        lock(&self.in_flight).remove(&id.key())?;
        outcome.map(|outcome| (id, outcome))
    }

    /// Ends a request that nobody waits for any more.
    pub fn cancel(&self, key: &str) {
        if let Some(cancel) = lock(&self.in_flight).remove(key) {
            cancel.cancel();
        }
    }

    pub fn cancel_all(&self) {
        for (_, cancel) in lock(&self.in_flight).drain() {
            cancel.cancel();
        }
    }

    fn notified(&self, method: &str, params: Params) {
        match method {
            "notifications/initialized" => {
                let mut phase = lock(&self.phase);
                if let Phase::Initialized(version) = *phase {
                    *phase = Phase::Ready(version);
                }
            }
            "notifications/cancelled" => {
                let params = params.object().unwrap_or_default();
                if let Some(key) = params.get("requestId").and_then(Id::key_of) {
                    self.cancel(&key);
                }
            }
            // Unknown notifications are ignored, as JSON-RPC wants it.
            _ => tracing::debug!(method, "notification ignored"),
        }
    }

    /// `None`: cancelled.
    async fn dispatch(
        &self,
        era: Era,
        method: &str,
        params: JsonObject,
        cancel: &Cancel,
    ) -> Option<Result<Json, RpcError>> {
        Some(match (method, era) {
            ("tools/list", _) => self.list_tools(era, &params).await,
            ("tools/call", _) => return self.call_tool(era, params, cancel).await,
            ("server/discover", Era::Modern) => Ok(self.discover()),
            _ => Err(RpcError::new(METHOD_NOT_FOUND, format!("Method not found: {method}"))),
        })
    }

    fn initialize(&self, params: &JsonObject) -> Result<Json, RpcError> {
        let Some(requested) = params.get("protocolVersion").and_then(Json::as_str) else {
            return Err(RpcError::new(INVALID_PARAMS, "`protocolVersion` must be a string"));
        };
        let mut phase = lock(&self.phase);
        if *phase != Phase::New {
            return Err(RpcError::new(INVALID_REQUEST, "this connection is initialized already"));
        }
        let version = era::negotiate(requested);
        *phase = Phase::Initialized(version);
        let mut result = json!({
            "protocolVersion": version,
            "capabilities": capabilities(),
            "serverInfo": server_info(),
        });
        if let Some(instructions) = &self.app.settings.instructions {
            result["instructions"] = json!(instructions);
        }
        Ok(result)
    }

    fn discover(&self) -> Json {
        let versions: Vec<&str> = MODERN_VERSIONS.into_iter().chain(LEGACY_VERSIONS).collect();
        let mut result = json!({
            "resultType": "complete",
            "supportedVersions": versions,
            "capabilities": capabilities(),
            "ttlMs": LIST_TTL_MS,
            "cacheScope": "public",
            "_meta": {META_SERVER_INFO: server_info()},
        });
        if let Some(instructions) = &self.app.settings.instructions {
            result["instructions"] = json!(instructions);
        }
        result
    }

    async fn list_tools(&self, era: Era, params: &JsonObject) -> Result<Json, RpcError> {
        let catalog = self.app.catalog().await;
        let start = match params.get("cursor") {
            None | Some(Json::Null) => 0,
            Some(cursor) => after_cursor(&catalog, cursor)?,
        };
        let all = catalog.wire_tools();
        let end = all.len().min(start + self.app.settings.page_size);
        let mut result = JsonObject::new();
        result.insert("tools".to_owned(), Json::Array(all[start..end].to_vec()));
        if end < all.len() {
            result.insert("nextCursor".to_owned(), json!(cursor_at(&catalog, end - 1)));
        }
        let mut meta = JsonObject::from_iter([("starloom/total".to_owned(), json!(all.len()))]);
        if era == Era::Modern {
            meta.insert(META_SERVER_INFO.to_owned(), server_info());
            result.insert("resultType".to_owned(), json!("complete"));
            result.insert("ttlMs".to_owned(), json!(LIST_TTL_MS));
            result.insert("cacheScope".to_owned(), json!("public"));
        }
        result.insert("_meta".to_owned(), Json::Object(meta));
        Ok(Json::Object(result))
    }

    async fn call_tool(
        &self,
        era: Era,
        mut params: JsonObject,
        cancel: &Cancel,
    ) -> Option<Result<Json, RpcError>> {
        let Some(Json::String(name)) = params.shift_remove("name") else {
            return Some(Err(RpcError::new(INVALID_PARAMS, "`name` must be a string")));
        };
        let arguments = match params.shift_remove("arguments") {
            None | Some(Json::Null) => JsonObject::new(),
            Some(Json::Object(arguments)) => arguments,
            Some(_) => return Some(Err(RpcError::new(INVALID_PARAMS, "`arguments` must be an object"))),
        };
        let call = Call { view: self.app.catalog().await, name, arguments, depth: 0, intercept: None };
        match call::run(&self.app, &call, cancel).await {
            Ok(result) => Some(Ok(Json::Object(wire_result(era, result)))),
            Err(CallError::Cancelled) => None,
            Err(error) => Some(Err(rpc_error(error))),
        }
    }
}

/// Every capability this server will ever have: they cannot change after `initialize`, the catalog can.
fn capabilities() -> Json {
    json!({"tools": {"listChanged": true}})
}

fn server_info() -> Json {
    json!({"name": "starloom", "title": "Starloom", "version": env!("CARGO_PKG_VERSION")})
}

/// A cursor names the last tool seen, so that it survives a reload as long as that tool does.
fn cursor_at(catalog: &Catalog, index: usize) -> String {
    URL_SAFE_NO_PAD.encode(format!("after:{}", catalog.tools()[index].name))
}

fn after_cursor(catalog: &Catalog, cursor: &Json) -> Result<usize, RpcError> {
    cursor
        .as_str()
        .and_then(|text| URL_SAFE_NO_PAD.decode(text).ok())
        .and_then(|bytes| String::from_utf8(bytes).ok())
        .and_then(|text| {
            let name = text.strip_prefix("after:")?;
            catalog.tools().iter().position(|tool| tool.name == name)
        })
        .map(|index| index + 1)
        .ok_or_else(|| RpcError::new(INVALID_PARAMS, "unknown cursor; list again from the start"))
}

/// Where the eras differ in a tool's result.
fn wire_result(era: Era, mut result: JsonObject) -> JsonObject {
    match era {
        Era::Modern => {
            result.insert("resultType".to_owned(), json!("complete"));
        }
        // Structured content was an object until 2025-11-25, and clients refuse the whole result otherwise.
        Era::Legacy => {
            if let Some(structured) = result.get_mut("structuredContent").filter(|value| !value.is_object()) {
                *structured = json!({"result": structured.take()});
            }
        }
    }
    result
}

/// The one place where a failed call gets its JSON-RPC code.
fn rpc_error(error: CallError) -> RpcError {
    let message = error.to_string();
    match error {
        CallError::UnknownTool { .. } => RpcError::new(INVALID_PARAMS, message),
        CallError::Busy { .. } => RpcError::new(BUSY, message),
        CallError::Cancelled => RpcError::new(INVALID_REQUEST, message),
        CallError::Protocol { code, data, .. } => RpcError { code, message, data },
    }
}
