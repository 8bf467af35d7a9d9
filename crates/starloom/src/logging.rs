//! The log: on stderr, always. stdout belongs to the protocol.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

/// `RUST_LOG` decides; `STARLOOM_DEBUG=1` shows loading, binding and calls; else `default`.
pub fn init(default: &str) {
    let debug = std::env::var("STARLOOM_DEBUG").is_ok_and(|value| !value.is_empty() && value != "0");
    let fallback = if debug { "info,starloom=trace,script=debug" } else { default };
    let filter = match std::env::var("RUST_LOG") {
        Ok(written) if !written.trim().is_empty() => {
            EnvFilter::try_new(&written).unwrap_or_else(|_| EnvFilter::new(fallback))
        }
        _ => EnvFilter::new(fallback),
    };
    let colour =
        std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(colour)
        .with_target(false)
        .finish();
    // Only a second call could fail, and the first one's settings are as good.
    let _ = tracing::subscriber::set_global_default(subscriber);
}
