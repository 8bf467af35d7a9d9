//! What goes wrong on the command line: one kind decides the exit code, one place prints.

use std::sync::Arc;

use crate::catalog::{FilterError, MergeError};
use crate::config::SettingsError;
use crate::exit;
use crate::extensions::{DiscoverError, StartError};

#[derive(Debug)]
pub struct CliError {
    kind: Kind,
    message: String,
    hint: Option<String>,
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    Usage,
    Load,
    Failed,
    Bug,
}

impl CliError {
    pub fn usage(message: impl Into<String>) -> CliError {
        CliError { kind: Kind::Usage, message: message.into(), hint: None }
    }

    pub fn load(message: impl Into<String>) -> CliError {
        CliError { kind: Kind::Load, message: message.into(), hint: None }
    }

    pub fn failed(message: impl Into<String>) -> CliError {
        CliError { kind: Kind::Failed, message: message.into(), hint: None }
    }

    pub fn bug(message: impl Into<String>) -> CliError {
        CliError { kind: Kind::Bug, message: message.into(), hint: None }
    }

    pub fn with_hint(mut self, hint: Option<String>) -> CliError {
        self.hint = hint;
        self
    }

    pub fn code(&self) -> u8 {
        match self.kind {
            Kind::Usage => exit::USAGE,
            Kind::Load => exit::LOAD,
            Kind::Failed => exit::FAILED,
            Kind::Bug => exit::BUG,
        }
    }

    pub fn print(&self) {
        let message = self.message.strip_prefix("error: ").unwrap_or(&self.message);
        eprintln!("error: {}", message.trim_end());
        if let Some(hint) = &self.hint {
            eprintln!("hint: {hint}");
        }
    }
}

impl From<SettingsError> for CliError {
    fn from(error: SettingsError) -> CliError {
        let hint = error.hint();
        match error {
            SettingsError::NothingToServe | SettingsError::Env(_) | SettingsError::Address(_) => {
                CliError::usage(error.to_string()).with_hint(hint)
            }
            SettingsError::Filter(error) => error.into(),
            error => CliError::load(error.to_string()).with_hint(hint),
        }
    }
}

impl From<FilterError> for CliError {
    fn from(error: FilterError) -> CliError {
        let hint = match &error {
            FilterError::Unknown { nearest, .. } => {
                nearest.as_ref().map(|known| format!("did you mean `{known}`?"))
            }
            FilterError::Pattern { .. } => None,
        };
        CliError::load(error.to_string()).with_hint(hint)
    }
}

impl From<DiscoverError> for CliError {
    fn from(error: DiscoverError) -> CliError {
        CliError::load(error.to_string())
    }
}

impl From<Arc<StartError>> for CliError {
    fn from(error: Arc<StartError>) -> CliError {
        let message = error.to_string();
        match &*error {
            StartError::Discover(_) => CliError::load(message),
            StartError::Merge(MergeError::Conflict(_)) => CliError::load(message)
                .with_hint(Some("rename one, or start with `--on-conflict prefix`".to_owned())),
            StartError::Merge(MergeError::Filter(error)) => match error {
                FilterError::Unknown { nearest, .. } => CliError::load(message)
                    .with_hint(nearest.as_ref().map(|known| format!("did you mean `{known}`?"))),
                FilterError::Pattern { .. } => CliError::load(message),
            },
            StartError::UndeclaredEnv(name) => CliError::load(message).with_hint(Some(format!(
                "add it to `allowed_env` of the extension that reads it, or call it STARLOOM_{name}"
            ))),
        }
    }
}

impl From<std::io::Error> for CliError {
    fn from(error: std::io::Error) -> CliError {
        CliError::failed(error.to_string())
    }
}
