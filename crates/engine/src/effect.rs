//! Everything a script can ask of the outside, as data.
//!
//! One serialisable enum: it can be performed, denied, mocked, written to a journal and replayed, or
//! sent over a pipe to another process, without any module knowing which of these happens.
//!
//! No enum here is tagged by a field (`#[serde(tag = …)]`): serde would have to buffer it to find the tag,
//! and that loses numbers, because a `serde_json` number of arbitrary precision is not plain data.

use serde::{Deserialize, Serialize};

use crate::{Json, JsonObject};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// Seconds and nanoseconds since the Unix epoch: `{"seconds": int, "nanoseconds": int}`.
    Now,
    /// Nanoseconds on a clock that never goes backwards: an integer.
    Monotonic,
    /// Waits. Answers `null`.
    Sleep { seconds: f64 },
    /// `count` random bytes, as base64 text.
    RandomBytes { count: usize },
    /// The value of a variable, or `null` when it is unset.
    Env { name: String },
    /// All variables the script may see, as an object.
    EnvAll,
    /// `{"stdout", "stderr", "exit_code", "success", "timed_out"}`.
    Exec(ExecRequest),
    /// `{"status", "headers", "body", "url"}`, or with `"body_base64"` where the body is not UTF-8.
    Http(HttpRequest),
    /// See [`SqlOperation`] for the answers.
    Sqlite { path: String, operation: SqlOperation },
    /// As [`Effect::Sqlite`]; `timeout` bounds one statement, in seconds.
    Postgres { connection: String, operation: SqlOperation, timeout: Option<f64> },
    /// A text file beside the script, by its path below the source's root: `{"text": str}`.
    ReadData { path: String },
    /// See [`StoreOperation`] for the answers.
    Store(StoreOperation),
    /// Answers `null`.
    Log { level: String, message: String, fields: JsonObject },
    /// Calls a tool by its name in the caller's view or as `source/tool`. The result dict.
    CallTool { name: String, arguments: JsonObject, timeout: Option<f64> },
    /// What `testing` asks of the test runner: mocks, captured logs. Only its host knows them.
    Testing { operation: String, arguments: JsonObject },
    /// Tells clients that a list (`tools`, `resources`, `prompts`) or a resource changed.
    NotifyChanged { what: String },
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ExecRequest {
    pub command: String,
    pub args: Vec<String>,
    pub cwd: Option<String>,
    /// Added to the environment the command gets anyway.
    pub env: Vec<(String, String)>,
    pub stdin: Option<String>,
    pub timeout: Option<f64>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HttpRequest {
    pub method: String,
    pub url: String,
    pub params: Vec<(String, String)>,
    pub headers: Vec<(String, String)>,
    pub auth: Option<(String, String)>,
    pub body: HttpBody,
    pub timeout: Option<f64>,
    pub max_bytes: Option<u64>,
    /// How many redirects to follow; `None` is the host's default, 0 returns the redirect itself.
    pub max_redirects: Option<u32>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HttpBody {
    None,
    Text(String),
    Json(Json),
    Form(Vec<(String, String)>),
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SqlOperation {
    /// Rows as a list of objects.
    Query { sql: String, params: SqlParams },
    /// The number of rows changed.
    Execute { sql: String, params: SqlParams },
    /// SQLite: `[{"name"}]`; Postgres: `[{"tablename"}]`.
    ListTables { schema: Option<String> },
    /// SQLite: rows of `table_info`; Postgres: rows of `information_schema.columns`.
    DescribeTable { table: String, schema: Option<String> },
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SqlParams {
    Positional(Vec<Json>),
    Named(JsonObject),
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StoreOperation {
    /// The value, or `null`.
    Get { key: String },
    /// Answers `null`. `ttl` in seconds.
    Set { key: String, value: Json, ttl: Option<f64> },
    /// Whether there was something to delete.
    Delete { key: String },
    /// Keys in order, as a list of text.
    Keys { prefix: String },
    /// Adds to an integer (0 when absent) in one step; answers the new value.
    Increment { key: String, by: i64, ttl: Option<f64> },
    /// Sets `value` only when the present value equals `expected` (`null` for absent); answers whether it did.
    CompareAndSet { key: String, expected: Json, value: Json },
}

/// Performs effects for one call. Called on the evaluation thread, and may block it.
pub trait Host {
    fn perform(&self, effect: Effect) -> Result<Json, EffectError>;

    /// Called about every thousand steps of a script, for a host that shares its threads.
    fn computing(&self) {}
}

#[derive(Debug, Clone, thiserror::Error)]
pub enum EffectError {
    /// The script sees the message and may handle it with `attempt`.
    #[error("{0}")]
    Failed(String),
    /// The call was stopped (its deadline, a cancellation) while the effect was under way. Not catchable.
    #[error("the call was stopped")]
    Stopped,
    /// A JSON-RPC error that ends the call, as `mcp_error` makes it. Not catchable.
    #[error("{message}")]
    Protocol { code: i64, message: String, data: Option<Json> },
}

impl EffectError {
    pub fn failed(message: impl Into<String>) -> EffectError {
        EffectError::Failed(message.into())
    }
}

/// A host for text that must not reach outside: every effect fails.
pub struct NoHost;

impl Host for NoHost {
    fn perform(&self, effect: Effect) -> Result<Json, EffectError> {
        let name = match serde_json::to_value(&effect) {
            Ok(Json::String(name)) => name,
            Ok(Json::Object(object)) => object.keys().next().cloned().unwrap_or_default(),
            _ => String::new(),
        };
        Err(EffectError::failed(format!("`{name}` is not available here")))
    }
}
