//! Clients over streamable HTTP.
//!
//! Legacy clients have a session each; modern ones say everything in every request.

mod guard;
mod sessions;

use std::convert::Infallible;
use std::sync::Arc;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use futures_util::stream::Stream;
use serde_json::{Value as Json, json};

use super::era::{self, HEADER_MISMATCH, MISSING_CLIENT_CAPABILITY, UNSUPPORTED_VERSION};
use super::peer::{Admission, Peer};
use super::rpc::{
    self, INVALID_REQUEST, Id, Incoming, METHOD_NOT_FOUND, Malformed, Message, RpcError, response,
};
use super::stdio::answer_batch;
use crate::app::App;
use sessions::{Session, Sessions};

const SESSION_HEADER: &str = "mcp-session-id";
const VERSION_HEADER: &str = "mcp-protocol-version";

struct Front {
    app: Arc<App>,
    sessions: Sessions,
}

/// Serves until the app shuts down.
pub async fn serve(app: Arc<App>, listener: tokio::net::TcpListener) -> std::io::Result<()> {
    let shutdown = app.shutdown.clone();
    axum::serve(listener, router(app)).with_graceful_shutdown(async move { shutdown.cancelled().await }).await
}

fn router(app: Arc<App>) -> Router {
    let settings = app.settings.http.clone();
    let max_body = settings.as_ref().map_or(16 << 20, |http| http.max_body);
    let guard = Arc::new(guard::Guard::new(settings.as_ref()));
    let front = Arc::new(Front { app, sessions: Sessions::default() });
    Router::new()
        .route("/mcp", get(open_stream).post(post).delete(end_session))
        .route("/health", get(health))
        .route("/status", get(status))
        .layer(DefaultBodyLimit::max(max_body))
        .layer(middleware::from_fn(move |request, next| guard::check(guard.clone(), request, next)))
        .with_state(front)
}

fn json_response(status: StatusCode, body: Vec<u8>) -> Response {
    (status, [(header::CONTENT_TYPE, "application/json")], body).into_response()
}

fn refuse(status: StatusCode, code: i64, message: &str) -> Response {
    json_response(status, response(None, &Err(RpcError::new(code, message))))
}

async fn post(State(front): State<Arc<Front>>, headers: HeaderMap, body: Bytes) -> Response {
    if let Some(refusal) = check_media_types(&headers) {
        return refusal;
    }
    match rpc::decode(&body) {
        Incoming::Nothing => {
            refuse(StatusCode::BAD_REQUEST, rpc::PARSE_ERROR, "Parse error: the body is empty")
        }
        Incoming::One(Err(Malformed { id, error })) => {
            json_response(StatusCode::BAD_REQUEST, response(id.as_ref(), &Err(error)))
        }
        Incoming::One(Ok(message)) => front.take(&headers, message).await,
        Incoming::Batch(messages) => front.take_batch(&headers, messages).await,
    }
}

fn check_media_types(headers: &HeaderMap) -> Option<Response> {
    let content_type = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("");
    let media_type = content_type.split(';').next().unwrap_or("").trim();
    if !media_type.eq_ignore_ascii_case("application/json") {
        let message = "Content-Type must be application/json";
        return Some(refuse(StatusCode::UNSUPPORTED_MEDIA_TYPE, INVALID_REQUEST, message));
    }
    let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or("*/*");
    let accepts = |wanted: &str| {
        accept.split(',').map(|part| part.split(';').next().unwrap_or("").trim()).any(|part| {
            part == "*/*" || part.eq_ignore_ascii_case(wanted) || part.eq_ignore_ascii_case("application/*")
        })
    };
    if !accepts("application/json") {
        let message = "Accept must include application/json and text/event-stream";
        return Some(refuse(StatusCode::NOT_ACCEPTABLE, INVALID_REQUEST, message));
    }
    None
}

impl Front {
    async fn take(&self, headers: &HeaderMap, message: Message) -> Response {
        let is_modern = match &message {
            Message::Request { params, .. } | Message::Notification { params, .. } => {
                params.meta().is_some_and(|meta| meta.contains_key(era::META_VERSION))
                    || header_text(headers, VERSION_HEADER).is_some_and(era::is_modern)
            }
            Message::Response => false,
        };
        if is_modern {
            return self.take_modern(headers, message).await;
        }
        if let Message::Request { method, .. } = &message
            && method == "initialize"
            && !headers.contains_key(SESSION_HEADER)
        {
            return self.open_session(message);
        }
        let session = match self.session(headers) {
            Ok(session) => session,
            Err(refusal) => return refusal,
        };
        match session.peer.admit(message) {
            Admission::Nothing => StatusCode::ACCEPTED.into_response(),
            Admission::Answered(id, outcome) => json_response(StatusCode::OK, response(Some(&id), &outcome)),
            Admission::Run(request) => match session.peer.run(request).await {
                Some((id, outcome)) => json_response(StatusCode::OK, response(Some(&id), &outcome)),
                // The client cancelled: it does not want to hear of it any more.
                None => StatusCode::ACCEPTED.into_response(),
            },
        }
    }

    fn open_session(&self, message: Message) -> Response {
        let session = Arc::new(Session::new(Peer::new(self.app.clone())));
        let Admission::Answered(id, outcome) = session.peer.admit(message) else {
            return StatusCode::ACCEPTED.into_response();
        };
        let mut answer = json_response(StatusCode::OK, response(Some(&id), &outcome));
        if outcome.is_ok() {
            let Some(key) = self.sessions.add(session) else {
                return refuse(StatusCode::SERVICE_UNAVAILABLE, rpc::BUSY, "too many sessions are open");
            };
            if let Ok(value) = HeaderValue::from_str(&key) {
                answer.headers_mut().insert(SESSION_HEADER, value);
            }
        }
        answer
    }

    /// The session a legacy request belongs to.
    fn session(&self, headers: &HeaderMap) -> Result<Arc<Session>, Response> {
        let Some(key) = header_text(headers, SESSION_HEADER) else {
            let message = "Mcp-Session-Id is missing: call `initialize` first";
            return Err(refuse(StatusCode::BAD_REQUEST, INVALID_REQUEST, message));
        };
        let Some(session) = self.sessions.get(key) else {
            return Err(refuse(
                StatusCode::NOT_FOUND,
                INVALID_REQUEST,
                "this session does not exist or has ended",
            ));
        };
        if let Some(version) = header_text(headers, VERSION_HEADER)
            && !era::LEGACY_VERSIONS.contains(&version)
        {
            let message = format!("Unsupported protocol version: {version}");
            return Err(refuse(StatusCode::BAD_REQUEST, INVALID_REQUEST, &message));
        }
        Ok(session)
    }

    async fn take_batch(&self, headers: &HeaderMap, messages: Vec<Result<Message, Malformed>>) -> Response {
        let session = match self.session(headers) {
            Ok(session) => session,
            Err(refusal) => return refusal,
        };
        if !session.peer.takes_batches() {
            let message = "batches exist only in protocol version 2025-03-26";
            return refuse(StatusCode::BAD_REQUEST, INVALID_REQUEST, message);
        }
        match answer_batch(&session.peer, messages).await {
            Some(answer) => json_response(StatusCode::OK, answer),
            None => StatusCode::ACCEPTED.into_response(),
        }
    }

    /// A request that stands for itself. When its client goes away, so does the call.
    async fn take_modern(&self, headers: &HeaderMap, message: Message) -> Response {
        let Message::Request { id, .. } = &message else { return StatusCode::ACCEPTED.into_response() };
        if let Err(error) = check_modern_headers(headers, &message) {
            return json_response(StatusCode::BAD_REQUEST, response(Some(id), &Err(error)));
        }
        let id = id.clone();
        let peer = Peer::new(self.app.clone());
        let outcome = match peer.admit(message) {
            Admission::Nothing => return StatusCode::ACCEPTED.into_response(),
            Admission::Answered(_, outcome) => outcome,
            Admission::Run(request) => {
                let end_with_client = CancelOnDrop { peer: &peer, id: &id };
                let outcome = peer.run(request).await;
                drop(end_with_client);
                match outcome {
                    Some((_, outcome)) => outcome,
                    None => return StatusCode::ACCEPTED.into_response(),
                }
            }
        };
        json_response(modern_status(&outcome), response(Some(&id), &outcome))
    }
}

/// Closing the connection cancels, in the modern era.
struct CancelOnDrop<'a> {
    peer: &'a Peer,
    id: &'a Id,
}

impl Drop for CancelOnDrop<'_> {
    fn drop(&mut self) {
        self.peer.cancel(&self.id.key());
    }
}

fn modern_status(outcome: &Result<Json, RpcError>) -> StatusCode {
    match outcome {
        Err(error) if error.code == METHOD_NOT_FOUND => StatusCode::NOT_FOUND,
        Err(error)
            if [HEADER_MISMATCH, MISSING_CLIENT_CAPABILITY, UNSUPPORTED_VERSION, rpc::INVALID_PARAMS]
                .contains(&error.code) =>
        {
            StatusCode::BAD_REQUEST
        }
        _ => StatusCode::OK,
    }
}

fn header_text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

/// Modern headers repeat what the body says, for proxies; they must not say something else.
fn check_modern_headers(headers: &HeaderMap, message: &Message) -> Result<(), RpcError> {
    let Message::Request { method, params, .. } = message else { return Ok(()) };
    let mismatch = |name: &str, expected: &str| {
        let message = match header_text(headers, name) {
            Some(found) => format!("header {name} is `{found}`, but the body says `{expected}`"),
            None => format!("header {name} is missing"),
        };
        Err(RpcError::new(HEADER_MISMATCH, message))
    };
    let version = params.meta().and_then(|meta| meta.get(era::META_VERSION)).and_then(Json::as_str);
    match version {
        Some(version) if header_text(headers, VERSION_HEADER) != Some(version) => {
            return mismatch("MCP-Protocol-Version", version);
        }
        Some(_) => {}
        None => {
            let message = format!("_meta[\"{}\"] is missing", era::META_VERSION);
            return Err(RpcError::new(rpc::INVALID_PARAMS, message));
        }
    }
    if header_text(headers, "mcp-method") != Some(method) {
        return mismatch("Mcp-Method", method);
    }
    if method == "tools/call" {
        let params = params.clone().object()?;
        if let Some(name) = params.get("name").and_then(Json::as_str)
            && header_text(headers, "mcp-name") != Some(name)
        {
            return mismatch("Mcp-Name", name);
        }
    }
    Ok(())
}

/// The stream on which a legacy client hears of changes.
async fn open_stream(State(front): State<Arc<Front>>, headers: HeaderMap) -> Response {
    let accept = header_text(&headers, header::ACCEPT.as_str()).unwrap_or("*/*");
    if !accept.contains("text/event-stream") && !accept.contains("*/*") {
        return refuse(StatusCode::NOT_ACCEPTABLE, INVALID_REQUEST, "Accept must include text/event-stream");
    }
    let session = match front.session(&headers) {
        Ok(session) => session,
        Err(refusal) => return refusal,
    };
    let stream = changes(front.app.clone(), session);
    Sse::new(stream).keep_alive(KeepAlive::default()).into_response()
}

fn changes(app: Arc<App>, session: Arc<Session>) -> impl Stream<Item = Result<Event, Infallible>> {
    use tokio::sync::broadcast::error::RecvError;
    let receiver = app.changes.subscribe();
    let shutdown = app.shutdown.clone();
    futures_util::stream::unfold(
        (receiver, session, shutdown),
        |(mut receiver, session, shutdown)| async move {
            loop {
                let change = tokio::select! {
                    change = receiver.recv() => change,
                    () = shutdown.cancelled() => return None,
                    () = session.ended.cancelled() => return None,
                };
                match change {
                    Ok(_) | Err(RecvError::Lagged(_)) => {
                        session.touch();
                        if session.peer.is_ready() {
                            let line = rpc::notification("notifications/tools/list_changed");
                            let event = Event::default().data(String::from_utf8_lossy(&line));
                            return Some((Ok(event), (receiver, session, shutdown)));
                        }
                    }
                    Err(RecvError::Closed) => return None,
                }
            }
        },
    )
}

async fn end_session(State(front): State<Arc<Front>>, headers: HeaderMap) -> Response {
    let ended = header_text(&headers, SESSION_HEADER).is_some_and(|key| front.sessions.end(key));
    if ended { StatusCode::NO_CONTENT.into_response() } else { StatusCode::NOT_FOUND.into_response() }
}

async fn health() -> Response {
    json_response(StatusCode::OK, br#"{"status":"ok"}"#.to_vec())
}

/// How every source fares, for `starloom status` and for people.
async fn status(State(front): State<Arc<Front>>) -> Response {
    let catalog = front.app.catalog().await;
    let body = json!({
        "version": env!("CARGO_PKG_VERSION"),
        "tools": catalog.tools().len(),
        "sessions": front.sessions.count(),
        "sources": crate::cli::source_list(&catalog),
    });
    (StatusCode::OK, [(header::CONTENT_TYPE, "application/json")], Body::from(body.to_string()))
        .into_response()
}
