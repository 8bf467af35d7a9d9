//! Time and randomness.

use std::sync::OnceLock;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;
use starloom_engine::{EffectError, Json};

use crate::Scope;

const MAX_RANDOM_BYTES: usize = 1 << 20;

pub(crate) fn now() -> Result<Json, EffectError> {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_err(|_| EffectError::failed("the system clock stands before 1970"))?;
    Ok(json!({ "seconds": since.as_secs(), "nanoseconds": since.subsec_nanos() }))
}

pub(crate) fn monotonic() -> Json {
    static START: OnceLock<Instant> = OnceLock::new();
    let nanoseconds = START.get_or_init(Instant::now).elapsed().as_nanos();
    Json::from(u64::try_from(nanoseconds).unwrap_or(u64::MAX))
}

pub(crate) fn sleep(scope: &Scope, seconds: f64) -> Result<Json, EffectError> {
    if !seconds.is_finite() || seconds < 0.0 {
        return Err(EffectError::failed(format!("cannot sleep for {seconds} seconds")));
    }
    if seconds == 0.0 {
        return Ok(Json::Null);
    }
    // Too long to be represented is longer than any call.
    let duration = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX);
    // Inside a future: a timer is made where it is waited for.
    scope.wait(async { tokio::time::sleep(duration).await })?;
    Ok(Json::Null)
}

pub(crate) fn random_bytes(count: usize) -> Result<Json, EffectError> {
    if count > MAX_RANDOM_BYTES {
        return Err(EffectError::failed(format!(
            "at most {MAX_RANDOM_BYTES} random bytes at a time, not {count}"
        )));
    }
    let mut bytes = vec![0; count];
    getrandom::fill(&mut bytes)
        .map_err(|error| EffectError::failed(format!("the system gives no random bytes: {error}")))?;
    Ok(Json::from(STANDARD.encode(bytes)))
}
