//! Flags that say what to serve, shared by every command that loads something.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use starloom_effects::CapabilityMode;

use super::CliError;
use crate::catalog::OnConflict;
use crate::config::{ConfigFlags, Settings};

#[derive(Args, Debug, Default)]
pub struct SourceFlags {
    /// Configuration: YAML, JSON, or a .star file that defines `config = {...}`
    #[arg(long, value_name = "FILE", env = "STARLOOM_CONFIG")]
    config: Option<PathBuf>,

    /// Serve only these tools: names or patterns, separated by commas
    #[arg(long, value_name = "NAMES")]
    tools: Vec<String>,

    /// Do not serve these tools
    #[arg(long, value_name = "NAMES")]
    exclude: Vec<String>,

    /// Set a variable for scripts, not for the process
    #[arg(long, value_name = "K=V")]
    env: Vec<String>,

    /// What to do when two extensions declare a tool of the same name
    #[arg(long, value_enum, value_name = "WHAT")]
    on_conflict: Option<ConflictChoice>,

    /// Whether extensions may reach what they do not declare
    #[arg(long, value_enum, value_name = "MODE")]
    capabilities: Option<CapabilityChoice>,

    /// The old spelling of PATHS
    #[arg(short = 'e', long = "extensions-dir", value_name = "PATH", hide = true)]
    extensions_dir: Vec<PathBuf>,
}

#[derive(ValueEnum, Clone, Copy, Debug)]
enum ConflictChoice {
    /// Refuse to start
    Error,
    /// Serve both as `source__tool`
    Prefix,
}

#[derive(ValueEnum, Clone, Copy, Debug)]
enum CapabilityChoice {
    /// A list that is given binds, a list that is absent means open
    Declared,
    /// Absent means denied
    Strict,
}

impl SourceFlags {
    pub fn config_flags(&self, paths: &[PathBuf]) -> ConfigFlags {
        ConfigFlags {
            config: self.config.clone(),
            paths: paths.iter().chain(&self.extensions_dir).cloned().collect(),
            tools: self.tools.clone(),
            exclude: self.exclude.clone(),
            env: self.env.clone(),
            on_conflict: self.on_conflict.map(|choice| match choice {
                ConflictChoice::Error => OnConflict::Error,
                ConflictChoice::Prefix => OnConflict::Prefix,
            }),
            capabilities: self.capabilities.map(|choice| match choice {
                CapabilityChoice::Declared => CapabilityMode::Declared,
                CapabilityChoice::Strict => CapabilityMode::Strict,
            }),
            ..ConfigFlags::default()
        }
    }

    pub fn settings(
        &self,
        paths: &[PathBuf],
        runtime: &tokio::runtime::Handle,
    ) -> Result<Settings, CliError> {
        Ok(Settings::resolve(&self.config_flags(paths), runtime)?)
    }
}

/// The runtime every command runs on.
pub fn runtime() -> Result<tokio::runtime::Runtime, CliError> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .thread_name("starloom")
        // Handlers run on these threads, and Starlark recurses on the native stack.
        .thread_stack_size(crate::extensions::EVALUATION_STACK)
        // A waiting handler keeps its thread; `limits.concurrentCalls` is what bounds them.
        .max_blocking_threads(16_384)
        .build()
        .map_err(|error| CliError::bug(format!("cannot start the runtime: {error}")))
}
