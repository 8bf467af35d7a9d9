//! One request on the way to an answer, and the next one when it was redirected.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use reqwest::header::{
    AUTHORIZATION, CONNECTION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, COOKIE, HOST, HeaderMap,
    HeaderName, HeaderValue, LOCATION, PROXY_AUTHORIZATION, TRANSFER_ENCODING,
};
use reqwest::{Method, Request, Response, StatusCode};
use starloom_engine::{HttpBody, HttpRequest, Json, JsonObject};
use url::Url;

use super::{HttpError, without_userinfo};

pub(super) struct Hop {
    method: Method,
    /// Always `http` or `https`, so there is a host and a port.
    url: Url,
    headers: HeaderMap,
    body: Option<String>,
}

impl Hop {
    pub(super) fn first(request: HttpRequest) -> Result<Hop, HttpError> {
        let method = Method::from_bytes(request.method.to_ascii_uppercase().as_bytes())
            .ok()
            // A tunnel has no answer to give back.
            .filter(|method| *method != Method::CONNECT)
            .ok_or(HttpError::InvalidMethod { method: request.method })?;
        let mut url =
            Url::parse(&request.url).map_err(|error| HttpError::InvalidUrl { reason: error.to_string() })?;
        check_scheme(&url).map_err(|reason| HttpError::InvalidUrl { reason })?;
        if !request.params.is_empty() {
            url.query_pairs_mut().extend_pairs(&request.params);
        }
        let mut headers = headers(request.headers)?;
        let (content_type, body) = body(request.body);
        if let Some(content_type) = content_type {
            headers.entry(CONTENT_TYPE).or_insert(HeaderValue::from_static(content_type));
        }
        if let Some((user, password)) = request.auth {
            headers.insert(AUTHORIZATION, basic(&user, &password)?);
        }
        Ok(Hop { method, url, headers, body }.with_url_credentials())
    }

    /// A user and password in the URL are sent as the header they stand for.
    fn with_url_credentials(mut self) -> Hop {
        if !self.url.username().is_empty() || self.url.password().is_some() {
            let credentials = basic(
                &percent_decode(self.url.username()),
                &percent_decode(self.url.password().unwrap_or("")),
            );
            if let (Ok(credentials), false) = (credentials, self.headers.contains_key(AUTHORIZATION)) {
                self.headers.insert(AUTHORIZATION, credentials);
            }
            self.url = without_userinfo(self.url);
        }
        self
    }

    pub(super) fn redirected(mut self, status: StatusCode, location: &str) -> Result<Hop, HttpError> {
        let invalid = |reason| HttpError::InvalidRedirect { target: self.target(), reason };
        let mut url = self.url.join(location).map_err(|error| invalid(error.to_string()))?;
        check_scheme(&url).map_err(invalid)?;
        if url.fragment().is_none() {
            url.set_fragment(self.url.fragment());
        }
        let becomes_get = match status {
            StatusCode::SEE_OTHER => self.method != Method::HEAD,
            StatusCode::MOVED_PERMANENTLY | StatusCode::FOUND => self.method == Method::POST,
            _ => false,
        };
        if becomes_get {
            self.method = Method::GET;
            self.body = None;
            self.headers.remove(CONTENT_TYPE);
            self.headers.remove(CONTENT_ENCODING);
        }
        if url.origin() != self.url.origin() {
            self.headers.remove(AUTHORIZATION);
            self.headers.remove(PROXY_AUTHORIZATION);
            self.headers.remove(COOKIE);
            self.headers.remove(HOST);
        }
        self.url = url;
        Ok(self.with_url_credentials())
    }

    pub(super) fn to_request(&self) -> Request {
        let mut request = Request::new(self.method.clone(), self.url.clone());
        *request.headers_mut() = self.headers.clone();
        *request.body_mut() = self.body.clone().map(Into::into);
        request
    }

    pub(super) fn to_json(&self) -> JsonObject {
        JsonObject::from_iter([
            ("method".to_owned(), Json::from(self.method.as_str())),
            ("url".to_owned(), Json::from(self.url.as_str())),
            ("headers".to_owned(), super::headers(&self.headers)),
            ("body".to_owned(), self.body.clone().map_or(Json::Null, Json::from)),
        ])
    }

    /// Host without brackets, and port.
    pub(super) fn address(&self) -> (&str, u16) {
        let host = self.url.host_str().unwrap_or_default();
        let host = host.trim_start_matches('[').trim_end_matches(']');
        (host, self.url.port_or_known_default().unwrap_or_default())
    }

    /// The request as errors name it: without what may be secret.
    pub(super) fn target(&self) -> String {
        let mut url = without_userinfo(self.url.clone());
        url.set_query(None);
        url.set_fragment(None);
        format!("{} {url}", self.method)
    }
}

/// Where a redirect leads. One that does not say is an answer like any other.
pub(super) fn location(response: &Response) -> Option<String> {
    let redirects = matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308);
    let location = response.headers().get(LOCATION).filter(|_| redirects)?;
    Some(String::from_utf8_lossy(location.as_bytes()).into_owned())
}

fn check_scheme(url: &Url) -> Result<(), String> {
    match url.scheme() {
        "http" | "https" if url.has_host() => Ok(()),
        scheme => Err(format!("only http and https are possible, not {scheme}")),
    }
}

fn headers(given: Vec<(String, String)>) -> Result<HeaderMap, HttpError> {
    let mut headers = HeaderMap::new();
    for (name, value) in given {
        let parsed =
            HeaderName::from_bytes(name.as_bytes()).ok().zip(HeaderValue::from_bytes(value.as_bytes()).ok());
        let (name, value) = parsed.ok_or(HttpError::InvalidHeader { name })?;
        // These follow from the body and the connection, whatever a script thinks they are.
        if ![CONTENT_LENGTH, TRANSFER_ENCODING, CONNECTION].contains(&name) {
            headers.append(name, value);
        }
    }
    Ok(headers)
}

fn body(body: HttpBody) -> (Option<&'static str>, Option<String>) {
    match body {
        HttpBody::None => (None, None),
        HttpBody::Text(text) => (None, Some(text)),
        HttpBody::Json(json) => (Some("application/json"), Some(json.to_string())),
        HttpBody::Form(fields) => {
            let form = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
            (Some("application/x-www-form-urlencoded"), Some(form))
        }
    }
}

fn basic(user: &str, password: &str) -> Result<HeaderValue, HttpError> {
    let mut value =
        HeaderValue::from_str(&format!("Basic {}", STANDARD.encode(format!("{user}:{password}"))))
            .map_err(|_| HttpError::InvalidHeader { name: AUTHORIZATION.to_string() })?;
    value.set_sensitive(true);
    Ok(value)
}

fn percent_decode(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        let digit = |at: usize| after.get(at).and_then(|byte| char::from(*byte).to_digit(16));
        match digit(0).zip(digit(1)).filter(|_| *first == b'%') {
            Some((high, low)) => {
                bytes.push((high * 16 + low) as u8);
                rest = &after[2..];
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
