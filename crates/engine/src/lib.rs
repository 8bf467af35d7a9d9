//! Starlark for Starloom: text in, programs and JSON out.
//!
//! This crate is sync and blind. It knows no tokio, no MCP, no file system and no network. What a
//! script asks of the outside is an [`Effect`], which a [`Host`] performs; what a script is made of
//! comes through [`Files`].

// A builtin has as many parameters as its users were promised.
#![allow(clippy::too_many_arguments)]

mod builtins;
mod check;
mod compile;
mod context;
pub mod convert;
pub mod declare;
mod effect;
mod error;
mod files;
mod functions;
mod globals;
mod guard;
mod limits;
mod loader;
pub mod memory;
mod modules;
mod nearest;
mod plan;
mod reference;
mod run;
mod scan;
pub mod schema;
mod values;

pub use check::{Finding, Severity};
pub use effect::{
    Effect, EffectError, ExecRequest, Host, HttpBody, HttpRequest, NoHost, SqlOperation, SqlParams,
    StoreOperation,
};
pub use error::{ErrorKind, Location, ScriptError};
pub use files::{Files, MemoryFiles, ModulePath};
pub use limits::{Limit, Limits, Stop};
pub use loader::{Engine, Loaded, TestFunction, Vocabulary};
pub use nearest::nearest;
pub use reference::builtin_reference;
pub use run::{Arguments, CallOptions, Handler};

/// The JSON this crate speaks: objects keep their order, numbers their digits.
pub type Json = serde_json::Value;
pub type JsonObject = serde_json::Map<String, serde_json::Value>;
