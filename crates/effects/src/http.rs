//! HTTP requests: one shared client, redirects followed here so that every hop is checked.

mod hop;

use std::error::Error;
use std::sync::OnceLock;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use reqwest::header::HeaderMap;
use starloom_engine::{EffectError, HttpRequest, Json, JsonObject};
use url::Url;

use self::hop::Hop;
use crate::grants::{Denied, Grants};
use crate::hosts::HostPermit;
use crate::resolve::{HttpResolver, Resolver};
use crate::scope::timeout_from;
use crate::tls;
use crate::{Scope, Services};

#[derive(Debug, thiserror::Error)]
enum HttpError {
    #[error("Invalid URL: {reason}")]
    InvalidUrl { reason: String },
    #[error("Invalid method: {method:?}")]
    InvalidMethod { method: String },
    #[error("Invalid header: {name:?}")]
    InvalidHeader { name: String },
    #[error("{0}")]
    Denied(#[from] Denied),
    #[error("Request failed: HTTP cannot be set up: {reason}")]
    Setup { reason: String },
    #[error("Request failed: {target}: {reason}")]
    Failed { target: String, reason: String },
    #[error("Request failed: {target}: timed out after {} s", timeout.as_secs_f64())]
    TimedOut { target: String, timeout: Duration },
    #[error("Request failed: {target}: more than {limit} redirects")]
    TooManyRedirects { target: String, limit: u32 },
    #[error("Request failed: {target}: redirected to an invalid URL: {reason}")]
    InvalidRedirect { target: String, reason: String },
    #[error("Failed to read response body: {target}: larger than {limit} bytes")]
    TooLarge { target: String, limit: u64 },
    #[error("Failed to read response body: {target}: {reason}")]
    Body { target: String, reason: String },
}

impl From<HttpError> for EffectError {
    fn from(error: HttpError) -> EffectError {
        EffectError::Failed(error.to_string())
    }
}

/// Two clients, so that a connection made for a source that names a link-local address is never
/// reused for one that does not.
#[derive(Default)]
pub(crate) struct Clients {
    ordinary: OnceLock<Result<reqwest::Client, String>>,
    named: OnceLock<Result<reqwest::Client, String>>,
}

impl Clients {
    fn get(&self, services: &Services, permit: HostPermit) -> Result<&reqwest::Client, HttpError> {
        let cell = match permit {
            HostPermit::Ordinary => &self.ordinary,
            HostPermit::Named => &self.named,
        };
        cell.get_or_init(|| build(services, permit))
            .as_ref()
            .map_err(|reason| HttpError::Setup { reason: reason.clone() })
    }
}

fn build(services: &Services, permit: HostPermit) -> Result<reqwest::Client, String> {
    let tls = tls::http_config(&services.roots).map_err(|error| error.to_string())?;
    let resolver = Resolver::new(services.options.resolve.clone());
    let mut builder = reqwest::Client::builder()
        .tls_backend_preconfigured(tls)
        .redirect(reqwest::redirect::Policy::none())
        .dns_resolver(HttpResolver { resolver, permit })
        // Some services refuse requests without a name.
        .user_agent(concat!("starloom/", env!("CARGO_PKG_VERSION")));
    if !services.options.http_system_proxy {
        builder = builder.no_proxy();
    }
    builder.build().map_err(|error| root_cause(&error))
}

/// What a source would send, `{"method", "url", "headers", "body"}`, if it may: for whoever answers in the
/// server's place.
pub fn preview_http(grants: &Grants, request: HttpRequest) -> Result<JsonObject, EffectError> {
    let hop = Hop::first(request)?;
    let (host, port) = hop.address();
    grants.check_host(host, port)?;
    Ok(hop.to_json())
}

#[inline(never)]
pub(crate) fn request(scope: &Scope, request: HttpRequest) -> Result<Json, EffectError> {
    let options = &scope.services.options;
    let timeout = timeout_from(request.timeout, options.http_timeout)?;
    let max_bytes = request.max_bytes.unwrap_or(u64::MAX).min(options.http_max_bytes);
    let max_redirects = request.max_redirects.unwrap_or(options.http_max_redirects);
    let hop = Hop::first(request)?;
    let target = hop.target();
    match scope.wait_at_most(timeout, follow(scope, hop, max_redirects, max_bytes))? {
        Some(answer) => Ok(answer?),
        None => Err(HttpError::TimedOut { target, timeout }.into()),
    }
}

async fn follow(
    scope: &Scope<'_>,
    mut hop: Hop,
    max_redirects: u32,
    max_bytes: u64,
) -> Result<Json, HttpError> {
    let mut redirects = 0;
    loop {
        let target = hop.target();
        let response = send(scope, &hop).await?;
        let Some(location) = hop::location(&response).filter(|_| max_redirects > 0) else {
            return answer(response, target, max_bytes).await;
        };
        redirects += 1;
        if redirects > max_redirects {
            return Err(HttpError::TooManyRedirects { target, limit: max_redirects });
        }
        hop = hop.redirected(response.status(), &location)?;
    }
}

async fn send(scope: &Scope<'_>, hop: &Hop) -> Result<reqwest::Response, HttpError> {
    let (host, port) = hop.address();
    let permit = scope.grants.check_host(host, port)?;
    let client = scope.services.http.get(scope.services, permit)?;
    client
        .execute(hop.to_request())
        .await
        .map_err(|error| HttpError::Failed { target: hop.target(), reason: root_cause(&error) })
}

async fn answer(mut response: reqwest::Response, target: String, limit: u64) -> Result<Json, HttpError> {
    let mut body: Vec<u8> = Vec::new();
    let failed =
        |error: reqwest::Error| HttpError::Body { target: target.clone(), reason: root_cause(&error) };
    while let Some(chunk) = response.chunk().await.map_err(failed)? {
        if body.len() as u64 + chunk.len() as u64 > limit {
            return Err(HttpError::TooLarge { target, limit });
        }
        body.extend_from_slice(&chunk);
    }
    let mut answer = JsonObject::new();
    answer.insert("status".to_owned(), Json::from(response.status().as_u16()));
    answer.insert("headers".to_owned(), headers(response.headers()));
    match String::from_utf8(body) {
        Ok(text) => {
            answer.insert("body".to_owned(), Json::from(text));
        }
        Err(error) => {
            let lossy = String::from_utf8_lossy(error.as_bytes()).into_owned();
            answer.insert("body".to_owned(), Json::from(lossy));
            answer.insert("body_base64".to_owned(), Json::from(STANDARD.encode(error.as_bytes())));
        }
    }
    answer.insert("url".to_owned(), Json::from(without_userinfo(response.url().clone()).as_str()));
    Ok(Json::Object(answer))
}

fn headers(headers: &HeaderMap) -> Json {
    let mut joined = JsonObject::new();
    for name in headers.keys() {
        let values: Vec<_> =
            headers.get_all(name).iter().map(|value| String::from_utf8_lossy(value.as_bytes())).collect();
        joined.insert(name.as_str().to_owned(), Json::from(values.join(", ")));
    }
    Json::Object(joined)
}

fn without_userinfo(mut url: Url) -> Url {
    // Both fail only for URLs that cannot have any.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url
}

/// The outer layers only say that something failed, the innermost says why. URLs stay out: they may
/// carry secrets.
fn root_cause(error: &dyn Error) -> String {
    let mut cause = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    cause.to_string().replace(['\n', '\r'], " ")
}
