//! JSON-RPC 2.0 messages, as far as MCP uses them.

use serde::Serialize;
use serde_json::{Value as Json, json};
use starloom_engine::JsonObject;

pub const PARSE_ERROR: i64 = -32700;
pub const INVALID_REQUEST: i64 = -32600;
pub const METHOD_NOT_FOUND: i64 = -32601;
pub const INVALID_PARAMS: i64 = -32602;
pub const INTERNAL_ERROR: i64 = -32603;
/// A limit of this server, in the range the specification leaves to servers.
pub const BUSY: i64 = -32000;

#[derive(Debug, Clone, PartialEq)]
pub struct RpcError {
    pub code: i64,
    pub message: String,
    pub data: Option<Json>,
}

impl RpcError {
    pub fn new(code: i64, message: impl Into<String>) -> RpcError {
        RpcError { code, message: message.into(), data: None }
    }

    pub fn with_data(mut self, data: Json) -> RpcError {
        self.data = Some(data);
        self
    }
}

/// A request's id: a string or an integer of any length, given back exactly as it came.
#[derive(Debug, Clone, PartialEq)]
pub struct Id(Json);

impl Id {
    fn from_json(id: &Json) -> Option<Id> {
        match id {
            Json::String(_) => Some(Id(id.clone())),
            Json::Number(number) if !number.as_str().contains(['.', 'e', 'E']) => Some(Id(id.clone())),
            _ => None,
        }
    }

    /// `1` and `"1"` are two ids.
    pub fn key(&self) -> String {
        self.0.to_string()
    }

    pub fn key_of(id: &Json) -> Option<String> {
        Id::from_json(id).map(|id| id.key())
    }
}

#[derive(Debug, Clone, PartialEq)]
pub enum Message {
    Request {
        id: Id,
        method: String,
        params: Params,
    },
    Notification {
        method: String,
        params: Params,
    },
    /// An answer to something we asked. We ask nothing yet.
    Response,
}

/// `params` as sent: absent and `null` are the same, anything but an object is an error of the method.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Params(Option<Json>);

impl Params {
    pub fn object(self) -> Result<JsonObject, RpcError> {
        match self.0 {
            None | Some(Json::Null) => Ok(JsonObject::new()),
            Some(Json::Object(object)) => Ok(object),
            Some(_) => Err(RpcError::new(INVALID_PARAMS, "params must be an object")),
        }
    }

    pub fn meta(&self) -> Option<&JsonObject> {
        self.0.as_ref()?.get("_meta")?.as_object()
    }
}

/// A message that cannot be understood, with the id to answer to where it had one.
#[derive(Debug, Clone, PartialEq)]
pub struct Malformed {
    pub id: Option<Id>,
    pub error: RpcError,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Incoming {
    One(Result<Message, Malformed>),
    Batch(Vec<Result<Message, Malformed>>),
    /// A blank line.
    Nothing,
}

/// Decodes one line or body. A byte order mark and surrounding blanks are nobody's mistake.
pub fn decode(bytes: &[u8]) -> Incoming {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes).trim_ascii();
    if bytes.is_empty() {
        return Incoming::Nothing;
    }
    match serde_json::from_slice::<Json>(bytes) {
        Err(error) => Incoming::One(Err(Malformed {
            id: None,
            error: RpcError::new(PARSE_ERROR, format!("Parse error: {error}")),
        })),
        Ok(Json::Array(items)) if items.is_empty() => Incoming::One(Err(Malformed {
            id: None,
            error: RpcError::new(INVALID_REQUEST, "Invalid Request: an empty batch"),
        })),
        Ok(Json::Array(items)) => Incoming::Batch(items.into_iter().map(message).collect()),
        Ok(other) => Incoming::One(message(other)),
    }
}

fn message(json: Json) -> Result<Message, Malformed> {
    let invalid = |id: Option<Id>, message: &str| {
        Err(Malformed { id, error: RpcError::new(INVALID_REQUEST, format!("Invalid Request: {message}")) })
    };
    let Json::Object(mut object) = json else { return invalid(None, "a message must be an object") };
    let id = object.get("id").map(Id::from_json);
    if object.get("jsonrpc") != Some(&Json::from("2.0")) {
        return invalid(id.flatten(), "`jsonrpc` must be \"2.0\"");
    }
    let method = match object.shift_remove("method") {
        Some(Json::String(method)) => method,
        Some(_) => return invalid(id.flatten(), "`method` must be a string"),
        None if object.contains_key("result") || object.contains_key("error") => {
            return Ok(Message::Response);
        }
        None => return invalid(id.flatten(), "`method` is missing"),
    };
    let params = Params(object.shift_remove("params"));
    match id {
        None => Ok(Message::Notification { method, params }),
        Some(Some(id)) => Ok(Message::Request { id, method, params }),
        Some(None) => invalid(None, "`id` must be a string or an integer"),
    }
}

/// The wire form of an answer, without the newline.
pub fn response(id: Option<&Id>, outcome: &Result<Json, RpcError>) -> Vec<u8> {
    #[derive(Serialize)]
    struct Success<'a> {
        jsonrpc: &'static str,
        id: &'a Json,
        result: &'a Json,
    }
    #[derive(Serialize)]
    struct Failure<'a> {
        jsonrpc: &'static str,
        id: &'a Json,
        error: Json,
    }
    let id = id.map_or(&Json::Null, |id| &id.0);
    let bytes = match outcome {
        Ok(result) => serde_json::to_vec(&Success { jsonrpc: "2.0", id, result }),
        Err(error) => {
            let mut body = json!({"code": error.code, "message": error.message});
            if let Some(data) = &error.data {
                body["data"] = data.clone();
            }
            serde_json::to_vec(&Failure { jsonrpc: "2.0", id, error: body })
        }
    };
    // JSON values always serialise; an empty line would be no answer at all.
    bytes.unwrap_or_else(|_| {
        br#"{"jsonrpc":"2.0","id":null,"error":{"code":-32603,"message":"Internal error"}}"#.to_vec()
    })
}

pub fn notification(method: &str) -> Vec<u8> {
    json!({"jsonrpc": "2.0", "method": method}).to_string().into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str, expected: &str) {
        let show = |result: Result<Message, Malformed>| match result {
            Ok(Message::Request { id, method, .. }) => format!("request {} {method}", id.key()),
            Ok(Message::Notification { method, .. }) => format!("notification {method}"),
            Ok(Message::Response) => "response".to_owned(),
            Err(Malformed { id, error }) => {
                format!("{} for {}", error.code, id.map_or("null".to_owned(), |id| id.key()))
            }
        };
        let found = match decode(line.as_bytes()) {
            Incoming::Nothing => "nothing".to_owned(),
            Incoming::One(one) => show(one),
            Incoming::Batch(all) => all.into_iter().map(show).collect::<Vec<_>>().join(", "),
        };
        assert_eq!(found, expected, "{line:?}");
    }

    #[test]
    fn lines() {
        check("", "nothing");
        check(" \r", "nothing");
        check("\u{feff} {\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"} \r", "request 1 ping");
        check(r#"{"jsonrpc":"2.0","id":"1","method":"ping"}"#, "request \"1\" ping");
        check(r#"{"jsonrpc":"2.0","id":0,"method":"ping"}"#, "request 0 ping");
        check(
            r#"{"jsonrpc":"2.0","id":123456789012345678901234567890,"method":"ping"}"#,
            "request 123456789012345678901234567890 ping",
        );
        check(r#"{"jsonrpc":"2.0","method":"x"}"#, "notification x");
        check(r#"{"jsonrpc":"2.0","id":5,"result":{}}"#, "response");
        check(r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#, "-32600 for null");
        check(r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, "-32600 for null");
        check(r#"{"jsonrpc":"2.0","id":7,"method":5}"#, "-32600 for 7");
        check(r#"{"jsonrpc":"1.0","id":7,"method":"ping"}"#, "-32600 for 7");
        check(r#"{"id":7,"method":"ping"}"#, "-32600 for 7");
        check(r#"{"jsonrpc":"2.0","id":7}"#, "-32600 for 7");
        check("5", "-32600 for null");
        check("{\"jsonrpc\":", "-32700 for null");
        check(&"[".repeat(100_000), "-32700 for null");
        check("[]", "-32600 for null");
        check(
            r#"[{"jsonrpc":"2.0","id":1,"method":"ping"},5,{"jsonrpc":"2.0","method":"x"}]"#,
            "request 1 ping, -32600 for null, notification x",
        );
    }
}
