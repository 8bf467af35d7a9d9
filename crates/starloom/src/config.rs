//! Configuration: what was written (raw) → what is meant (settings).
//!
//! Precedence: flag, environment, file, default. All defaults stand in `config/default.yaml`.

mod node;
mod raw;
mod settings;

pub use node::{ConfigError, Node};
pub use raw::RawConfig;
pub use settings::{ConfigFlags, HttpSettings, Settings, SettingsError};

/// Every setting with its default and what it does.
pub const DEFAULT_CONFIG: &str = include_str!("config/default.yaml");
