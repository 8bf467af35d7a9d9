//! Where the repository and its build directory are, and how its programs are started.

use std::env;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

pub fn root() -> PathBuf {
    // The value at run time comes first: with a build directory shared between
    // clones, the compiled-in one may name another clone.
    let manifest = env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    Path::new(&manifest).parent().expect("xtask lies in a folder of the repository").to_owned()
}

pub fn target_dir() -> Result<PathBuf> {
    let output = cargo(["metadata", "--no-deps", "--format-version=1"]).output()?;
    ensure!(output.status.success(), "`cargo metadata` failed: {}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout)?;
    let directory =
        metadata["target_directory"].as_str().context("`cargo metadata` names no target directory")?;
    Ok(PathBuf::from(directory))
}

pub fn cargo<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Command {
    let mut command = command(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments);
    command
}

/// A command in the repository's root, with the environment of whoever called cargo.
///
/// `cargo run` adds variables of its own. Passed on, they would tell a nested
/// cargo about the wrong package, and make every program we start look for its
/// libraries in the build directory first.
pub fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    command.current_dir(root()).env_remove("LD_LIBRARY_PATH");
    for (name, _) in env::vars_os() {
        let of_this_package = name.to_str().is_some_and(|name| {
            name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_") || name == "CARGO_BIN_NAME"
        });
        if of_this_package {
            command.env_remove(name);
        }
    }
    command
}
