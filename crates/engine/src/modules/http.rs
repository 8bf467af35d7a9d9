//! `http`: requests to other servers, as far as the extension may reach them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use starlark::environment::GlobalsBuilder;
use starlark::eval::Evaluator;
use starlark::values::Value;
use starlark::values::float::UnpackFloat;
use starlark::values::none::NoneOr;
use starloom_builtins_macro::builtins;

use super::arguments::{pairs, seconds};
use crate::builtins::printable;
use crate::context::{argument_json, perform};
use crate::convert::{alloc_dict, to_starlark};
use crate::effect::{Effect, HttpBody, HttpRequest};
use crate::{Json, JsonObject};

/// What every method takes, as the script gave it.
struct Common<'v, 'a> {
    method: &'static str,
    url: &'a str,
    params: NoneOr<Value<'v>>,
    headers: NoneOr<Value<'v>>,
    auth: NoneOr<Value<'v>>,
    timeout: NoneOr<UnpackFloat>,
    max_bytes: NoneOr<i64>,
    max_redirects: NoneOr<i64>,
}

/// What only methods with a body take.
struct Body<'v> {
    body: NoneOr<Value<'v>>,
    json_body: NoneOr<Value<'v>>,
    form_body: NoneOr<Value<'v>>,
}

impl Body<'_> {
    const NONE: Self = Body { body: NoneOr::None, json_body: NoneOr::None, form_body: NoneOr::None };
}

fn send<'v>(
    common: Common<'v, '_>,
    body: Body<'v>,
    eval: &Evaluator<'v, '_, '_>,
) -> anyhow::Result<Value<'v>> {
    let function = common.method.to_ascii_lowercase();
    let mut headers = pairs("headers", common.headers)?;
    let request = HttpRequest {
        method: common.method.to_owned(),
        url: common.url.to_owned(),
        params: pairs("params", common.params)?,
        auth: auth(common.auth, eval)?,
        body: encode_body(body, &mut headers, eval)?,
        headers,
        timeout: seconds(&format!("http.{function}: timeout"), common.timeout)?,
        max_bytes: limit(&format!("http.{function}: max_bytes"), common.max_bytes)?,
        max_redirects: limit(&format!("http.{function}: max_redirects"), common.max_redirects)?,
    };
    answer(perform(eval, Effect::Http(request))?, eval)
}

fn limit<T: TryFrom<i64>>(what: &str, value: NoneOr<i64>) -> anyhow::Result<Option<T>> {
    match value.into_option() {
        Some(number) => match T::try_from(number) {
            Ok(number) => Ok(Some(number)),
            Err(_) => anyhow::bail!("{what} must be an integer of at least 0, got: {number}"),
        },
        None => Ok(None),
    }
}

fn auth<'v>(
    value: NoneOr<Value<'v>>,
    eval: &Evaluator<'v, '_, '_>,
) -> anyhow::Result<Option<(String, String)>> {
    let Some(value) = value.into_option() else { return Ok(None) };
    // One more than the two it needs is enough to know that it is wrong.
    let items: Vec<Value> =
        value.iterate(eval.heap()).map(|items| items.take(3).collect()).unwrap_or_default();
    match items.as_slice() {
        [user, password] => Ok(Some((printable(*user)?, printable(*password)?))),
        _ => anyhow::bail!("auth must be a tuple of (username, password)"),
    }
}

fn encode_body<'v>(
    body: Body<'v>,
    headers: &mut Vec<(String, String)>,
    eval: &Evaluator<'v, '_, '_>,
) -> anyhow::Result<HttpBody> {
    if let NoneOr::Other(value) = body.json_body {
        // A text that is JSON already goes out letter by letter: it may have been signed.
        return match value.unpack_str().filter(|text| is_json(text)) {
            Some(text) => {
                if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-type")) {
                    headers.push(("Content-Type".to_owned(), "application/json".to_owned()));
                }
                Ok(HttpBody::Text(text.to_owned()))
            }
            None => Ok(HttpBody::Json(argument_json("json_body", value, eval)?)),
        };
    }
    if !body.form_body.is_none() {
        return Ok(HttpBody::Form(pairs("form_body", body.form_body)?));
    }
    match body.body {
        NoneOr::None => Ok(HttpBody::None),
        NoneOr::Other(value) if value.get_type() == "bytes" => {
            let bytes = super::arguments::bytes_of("body", value)?;
            match std::str::from_utf8(bytes) {
                Ok(text) => Ok(HttpBody::Text(text.to_owned())),
                Err(_) => anyhow::bail!("body must be text: these bytes are not UTF-8"),
            }
        }
        NoneOr::Other(value) => Ok(HttpBody::Text(printable(value)?)),
    }
}

fn is_json(text: &str) -> bool {
    serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok()
}

/// The dict a script gets.
fn answer<'v>(answer: Json, eval: &Evaluator<'v, '_, '_>) -> anyhow::Result<Value<'v>> {
    let Json::Object(mut answer) = answer else { anyhow::bail!("http: the host gave no response") };
    let Some(status) = answer.get("status").and_then(Json::as_i64) else {
        anyhow::bail!("http: the host gave no status");
    };
    let text = |answer: &mut JsonObject, key: &str| match answer.remove(key) {
        Some(Json::String(text)) => Some(text),
        _ => None,
    };
    let encoded = text(&mut answer, "body_base64");
    let body = text(&mut answer, "body").or_else(|| {
        let bytes = STANDARD.decode(encoded.as_ref()?).ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    });
    let body = body.unwrap_or_default();
    let url = text(&mut answer, "url").unwrap_or_default();
    let headers = answer.remove("headers").unwrap_or_else(|| Json::Object(JsonObject::new()));

    let heap = eval.heap();
    let mut entries = vec![
        ("status_code", heap.alloc(status)),
        ("status", heap.alloc(status)),
        ("body", heap.alloc(body.as_str())),
        ("headers", to_starlark(&headers, heap)?),
        ("url", heap.alloc(url)),
        ("success", Value::new_bool((200..300).contains(&status))),
    ];
    if let Some(encoded) = encoded {
        entries.push(("body_base64", heap.alloc(encoded)));
    } else if let Some(json) = serde_json::from_str::<Json>(&body).ok()
        && let Ok(value) = to_starlark(&json, heap)
    {
        entries.push(("json", value));
    }
    Ok(alloc_dict(heap, entries))
}

#[builtins]
pub(crate) fn register(globals: &mut GlobalsBuilder) {
    /// Sends a GET request.
    ///
    /// Returns `{"status_code", "status", "body", "headers", "url", "success"}`: `url` is the final one
    /// after redirects, `success` is whether the status is 2xx. `json` is there too when the body is
    /// JSON, and `body_base64` when it is not text. A status such as 404 is not an error; a server
    /// that cannot be reached is.
    ///
    /// Args:
    ///     url: an http or https address; its host must be in the extension's `allowed_hosts`, if it has any
    ///     params: dict added to the query; a list repeats its key, `None` leaves it out
    ///     headers: dict of headers
    ///     auth: `(username, password)` for basic authentication
    ///     timeout: seconds for the whole request
    ///     max_bytes: a larger body is an error
    ///     max_redirects: how many redirects to follow; 0 returns the redirect itself
    fn get<'v>(
        url: &str,
        #[starlark(default = NoneOr::None)] params: NoneOr<Value<'v>>,
        #[starlark(default = NoneOr::None)] headers: NoneOr<Value<'v>>,
        #[starlark(default = NoneOr::None)] auth: NoneOr<Value<'v>>,
        #[starlark(require = named, default = NoneOr::None)] timeout: NoneOr<UnpackFloat>,
        #[starlark(require = named, default = NoneOr::None)] max_bytes: NoneOr<i64>,
        #[starlark(require = named, default = NoneOr::None)] max_redirects: NoneOr<i64>,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> anyhow::Result<Value<'v>> {
        let common = Common { method: "GET", url, params, headers, auth, timeout, max_bytes, max_redirects };
        send(common, Body::NONE, eval)
    }

    /// Sends a HEAD request. Arguments and result as for `http.get`; the body is empty.
    ///
    /// Args:
    ///     url: an http or https address
    ///     params: dict added to the query
    ///     headers: dict of headers
    ///     auth: `(username, password)` for basic authentication
    ///     timeout: seconds for the whole request
    ///     max_bytes: a larger body is an error
    ///     max_redirects: how many redirects to follow
    fn head<'v>(
        url: &str,
        #[starlark(default = NoneOr::None)] params: NoneOr<Value<'v>>,
        #[starlark(default = NoneOr::None)] headers: NoneOr<Value<'v>>,
        #[starlark(default = NoneOr::None)] auth: NoneOr<Value<'v>>,
        #[starlark(require = named, default = NoneOr::None)] timeout: NoneOr<UnpackFloat>,
        #[starlark(require = named, default = NoneOr::None)] max_bytes: NoneOr<i64>,
        #[starlark(require = named, default = NoneOr::None)] max_redirects: NoneOr<i64>,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> anyhow::Result<Value<'v>> {
        let common = Common { method: "HEAD", url, params, headers, auth, timeout, max_bytes, max_redirects };
        send(common, Body::NONE, eval)
    }

    /// Sends a DELETE request. Arguments and result as for `http.get`.
    ///
    /// Args:
    ///     url: an http or https address
    ///     params: dict added to the query
    ///     headers: dict of headers
    ///     auth: `(username, password)` for basic authentication
    ///     timeout: seconds for the whole request
    ///     max_bytes: a larger body is an error
    ///     max_redirects: how many redirects to follow
    fn delete<'v>(
        url: &str,
        #[starlark(default = NoneOr::None)] params: NoneOr<Value<'v>>,
        #[starlark(default = NoneOr::None)] headers: NoneOr<Value<'v>>,
        #[starlark(default = NoneOr::None)] auth: NoneOr<Value<'v>>,
        #[starlark(require = named, default = NoneOr::None)] timeout: NoneOr<UnpackFloat>,
        #[starlark(require = named, default = NoneOr::None)] max_bytes: NoneOr<i64>,
        #[starlark(require = named, default = NoneOr::None)] max_redirects: NoneOr<i64>,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> anyhow::Result<Value<'v>> {
        let common =
            Common { method: "DELETE", url, params, headers, auth, timeout, max_bytes, max_redirects };
        send(common, Body::NONE, eval)
    }

    /// Sends an OPTIONS request. Arguments and result as for `http.get`.
    ///
    /// Args:
    ///     url: an http or https address
    ///     params: dict added to the query
    ///     headers: dict of headers
    ///     auth: `(username, password)` for basic authentication
    ///     timeout: seconds for the whole request
    ///     max_bytes: a larger body is an error
    ///     max_redirects: how many redirects to follow
    fn options<'v>(
        url: &str,
        #[starlark(default = NoneOr::None)] params: NoneOr<Value<'v>>,
        #[starlark(default = NoneOr::None)] headers: NoneOr<Value<'v>>,
        #[starlark(default = NoneOr::None)] auth: NoneOr<Value<'v>>,
        #[starlark(require = named, default = NoneOr::None)] timeout: NoneOr<UnpackFloat>,
        #[starlark(require = named, default = NoneOr::None)] max_bytes: NoneOr<i64>,
        #[starlark(require = named, default = NoneOr::None)] max_redirects: NoneOr<i64>,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> anyhow::Result<Value<'v>> {
        let common =
            Common { method: "OPTIONS", url, params, headers, auth, timeout, max_bytes, max_redirects };
        send(common, Body::NONE, eval)
    }

    /// Sends a POST request. The result is that of `http.get`.
    ///
    /// Of the three bodies the first that is given wins: `json_body`, `form_body`, `body`.
    ///
    /// Args:
    ///     url: an http or https address; its host must be in the extension's `allowed_hosts`, if it has any
    ///     params: dict added to the query; a list repeats its key, `None` leaves it out
    ///     headers: dict of headers
    ///     body: text to send as it is
    ///     json_body: value to send as JSON; a string that is JSON already is sent as it is
    ///     form_body: dict to send as a form
    ///     auth: `(username, password)` for basic authentication
    ///     timeout: seconds for the whole request
    ///     max_bytes: a larger body of the response is an error
    ///     max_redirects: how many redirects to follow; 0 returns the redirect itself
    fn post<'v>(
        url: &str,
        #[starlark(default = NoneOr::None)] params: NoneOr<Value<'v>>,
        #[starlark(default = NoneOr::None)] headers: NoneOr<Value<'v>>,
        #[starlark(default = NoneOr::None)] body: NoneOr<Value<'v>>,
        #[starlark(default = NoneOr::None)] json_body: NoneOr<Value<'v>>,
        #[starlark(default = NoneOr::None)] form_body: NoneOr<Value<'v>>,
        #[starlark(default = NoneOr::None)] auth: NoneOr<Value<'v>>,
        #[starlark(require = named, default = NoneOr::None)] timeout: NoneOr<UnpackFloat>,
        #[starlark(require = named, default = NoneOr::None)] max_bytes: NoneOr<i64>,
        #[starlark(require = named, default = NoneOr::None)] max_redirects: NoneOr<i64>,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> anyhow::Result<Value<'v>> {
        let common = Common { method: "POST", url, params, headers, auth, timeout, max_bytes, max_redirects };
        send(common, Body { body, json_body, form_body }, eval)
    }

    /// Sends a PUT request. Arguments as for `http.post`, result as for `http.get`.
    ///
    /// Args:
    ///     url: an http or https address
    ///     params: dict added to the query
    ///     headers: dict of headers
    ///     body: text to send as it is
    ///     json_body: value to send as JSON
    ///     form_body: dict to send as a form
    ///     auth: `(username, password)` for basic authentication
    ///     timeout: seconds for the whole request
    ///     max_bytes: a larger body of the response is an error
    ///     max_redirects: how many redirects to follow
    fn put<'v>(
        url: &str,
        #[starlark(default = NoneOr::None)] params: NoneOr<Value<'v>>,
        #[starlark(default = NoneOr::None)] headers: NoneOr<Value<'v>>,
        #[starlark(default = NoneOr::None)] body: NoneOr<Value<'v>>,
        #[starlark(default = NoneOr::None)] json_body: NoneOr<Value<'v>>,
        #[starlark(default = NoneOr::None)] form_body: NoneOr<Value<'v>>,
        #[starlark(default = NoneOr::None)] auth: NoneOr<Value<'v>>,
        #[starlark(require = named, default = NoneOr::None)] timeout: NoneOr<UnpackFloat>,
        #[starlark(require = named, default = NoneOr::None)] max_bytes: NoneOr<i64>,
        #[starlark(require = named, default = NoneOr::None)] max_redirects: NoneOr<i64>,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> anyhow::Result<Value<'v>> {
        let common = Common { method: "PUT", url, params, headers, auth, timeout, max_bytes, max_redirects };
        send(common, Body { body, json_body, form_body }, eval)
    }

    /// Sends a PATCH request. Arguments as for `http.post`, result as for `http.get`.
    ///
    /// Args:
    ///     url: an http or https address
    ///     params: dict added to the query
    ///     headers: dict of headers
    ///     body: text to send as it is
    ///     json_body: value to send as JSON
    ///     form_body: dict to send as a form
    ///     auth: `(username, password)` for basic authentication
    ///     timeout: seconds for the whole request
    ///     max_bytes: a larger body of the response is an error
    ///     max_redirects: how many redirects to follow
    fn patch<'v>(
        url: &str,
        #[starlark(default = NoneOr::None)] params: NoneOr<Value<'v>>,
        #[starlark(default = NoneOr::None)] headers: NoneOr<Value<'v>>,
        #[starlark(default = NoneOr::None)] body: NoneOr<Value<'v>>,
        #[starlark(default = NoneOr::None)] json_body: NoneOr<Value<'v>>,
        #[starlark(default = NoneOr::None)] form_body: NoneOr<Value<'v>>,
        #[starlark(default = NoneOr::None)] auth: NoneOr<Value<'v>>,
        #[starlark(require = named, default = NoneOr::None)] timeout: NoneOr<UnpackFloat>,
        #[starlark(require = named, default = NoneOr::None)] max_bytes: NoneOr<i64>,
        #[starlark(require = named, default = NoneOr::None)] max_redirects: NoneOr<i64>,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> anyhow::Result<Value<'v>> {
        let common =
            Common { method: "PATCH", url, params, headers, auth, timeout, max_bytes, max_redirects };
        send(common, Body { body, json_body, form_body }, eval)
    }
}
