//! One integration binary: the real server, driven from outside.

mod cli;
mod compat;
mod config;
mod http;
mod protocol;
mod reload;
mod support;
mod testing;
