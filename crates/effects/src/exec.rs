//! Other programs.

mod running;

use std::env;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use starloom_engine::{EffectError, ExecRequest, Json, JsonObject};
use tokio::process::Command;

use self::running::{Captured, Running};
use crate::Scope;
use crate::scope::timeout_from;

/// What a command gets between the polite signal and the other one.
const GRACE: Duration = Duration::from_secs(2);

#[derive(Debug, thiserror::Error)]
enum ExecError {
    #[error("Failed to execute command '{command}': {reason}")]
    Spawn { command: String, reason: io::Error },
    #[error("Failed to execute command '{command}': the folder '{cwd}' {reason}")]
    Cwd { command: String, cwd: String, reason: &'static str },
    #[error("Failed to execute command '{command}': '{name}' is not a name for a variable")]
    VariableName { command: String, name: String },
    #[error("Command '{command}' was ended: it wrote more than {limit} bytes to {stream}")]
    TooMuchOutput { command: String, stream: &'static str, limit: u64 },
    #[error("Command '{command}' cannot be followed: {reason}")]
    Lost { command: String, reason: io::Error },
}

impl From<ExecError> for EffectError {
    fn from(error: ExecError) -> EffectError {
        EffectError::Failed(error.to_string())
    }
}

#[inline(never)]
pub(crate) fn run(scope: &Scope, request: ExecRequest) -> Result<Json, EffectError> {
    scope.grants.check_exec(&request.command)?;
    let timeout = timeout_from(request.timeout, scope.services.options.exec_timeout)?;
    let limit = scope.services.options.exec_max_output;
    let command = prepare(&request)?;
    scope.runtime.block_on(async {
        let name = &request.command;
        let mut running = Running::start(command, request.stdin.clone(), limit)
            .map_err(|reason| ExecError::Spawn { command: name.clone(), reason })?;
        tokio::select! {
            biased;
            () = scope.stopped() => {
                scope.runtime.spawn(running.end(GRACE));
                return Err(EffectError::Stopped);
            }
            finished = running.finish() => if let Err(error) = finished {
                running.kill().await;
                return Err(explain(error, name, limit).into());
            },
            () = tokio::time::sleep(timeout) => {
                return end_late(scope, running).await;
            }
        }
        let exit =
            running.reap().await.map_err(|reason| ExecError::Lost { command: name.clone(), reason })?;
        Ok(result(running.captured(), exit.code().unwrap_or(-1), exit.success(), false))
    })
}

/// The command had its own timeout: it is ended, and what it wrote so far is the answer.
async fn end_late(scope: &Scope<'_>, running: Running) -> Result<Json, EffectError> {
    let ending = scope.runtime.spawn(running.end(GRACE));
    tokio::select! {
        biased;
        () = scope.stopped() => Err(EffectError::Stopped),
        ended = ending => {
            // The task neither panics nor is aborted; a runtime that shuts down is a stop.
            let (captured, exit) = ended.map_err(|_| EffectError::Stopped)?;
            let code = exit.and_then(|exit| exit.code()).unwrap_or(-1);
            Ok(result(captured, code, false, true))
        }
    }
}

fn explain(error: running::FollowError, command: &str, limit: u64) -> ExecError {
    let command = command.to_owned();
    match error {
        running::FollowError::TooMuchOutput { stream } => ExecError::TooMuchOutput { command, stream, limit },
        running::FollowError::Io(reason) => ExecError::Lost { command, reason },
    }
}

fn result(captured: Captured, exit_code: i32, success: bool, timed_out: bool) -> Json {
    Json::Object(JsonObject::from_iter([
        ("stdout".to_owned(), Json::from(captured.stdout)),
        ("stderr".to_owned(), Json::from(captured.stderr)),
        ("exit_code".to_owned(), Json::from(exit_code)),
        ("success".to_owned(), Json::from(success)),
        ("timed_out".to_owned(), Json::from(timed_out)),
    ]))
}

fn prepare(request: &ExecRequest) -> Result<Command, ExecError> {
    let name = || request.command.clone();
    let program = find_program(&request.command).ok_or_else(|| ExecError::Spawn {
        command: name(),
        reason: io::Error::from_raw_os_error(libc::ENOENT),
    })?;
    let mut command = Command::new(program);
    command.arg0(&request.command).args(&request.args);
    for (variable, value) in &request.env {
        if variable.is_empty() || variable.contains(['=', '\0']) {
            return Err(ExecError::VariableName { command: name(), name: variable.clone() });
        }
        command.env(variable, value);
    }
    if let Some(cwd) = &request.cwd {
        let refused = |reason| ExecError::Cwd { command: name(), cwd: cwd.clone(), reason };
        match Path::new(cwd).metadata() {
            Ok(metadata) if metadata.is_dir() => command.current_dir(cwd),
            Ok(_) => return Err(refused("is a file")),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(refused("does not exist")),
            Err(_) => return Err(refused("cannot be entered")),
        };
    }
    Ok(command)
}

/// Looked up by the server's own PATH and working directory: neither `env` nor `cwd` of the request
/// may decide which program an allowed name means.
fn find_program(command: &str) -> Option<PathBuf> {
    let start = env::current_dir().unwrap_or_default();
    if command.contains('/') {
        return Some(start.join(command));
    }
    let path = env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into());
    env::split_paths(&path)
        .map(|folder| start.join(folder).join(command))
        .find(|candidate| !command.is_empty() && is_executable(candidate))
}

fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}
