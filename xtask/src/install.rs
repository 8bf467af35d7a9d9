//! Finding the programs we need, and installing Debian's package of what is missing.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use anyhow::{Context, Result, bail};

use crate::{process, workspace};

/// The program in `PATH`, if it is there.
pub fn find_program(name: &str) -> Option<PathBuf> {
    path_directories().into_iter().map(|directory| directory.join(name)).find(|path| path.is_file())
}

/// The program in `PATH`, installed from `packages` when it is missing.
pub fn find_or_install_program(name: &str, packages: &[&str]) -> Result<PathBuf> {
    if let Some(path) = find_program(name) {
        return Ok(path);
    }
    install(&format!("the program `{name}`"), packages)?;
    find_program(name)
        .with_context(|| format!("`{name}` is missing even after {} was installed", packages.join(", ")))
}

/// The folder with PostgreSQL's `initdb` and `postgres`, installed when there is none.
pub fn find_or_install_postgres() -> Result<PathBuf> {
    if let Some(directory) = find_postgres() {
        return Ok(directory);
    }
    let _no_cluster = NoDefaultCluster::configure();
    install("PostgreSQL's server", &["postgresql"])?;
    find_postgres().context("PostgreSQL's server is missing even after postgresql was installed")
}

fn find_postgres() -> Option<PathBuf> {
    let mut candidates = path_directories();
    // Debian keeps the server's programs out of `PATH`, one folder per version.
    let mut versions: Vec<(u32, PathBuf)> = fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path().join("bin"))))
        .collect();
    versions.sort();
    candidates.extend(versions.into_iter().rev().map(|(_, directory)| directory));
    candidates
        .into_iter()
        .find(|directory| directory.join("initdb").is_file() && directory.join("postgres").is_file())
}

/// rustfmt and clippy: a minimal toolchain comes without them.
pub fn find_or_install_rust_components() -> Result<()> {
    for (component, subcommand) in [("rustfmt", "fmt"), ("clippy", "clippy")] {
        if process::capture(&mut workspace::cargo([subcommand, "--version"])).is_ok() {
            continue;
        }
        eprintln!("{component} is missing: adding it to the toolchain");
        process::run(workspace::command("rustup").args(["component", "add", component])).with_context(
            || format!("{component} is missing\nhint: run `rustup component add {component}`"),
        )?;
    }
    Ok(())
}

/// Installs Debian's packages, as root or with a sudo that asks no password.
pub fn install(thing: &str, packages: &[&str]) -> Result<()> {
    let by_hand = format!("hint: as root, run `apt-get install {}`", packages.join(" "));
    if find_program("apt-get").is_none() {
        bail!(
            "{thing} is missing, and there is no `apt-get` here to install it\n{by_hand} or what your system has in its place"
        );
    }
    let Some(mut update) = as_root("apt-get") else {
        bail!("{thing} is missing, and only root can install it\n{by_hand}");
    };
    eprintln!("{thing} is missing: installing {}", packages.join(", "));
    // A list of packages that cannot be refreshed may still be good enough.
    if let Err(error) = process::run(update.args(["-qq", "update"])) {
        process::fail_if_stopped()?;
        eprintln!("{error:#}");
    }
    let mut install = as_root("apt-get").expect("it was there for the update");
    install
        .args(["-qq", "-y", "-o", "DPkg::Lock::Timeout=300", "--no-install-recommends", "install"])
        .args(packages);
    process::run(&mut install).with_context(|| format!("cannot install {thing}\n{by_hand}"))
}

pub fn is_root() -> bool {
    // SAFETY: a system call without arguments that cannot fail.
    unsafe { libc::geteuid() == 0 }
}

/// `program` run by root, or None when we may not.
fn as_root(program: &str) -> Option<Command> {
    let mut command = if is_root() {
        workspace::command("env")
    } else {
        find_program("sudo")?;
        process::capture(workspace::command("sudo").args(["-n", "true"])).ok()?;
        let mut sudo = workspace::command("sudo");
        sudo.args(["-n", "env"]);
        sudo
    };
    command.args(["DEBIAN_FRONTEND=noninteractive", program]);
    Some(command)
}

fn path_directories() -> Vec<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let mut directories: Vec<PathBuf> = env::split_paths(&path).collect();
    // Not in everybody's `PATH`, but where Debian has programs for root.
    directories.extend(["/usr/sbin", "/sbin"].map(PathBuf::from));
    directories
}

/// While it lives, installing Debian's PostgreSQL creates and starts no database of its own.
struct NoDefaultCluster;

const CLUSTER_SETTINGS: &str = "/etc/postgresql-common/createcluster.d";
const OUR_CLUSTER_SETTING: &str = "/etc/postgresql-common/createcluster.d/starloom-xtask.conf";

impl NoDefaultCluster {
    fn configure() -> Option<NoDefaultCluster> {
        let script = format!(
            "mkdir -p {CLUSTER_SETTINGS} && echo 'create_main_cluster = false' > {OUR_CLUSTER_SETTING}"
        );
        process::capture(as_root("sh")?.args(["-c", &script])).ok()?;
        Some(NoDefaultCluster)
    }
}

impl Drop for NoDefaultCluster {
    fn drop(&mut self) {
        if let Some(mut remove) = as_root("rm").filter(|_| Path::new(OUR_CLUSTER_SETTING).exists()) {
            let _ = process::capture(remove.args(["-f", OUR_CLUSTER_SETTING]));
        }
    }
}
