//! Performs what scripts ask of the outside.
//!
//! [`perform`] takes one [`Effect`], checks it against the [`Grants`] of the source that asks, and does
//! it on the calling thread. [`Services`] holds what outlives a call: connections, pools, the store.
//!
//! Every effect ends at once when the call's deadline passes or the call is cancelled, with
//! [`EffectError::Stopped`]. An effect that ends for its own reasons is [`EffectError::Failed`].

mod clock;
mod columns;
mod data;
mod env;
mod exec;
mod grants;
mod hosts;
mod http;
mod paths;
mod postgres;
mod resolve;
mod scope;
mod sqlite;
mod store;
mod tls;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use starloom_engine::{Effect, EffectError, Json};

pub use crate::grants::{CapabilityMode, Grants, Phase};
pub use crate::http::preview_http;
pub use crate::scope::Scope;

/// Performs one effect on the calling thread, which it may block.
///
/// `Log`, `CallTool`, `NotifyChanged` and `Testing` are the server's and the test runner's business.
///
/// What it calls is `inline(never)`: a thread that only sleeps would otherwise hold the stack that all the
/// others need, a hundred kilobytes of it, and there may be a thousand such threads.
pub fn perform(scope: &Scope, effect: Effect) -> Result<Json, EffectError> {
    if scope.is_stopped() {
        return Err(EffectError::Stopped);
    }
    match effect {
        Effect::Now => clock::now(),
        Effect::Monotonic => Ok(clock::monotonic()),
        Effect::Sleep { seconds } => clock::sleep(scope, seconds),
        Effect::RandomBytes { count } => clock::random_bytes(count),
        Effect::Env { name } => env::get(scope.grants, &name),
        Effect::EnvAll => Ok(env::all(scope.grants)),
        Effect::Exec(request) => exec::run(scope, request),
        Effect::Http(request) => http::request(scope, request),
        Effect::Sqlite { path, operation } => sqlite::run(scope, &path, operation),
        Effect::Postgres { connection, operation, timeout } => {
            postgres::run(scope, &connection, operation, timeout)
        }
        Effect::ReadData { path } => data::read(scope.grants, &path),
        Effect::Store(operation) => store::run(scope, operation),
        Effect::Log { .. } => Err(not_here("log")),
        Effect::CallTool { .. } => Err(not_here("call_tool")),
        Effect::Testing { .. } => Err(not_here("testing")),
        Effect::NotifyChanged { .. } => Err(not_here("notify_changed")),
    }
}

/// Whether a source may run a command, without running it: for whoever answers in its place.
pub fn permit_exec(grants: &Grants, command: &str) -> Result<(), EffectError> {
    Ok(grants.check_exec(command)?)
}

fn not_here(what: &str) -> EffectError {
    EffectError::failed(format!("`{what}` is not available here"))
}

/// What all calls of the process share. Opens nothing until it is first needed.
///
/// Connections belong to the runtime that made them: use one `Services` with one runtime.
pub struct Services {
    pub(crate) options: ServicesOptions,
    pub(crate) roots: Arc<tls::Roots>,
    pub(crate) http: http::Clients,
    pub(crate) sqlite: sqlite::Connections,
    pub(crate) postgres: postgres::Pools,
    pub(crate) store: store::Store,
}

impl Services {
    pub fn new(options: ServicesOptions) -> Services {
        tls::install_provider();
        Services {
            roots: Arc::new(tls::Roots::new(options.extra_roots.clone())),
            http: http::Clients::default(),
            sqlite: sqlite::Connections::default(),
            postgres: postgres::Pools::default(),
            store: store::Store::new(options.store.clone()),
            options,
        }
    }
}

/// The operator's choices. Times and sizes that a request also carries are defaults, except the
/// `max` ones, which a request can only lower.
#[derive(Debug, Clone)]
pub struct ServicesOptions {
    pub store: StoreLocation,
    pub http_timeout: Duration,
    /// Bytes of one response body, after decompression.
    pub http_max_bytes: u64,
    pub http_max_redirects: u32,
    /// Whether `HTTP_PROXY` and its relatives are honoured.
    pub http_system_proxy: bool,
    /// For commands that ask for no timeout of their own. The call's deadline holds in any case.
    pub exec_timeout: Duration,
    /// Bytes a command may write to each of its two streams.
    pub exec_max_output: u64,
    /// Rows of one database query.
    pub max_rows: usize,
    /// Bytes of values in one database query's rows.
    pub max_result_bytes: usize,
    /// Names that are answered from here rather than by DNS.
    pub resolve: BTreeMap<String, Vec<IpAddr>>,
    /// PEM files with certificate authorities to trust beside the system's.
    pub extra_roots: Vec<PathBuf>,
}

impl Default for ServicesOptions {
    fn default() -> ServicesOptions {
        ServicesOptions {
            store: StoreLocation::Memory,
            http_timeout: Duration::from_secs(30),
            http_max_bytes: 10 << 20,
            http_max_redirects: 10,
            http_system_proxy: true,
            exec_timeout: Duration::from_secs(600),
            exec_max_output: 10 << 20,
            max_rows: 100_000,
            max_result_bytes: 64 << 20,
            resolve: BTreeMap::new(),
            extra_roots: Vec::new(),
        }
    }
}

/// Where `store` keeps its values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreLocation {
    Memory,
    File(PathBuf),
}
