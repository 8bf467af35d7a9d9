//! `store`: values that outlive a call, each source with its own.

mod file;
mod memory;

use std::time::{SystemTime, UNIX_EPOCH};

use starloom_engine::{EffectError, Json, StoreOperation};

use self::file::FileStore;
use self::memory::MemoryStore;
use crate::sqlite::connections::Access;
use crate::{Scope, StoreLocation};

const MAX_KEY_BYTES: usize = 1 << 10;
const MAX_VALUE_BYTES: usize = 1 << 20;

/// Milliseconds since the epoch.
type Millis = i64;

#[derive(Debug, thiserror::Error)]
pub(crate) enum StoreError {
    #[error("store: a key has at most {MAX_KEY_BYTES} bytes, this one has {bytes}")]
    KeyTooLong { bytes: usize },
    #[error("store: a value has at most {MAX_VALUE_BYTES} bytes as JSON, the one for `{key}` has {bytes}")]
    ValueTooLong { key: String, bytes: usize },
    #[error("store: `ttl` must be a positive number of seconds, not {ttl}")]
    Ttl { ttl: f64 },
    #[error("store: the value of `{key}` is not an integer")]
    NotAnInteger { key: String },
    #[error("store: the value of `{key}` would leave the 64-bit integers")]
    Overflow { key: String },
    #[error("store: more than {limit} keys start with `{prefix}`")]
    TooManyKeys { prefix: String, limit: usize },
    #[error("store: {}: {reason}", path.display())]
    File { path: std::path::PathBuf, reason: String },
}

impl From<StoreError> for EffectError {
    fn from(error: StoreError) -> EffectError {
        EffectError::Failed(error.to_string())
    }
}

pub(crate) enum Store {
    Memory(MemoryStore),
    File(FileStore),
}

impl Store {
    pub(crate) fn new(location: StoreLocation) -> Store {
        match location {
            StoreLocation::Memory => Store::Memory(MemoryStore::default()),
            StoreLocation::File(path) => Store::File(FileStore::new(path)),
        }
    }
}

#[inline(never)]
pub(crate) fn run(scope: &Scope, operation: StoreOperation) -> Result<Json, EffectError> {
    let source = &scope.grants.source;
    let limit = scope.services.options.max_rows;
    let access = match operation {
        StoreOperation::Get { .. } | StoreOperation::Keys { .. } => Access::Read,
        _ => Access::Write,
    };
    let outcome = check(&operation).and_then(|()| match &scope.services.store {
        Store::Memory(store) => store.transact(source, |table| perform(table, operation, limit)),
        Store::File(store) => store.transact(scope, access, |table| perform(table, operation, limit)),
    });
    match outcome {
        Err(StoreError::File { .. }) if scope.is_stopped() => Err(EffectError::Stopped),
        outcome => Ok(outcome?),
    }
}

fn check(operation: &StoreOperation) -> Result<(), StoreError> {
    let (key, value, ttl) = match operation {
        StoreOperation::Get { key }
        | StoreOperation::Delete { key }
        | StoreOperation::Keys { prefix: key } => (key, None, None),
        StoreOperation::Set { key, value, ttl } => (key, Some(value), *ttl),
        StoreOperation::Increment { key, ttl, .. } => (key, None, *ttl),
        StoreOperation::CompareAndSet { key, value, .. } => (key, Some(value), None),
    };
    if key.len() > MAX_KEY_BYTES {
        return Err(StoreError::KeyTooLong { bytes: key.len() });
    }
    if let Some(bytes) = value.map(|value| value.to_string().len()).filter(|bytes| *bytes > MAX_VALUE_BYTES) {
        return Err(StoreError::ValueTooLong { key: key.clone(), bytes });
    }
    match ttl {
        Some(ttl) if ttl.is_nan() || ttl <= 0.0 => Err(StoreError::Ttl { ttl }),
        _ => Ok(()),
    }
}

/// A value with its end, if it has one.
#[derive(Debug, Clone)]
struct Entry {
    value: String,
    expires: Option<Millis>,
}

/// One source's part of a store, while nobody else changes it. What has expired is not there.
trait Table {
    fn get(&self, key: &str) -> Result<Option<Entry>, StoreError>;
    fn put(&mut self, key: &str, entry: Entry) -> Result<(), StoreError>;
    fn delete(&mut self, key: &str) -> Result<bool, StoreError>;
    /// In order, at most `limit`.
    fn keys(&self, prefix: &str, limit: usize) -> Result<Vec<String>, StoreError>;
}

fn perform(table: &mut dyn Table, operation: StoreOperation, limit: usize) -> Result<Json, StoreError> {
    match operation {
        StoreOperation::Get { key } => Ok(value_of(table.get(&key)?.as_ref())),
        StoreOperation::Set { key, value, ttl } => {
            table.put(&key, Entry { value: value.to_string(), expires: expiry(ttl) })?;
            Ok(Json::Null)
        }
        StoreOperation::Delete { key } => Ok(Json::from(table.delete(&key)?)),
        StoreOperation::Keys { prefix } => {
            let keys = table.keys(&prefix, limit.saturating_add(1))?;
            if keys.len() > limit {
                return Err(StoreError::TooManyKeys { prefix, limit });
            }
            Ok(Json::from(keys))
        }
        StoreOperation::Increment { key, by, ttl } => increment(table, key, by, ttl),
        StoreOperation::CompareAndSet { key, expected, value } => {
            let present = table.get(&key)?;
            if value_of(present.as_ref()) != expected {
                return Ok(Json::from(false));
            }
            // A value that is replaced ends when the first would have.
            let expires = present.and_then(|entry| entry.expires);
            table.put(&key, Entry { value: value.to_string(), expires })?;
            Ok(Json::from(true))
        }
    }
}

/// `ttl` counts from the first increment, so that a counter covers a window of fixed length.
fn increment(table: &mut dyn Table, key: String, by: i64, ttl: Option<f64>) -> Result<Json, StoreError> {
    let present = table.get(&key)?;
    let expires = present.as_ref().map_or_else(|| expiry(ttl), |entry| entry.expires);
    let value = match value_of(present.as_ref()) {
        Json::Null => 0,
        value => value.as_i64().ok_or_else(|| StoreError::NotAnInteger { key: key.clone() })?,
    };
    let sum = value.checked_add(by).ok_or_else(|| StoreError::Overflow { key: key.clone() })?;
    table.put(&key, Entry { value: sum.to_string(), expires })?;
    Ok(Json::from(sum))
}

fn value_of(entry: Option<&Entry>) -> Json {
    // Only JSON was ever put in.
    entry.and_then(|entry| serde_json::from_str(&entry.value).ok()).unwrap_or(Json::Null)
}

fn now() -> Millis {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Millis::try_from(since.as_millis()).unwrap_or(Millis::MAX)
}

fn expiry(ttl: Option<f64>) -> Option<Millis> {
    // The cast saturates. Rounded up: no value ends before its time.
    ttl.map(|seconds| now().saturating_add((seconds * 1000.0).ceil() as Millis))
}
