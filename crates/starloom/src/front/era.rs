//! The two eras of the protocol: `initialize` and sessions until 2025-11-25, one request at a time since.

use serde_json::{Value as Json, json};

use super::rpc::{INVALID_PARAMS, Params, RpcError};

/// Newest first.
pub const LEGACY_VERSIONS: [&str; 4] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];
pub const MODERN_VERSIONS: [&str; 1] = ["2026-07-28"];
/// The only revision with batches.
pub const BATCH_VERSION: &str = "2025-03-26";

pub const META_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const META_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
pub const META_SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";

pub const HEADER_MISMATCH: i64 = -32020;
pub const MISSING_CLIENT_CAPABILITY: i64 = -32021;
pub const UNSUPPORTED_VERSION: i64 = -32022;

/// Which rules a request is under.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Era {
    Legacy,
    Modern,
}

/// A request that names its protocol version in `_meta` is of the modern era.
pub fn of_request(params: &Params) -> Result<Era, RpcError> {
    let Some(version) = params.meta().and_then(|meta| meta.get(META_VERSION)) else { return Ok(Era::Legacy) };
    let Some(version) = version.as_str() else {
        return Err(RpcError::new(INVALID_PARAMS, format!("_meta[\"{META_VERSION}\"] must be a string")));
    };
    if !MODERN_VERSIONS.contains(&version) {
        return Err(unsupported(version));
    }
    match params.meta().and_then(|meta| meta.get(META_CAPABILITIES)) {
        Some(Json::Object(_)) => Ok(Era::Modern),
        Some(_) => {
            Err(RpcError::new(INVALID_PARAMS, format!("_meta[\"{META_CAPABILITIES}\"] must be an object")))
        }
        None => Err(RpcError::new(INVALID_PARAMS, format!("_meta[\"{META_CAPABILITIES}\"] is missing"))),
    }
}

pub fn unsupported(version: &str) -> RpcError {
    RpcError::new(UNSUPPORTED_VERSION, format!("Unsupported protocol version: {version}"))
        .with_data(json!({"supported": MODERN_VERSIONS, "requested": version}))
}

/// The version a legacy client gets: its own where we know it, else our newest legacy one.
pub fn negotiate(requested: &str) -> &'static str {
    LEGACY_VERSIONS.into_iter().find(|known| *known == requested).unwrap_or(LEGACY_VERSIONS[0])
}

/// Whether a version, known or not, is of the modern era: revisions are dates.
pub fn is_modern(version: &str) -> bool {
    version >= MODERN_VERSIONS[0]
}
