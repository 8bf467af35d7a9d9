//! What one source may reach: its declarations, read in the operator's mode.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use starloom_engine::EffectError;
use starloom_engine::declare::Capabilities;

/// Prefix of variables the operator gives for scripts to read, whatever they declare.
const OPERATOR_PREFIX: &str = "STARLOOM_";

/// The source on whose behalf an effect is performed.
#[derive(Debug, Clone)]
pub struct Grants {
    /// The source's id.
    pub source: String,
    /// The folder its files lie in.
    pub root: PathBuf,
    pub capabilities: Capabilities,
    pub mode: CapabilityMode,
    /// Variables of `--env` and the config. They beat the process environment.
    pub env: Arc<BTreeMap<String, String>>,
    pub phase: Phase,
}

/// What an absent list means for hosts, variables and paths. A list that is given always binds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CapabilityMode {
    /// Absent is open.
    Declared,
    /// Absent is denied.
    Strict,
}

/// Whether the source's file is being loaded or one of its handlers runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    Loading,
    Calling,
}

/// Why an effect was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Denied {
    #[error(
        "Command '{command}' cannot be executed while the file is loading: exec works only during a call"
    )]
    ExecLoading { command: String },
    #[error(
        "Command '{command}' cannot be executed: no exec whitelist configured for this extension. Add allowed_exec=['{command}'] to the Extension definition."
    )]
    ExecUndeclared { command: String },
    #[error("Command '{command}' is not in the allowed exec whitelist. Allowed commands: {allowed:?}")]
    Exec { command: String, allowed: Vec<String> },
    #[error(
        "Environment variable '{name}' cannot be read: no allowed_env configured for this extension and capabilities are strict. Add allowed_env=['{name}'] to the Extension definition."
    )]
    EnvUndeclared { name: String },
    #[error("Environment variable '{name}' is not in allowed_env. Allowed variables: {allowed:?}")]
    Env { name: String, allowed: Vec<String> },
    #[error(
        "Host '{host}' cannot be reached: no allowed_hosts configured for this extension and capabilities are strict. Add allowed_hosts=['{host}'] to the Extension definition."
    )]
    HostUndeclared { host: String },
    #[error("Host '{host}' is not in allowed_hosts. Allowed hosts: {allowed:?}")]
    Host { host: String, allowed: Vec<String> },
    #[error("Host '{host}' is a link-local or cloud metadata address: refused unless allowed_hosts names it")]
    SpecialHost { host: String },
    #[error(
        "Path '{path}' cannot be opened: no allowed_paths configured for this extension and capabilities are strict. Add allowed_paths=['{path}'] to the Extension definition."
    )]
    PathUndeclared { path: String },
    #[error("Path '{path}' is not in allowed_paths. Allowed paths: {allowed:?}")]
    Path { path: String, allowed: Vec<String> },
    #[error("Path '{path}' cannot be resolved: {reason}")]
    Unresolved { path: String, reason: String },
}

impl From<Denied> for EffectError {
    fn from(denied: Denied) -> EffectError {
        EffectError::Failed(denied.to_string())
    }
}

impl Grants {
    pub(crate) fn check_exec(&self, command: &str) -> Result<(), Denied> {
        let allowed = &self.capabilities.exec;
        let command = command.to_owned();
        if self.phase == Phase::Loading {
            Err(Denied::ExecLoading { command })
        } else if allowed.is_empty() {
            Err(Denied::ExecUndeclared { command })
        } else if !allowed.contains(&command) {
            Err(Denied::Exec { command, allowed: allowed.clone() })
        } else {
            Ok(())
        }
    }

    pub(crate) fn check_env(&self, name: &str) -> Result<(), Denied> {
        match (&self.capabilities.env, self.mode) {
            (Some(allowed), _) if allowed.iter().any(|pattern| matches_glob(pattern, name)) => Ok(()),
            (Some(allowed), _) => Err(Denied::Env { name: name.to_owned(), allowed: allowed.clone() }),
            (None, CapabilityMode::Declared) => Ok(()),
            (None, CapabilityMode::Strict)
                if name.starts_with(OPERATOR_PREFIX) && self.env.contains_key(name) =>
            {
                Ok(())
            }
            (None, CapabilityMode::Strict) => Err(Denied::EnvUndeclared { name: name.to_owned() }),
        }
    }
}

/// `*` stands for any run of characters, `?` for one.
fn matches_glob(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) = (pattern.chars().collect(), name.chars().collect());
    let (mut at, mut seen) = (0, 0);
    // Where to go on from when the last `*` has to take one character more.
    let mut star: Option<(usize, usize)> = None;
    while seen < name.len() {
        if at < pattern.len() && pattern[at] == '*' {
            star = Some((at, seen));
            at += 1;
        } else if at < pattern.len() && (pattern[at] == '?' || pattern[at] == name[seen]) {
            at += 1;
            seen += 1;
        } else if let Some((star_at, taken)) = star {
            star = Some((star_at, taken + 1));
            at = star_at + 1;
            seen = taken + 1;
        } else {
            return false;
        }
    }
    pattern[at..].iter().all(|c| *c == '*')
}

#[cfg(test)]
mod tests {
    use super::matches_glob;

    #[test]
    fn globs() {
        for (pattern, name, matches) in [
            ("HOME", "HOME", true),
            ("HOME", "HOMER", false),
            ("AWS_*", "AWS_REGION", true),
            ("AWS_*", "AWS_", true),
            ("AWS_*", "XAWS_", false),
            ("*_TOKEN", "A_TOKEN_TOKEN", true),
            ("*A*B", "xAyAzB", true),
            ("*A*B", "xAyAzC", false),
            ("P?TH", "PATH", true),
            ("P?TH", "PTH", false),
            ("*", "", true),
            ("", "", true),
            ("", "A", false),
        ] {
            assert_eq!(matches_glob(pattern, name), matches, "{pattern} {name}");
        }
    }
}
