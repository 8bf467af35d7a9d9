//! Starloom: scripts as MCP tools behind one endpoint.
//!
//! ARCHITECTURE.md has the map. One request: `front` decodes it, `call` runs it, `catalog` says what
//! there is, `host` performs what the script asks for.

pub mod app;
pub mod call;
pub mod catalog;
pub mod cli;
pub mod config;
pub mod exit;
pub mod extensions;
pub mod front;
pub mod host;
pub mod logging;
pub mod testing;
