//! Answers a test has prepared, and which request gets which.

use serde_json::{Value as Json, json};
use starloom_engine::{EffectError, ExecRequest, JsonObject};

/// A list of answers. The first that fits and is not used up is given.
pub struct Mocks<M>(Vec<Prepared<M>>);

struct Prepared<M> {
    mock: M,
    times: Option<u64>,
    used: u64,
}

/// One kind of answer.
pub trait Mock {
    type Request;

    fn fits(&self, request: &Self::Request) -> bool;
    fn answer(&self, request: &Self::Request) -> Json;
    /// As a report of all mocks names it.
    fn title(&self) -> String;
}

impl<M> Default for Mocks<M> {
    fn default() -> Mocks<M> {
        Mocks(Vec::new())
    }
}

impl<M: Mock> Mocks<M> {
    pub fn add(&mut self, mock: M, times: Option<u64>) {
        self.0.push(Prepared { mock, times, used: 0 });
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Once there are mocks, what none of them answers is a mistake of the test.
    pub fn answer(&mut self, title: &str, request: &M::Request) -> Result<Json, EffectError> {
        let fitting = self.0.iter_mut().filter(|prepared| prepared.mock.fits(request));
        let mut left = fitting.filter(|prepared| prepared.times.is_none_or(|times| prepared.used < times));
        if let Some(prepared) = left.next() {
            prepared.used += 1;
            return Ok(prepared.mock.answer(request));
        }
        let known: Vec<String> = self.0.iter().map(|prepared| format!("\n  {}", prepared.title())).collect();
        Err(EffectError::failed(format!("no mock answers {title}; there are:{}", known.concat())))
    }
}

impl<M: Mock> Prepared<M> {
    fn title(&self) -> String {
        let title = self.mock.title();
        match self.times {
            Some(times) if self.used >= times => format!("{title} (used up: times = {times})"),
            _ => title,
        }
    }
}

/// `testing.mock_http`.
pub struct HttpMock {
    /// `*` stands for any run of characters.
    url: String,
    method: Option<String>,
    status: Json,
    headers: JsonObject,
    body: String,
}

/// A request as it would be sent, beside the URL as the script wrote it.
pub struct HttpSent {
    pub method: String,
    pub url: String,
    pub written_url: String,
}

impl HttpMock {
    pub fn from_arguments(arguments: &JsonObject) -> HttpMock {
        let mut headers = JsonObject::new();
        if let Some(Json::Object(given)) = arguments.get("headers") {
            // As they arrive from a real server.
            headers.extend(given.iter().map(|(name, value)| (name.to_ascii_lowercase(), value.clone())));
        }
        let body = match arguments.get("json").filter(|json| !json.is_null()) {
            Some(json) => {
                headers.entry("content-type").or_insert_with(|| json!("application/json"));
                json.to_string()
            }
            None => text(arguments, "body"),
        };
        HttpMock {
            url: text(arguments, "url"),
            method: arguments.get("method").and_then(Json::as_str).map(str::to_owned),
            status: arguments.get("status").cloned().unwrap_or_else(|| json!(200)),
            headers,
            body,
        }
    }
}

impl Mock for HttpMock {
    type Request = HttpSent;

    fn fits(&self, request: &HttpSent) -> bool {
        if self.method.as_ref().is_some_and(|method| *method != request.method) {
            return false;
        }
        [&request.url, &request.written_url].into_iter().any(|url| {
            let without_query = url.split(['?', '#']).next().unwrap_or(url);
            matches(&self.url, url) || (!self.url.contains('?') && matches(&self.url, without_query))
        })
    }

    fn answer(&self, request: &HttpSent) -> Json {
        let body = if request.method == "HEAD" { "" } else { &self.body };
        json!({"status": self.status, "headers": self.headers, "body": body, "url": request.url})
    }

    fn title(&self) -> String {
        format!("{} {}", self.method.as_deref().unwrap_or("any method"), self.url)
    }
}

/// `testing.mock_exec`.
pub struct ExecMock {
    command: String,
    /// `None` answers for any.
    args: Option<Vec<String>>,
    stdout: String,
    stderr: String,
    exit_code: i64,
}

impl ExecMock {
    pub fn from_arguments(arguments: &JsonObject) -> ExecMock {
        let args = arguments.get("args").and_then(Json::as_array);
        ExecMock {
            command: text(arguments, "command"),
            args: args.map(|args| args.iter().filter_map(|arg| arg.as_str().map(str::to_owned)).collect()),
            stdout: text(arguments, "stdout"),
            stderr: text(arguments, "stderr"),
            exit_code: arguments.get("exit_code").and_then(Json::as_i64).unwrap_or(0),
        }
    }
}

impl Mock for ExecMock {
    type Request = ExecRequest;

    fn fits(&self, request: &ExecRequest) -> bool {
        self.command == request.command && self.args.as_ref().is_none_or(|args| *args == request.args)
    }

    fn answer(&self, _request: &ExecRequest) -> Json {
        json!({
            "stdout": self.stdout,
            "stderr": self.stderr,
            "exit_code": self.exit_code,
            "success": self.exit_code == 0,
            "timed_out": false,
        })
    }

    fn title(&self) -> String {
        match &self.args {
            Some(args) => command_line(&self.command, args),
            None => format!("{} with any arguments", self.command),
        }
    }
}

/// A command as messages show it: never run, so nothing is quoted.
pub fn command_line(command: &str, args: &[String]) -> String {
    std::iter::once(command).chain(args.iter().map(String::as_str)).collect::<Vec<_>>().join(" ")
}

fn text(arguments: &JsonObject, key: &str) -> String {
    arguments.get(key).and_then(Json::as_str).unwrap_or("").to_owned()
}

/// `*` stands for any run of characters; `?` for itself, because it begins a query.
fn matches(pattern: &str, text: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else { return pattern == text };
    let Some(mut text) = text.strip_prefix(first) else { return false };
    let mut parts = rest.split('*');
    let last = parts.next_back().unwrap_or("");
    for part in parts {
        match text.find(part) {
            Some(at) => text = &text[at + part.len()..],
            None => return false,
        }
    }
    text.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        for (pattern, text, expected) in [
            ("http://a/b", "http://a/b", true),
            ("http://a/b", "http://a/bc", false),
            ("http://a/*", "http://a/b/c?d=e", true),
            ("*/c", "http://a/b/c", true),
            ("http://*/c*x", "http://a/b/cyx", true),
            ("a*b*c", "abc", true),
            ("a*b*bc", "abc", false),
            ("a*a", "a", false),
            ("a?c", "abc", false),
        ] {
            assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
        }
    }
}
