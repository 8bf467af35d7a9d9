//! Who may talk to a server on this machine: no page of another origin, no name somebody else's DNS
//! points here (DNS rebinding).

use std::sync::Arc;

use axum::extract::Request;
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::config::HttpSettings;

pub struct Guard {
    hosts: Vec<String>,
    origins: Vec<String>,
}

impl Guard {
    pub fn new(settings: Option<&HttpSettings>) -> Guard {
        Guard {
            hosts: settings.map(|http| http.allowed_hosts.clone()).unwrap_or_default(),
            origins: settings.map(|http| http.allowed_origins.clone()).unwrap_or_default(),
        }
    }

    fn refusal(&self, headers: &HeaderMap, uri_host: Option<&str>) -> Option<String> {
        let text = |name| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
        match text(header::HOST).or(uri_host) {
            None => return Some("the Host header is missing".to_owned()),
            Some(host) if !is_loopback(host) && !self.hosts.iter().any(|known| names_host(known, host)) => {
                return Some(format!("host `{host}` is not served here; see `http.allowedHosts`"));
            }
            Some(_) => {}
        }
        match text(header::ORIGIN) {
            None => None,
            Some(origin) => {
                let local = origin
                    .split_once("://")
                    .is_some_and(|(scheme, host)| matches!(scheme, "http" | "https") && is_loopback(host));
                let known =
                    self.origins.iter().any(|known| known == "*" || known.eq_ignore_ascii_case(origin));
                (!local && !known)
                    .then(|| format!("origin `{origin}` may not call this server; see `http.allowedOrigins`"))
            }
        }
    }
}

/// `name`, or `name:port` where the setting has no port.
fn names_host(known: &str, host: &str) -> bool {
    known.eq_ignore_ascii_case(host) || known.eq_ignore_ascii_case(without_port(host)) || known == "*"
}

fn without_port(host: &str) -> &str {
    match host.rfind(':') {
        Some(at) if !host[at..].contains(']') => &host[..at],
        _ => host,
    }
}

fn is_loopback(host: &str) -> bool {
    let name = without_port(host);
    let name = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    name.eq_ignore_ascii_case("localhost")
        || name.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

pub async fn check(guard: Arc<Guard>, request: Request, next: Next) -> Response {
    match guard.refusal(request.headers(), request.uri().host()) {
        Some(reason) => (StatusCode::FORBIDDEN, format!("Forbidden: {reason}\n")).into_response(),
        None => next.run(request).await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    fn check(host: &str, origin: Option<&str>, admitted: bool) {
        let guard = Guard {
            hosts: vec!["tools.example".to_owned()],
            origins: vec!["https://app.example".to_owned()],
        };
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, HeaderValue::from_str(host).expect("host"));
        if let Some(origin) = origin {
            headers.insert(header::ORIGIN, HeaderValue::from_str(origin).expect("origin"));
        }
        assert_eq!(guard.refusal(&headers, None).is_none(), admitted, "{host} {origin:?}");
    }

    #[test]
    fn only_loopback_and_named_hosts_and_origins() {
        check("localhost:3000", None, true);
        check("127.0.0.1:3000", Some("http://localhost:5173"), true);
        check("[::1]:3000", Some("http://[::1]:1"), true);
        check("tools.example:443", None, true);
        check("evil.example", None, false);
        check("localhost.evil.example", None, false);
        check("127.0.0.1.evil.example:80", None, false);
        check("localhost:3000", Some("https://app.example"), true);
        check("localhost:3000", Some("https://evil.example"), false);
        check("localhost:3000", Some("null"), false);
        check("localhost:3000", Some("file://localhost"), false);
    }
}
