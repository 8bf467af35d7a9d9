//! Effects against real programs, servers, files and databases.

mod clock;
mod data;
mod env;
mod exec;
mod http;
mod http_redirects;
mod http_server;
mod postgres;
mod postgres_connections;
mod postgres_types;
mod sqlite;
mod sqlite_guard;
mod store;
mod world;
