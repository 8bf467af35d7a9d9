//! The peers: each built or installed once into the build directory, at the version its folder pins.

use std::cell::OnceCell;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};
use serde_json::Value;

use super::server::Server;
use crate::{install, process, workspace};

pub struct Peers {
    folder: PathBuf,
    rmcp: OnceCell<Peer>,
    typescript: OnceCell<Peer>,
    fastmcp: OnceCell<Peer>,
}

/// A server with the versions of what it is made of, or why it cannot be had.
type Peer = Result<(Server, String), String>;

impl Peers {
    pub fn in_folder(folder: PathBuf) -> Peers {
        Peers { folder, rmcp: OnceCell::new(), typescript: OnceCell::new(), fastmcp: OnceCell::new() }
    }

    pub fn rmcp(&self) -> Result<Server> {
        to_server("the rmcp peer", self.rmcp.get_or_init(|| build_rmcp(&self.folder).map_err(to_reason)))
    }

    pub fn typescript(&self) -> Result<Server> {
        let peer = self.typescript.get_or_init(|| install_typescript(&self.folder).map_err(to_reason));
        to_server("the TypeScript SDK peer", peer)
    }

    pub fn fastmcp(&self) -> Result<Server> {
        let peer = self.fastmcp.get_or_init(|| install_fastmcp(&self.folder).map_err(to_reason));
        to_server("the FastMCP peer", peer)
    }

    /// Of those that were needed.
    pub fn versions(&self) -> Vec<String> {
        let peers = [&self.rmcp, &self.typescript, &self.fastmcp];
        peers.into_iter().filter_map(|peer| Some(peer.get()?.as_ref().ok()?.1.clone())).collect()
    }
}

fn to_server(name: &str, peer: &Peer) -> Result<Server> {
    match peer {
        Ok((server, _)) => Ok(server.clone()),
        Err(reason) => Err(anyhow!("{name} cannot be had: {reason}")),
    }
}

fn to_reason(error: anyhow::Error) -> String {
    format!("{error:#}")
}

fn build_rmcp(folder: &Path) -> Result<(Server, String)> {
    let target = folder.join("rmcp-echo");
    let mut build = workspace::cargo(["build", "--release", "--locked"]);
    process::run(build.current_dir(peer_folder("rmcp-echo")).env("CARGO_TARGET_DIR", &target))?;
    let server = Server::new("rmcp", target.join("release/rmcp-echo"), Vec::new(), folder);
    let manifest = fs::read_to_string(peer_folder("rmcp-echo").join("Cargo.lock"))?;
    let version =
        manifest.split("name = \"rmcp\"\nversion = \"").nth(1).and_then(|rest| rest.split('"').next());
    Ok((server, format!("rmcp {}", version.unwrap_or("of unknown version"))))
}

fn install_typescript(folder: &Path) -> Result<(Server, String)> {
    let node = install::find_or_install_program("node", &["nodejs"])?;
    let npm = install::find_or_install_program("npm", &["npm"])?;
    // Node looks for packages beside the file that imports them, so the server is copied to them.
    let target = folder.join("node");
    fs::create_dir_all(&target)?;
    let pinned = fs::read_to_string(peer_folder("typescript-sdk").join("package.json"))?;
    fs::write(target.join("package.json"), &pinned)?;
    fs::copy(peer_folder("typescript-sdk").join("server.mjs"), target.join("server.mjs"))?;
    install_once(&target, &pinned, || {
        let mut command = workspace::command(&npm);
        command.args(["install", "--no-audit", "--no-fund", "--loglevel=error"]);
        process::capture(command.current_dir(&target)).map(drop)
    })?;
    let installed = fs::read_to_string(target.join("node_modules/@modelcontextprotocol/sdk/package.json"))?;
    let installed: Value = serde_json::from_str(&installed)?;
    let sdk = installed["version"].as_str().context("the SDK's package has no version")?;
    let node_version = process::capture(workspace::command(&node).arg("--version"))?;
    let server = Server::new("TypeScript SDK", node, vec![target.join("server.mjs").into()], folder);
    Ok((server, format!("TypeScript SDK {sdk} on Node {}", node_version.trim().trim_start_matches('v'))))
}

fn install_fastmcp(folder: &Path) -> Result<(Server, String)> {
    let system_python = install::find_or_install_program("python3", &["python3", "python3-venv"])?;
    let can_make_environments = |python: &Path| {
        process::capture(workspace::command(python).args(["-c", "import ensurepip, venv"])).is_ok()
    };
    if !can_make_environments(&system_python) {
        install::install("Python's `venv`", &["python3-venv"])?;
    }
    let target = folder.join("venv");
    let python = target.join("bin/python");
    let pinned = fs::read_to_string(peer_folder("fastmcp").join("requirements.txt"))?;
    install_once(&target, &pinned, || {
        process::capture(workspace::command(&system_python).args(["-m", "venv", "--clear"]).arg(&target))?;
        let mut command = workspace::command(&python);
        command.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--requirement"]);
        process::capture(command.arg(peer_folder("fastmcp").join("requirements.txt"))).map(drop)
    })?;
    let ask = "import platform, importlib.metadata as m; print('FastMCP', m.version('fastmcp'), 'on Python', platform.python_version())";
    let versions = process::capture(workspace::command(&python).args(["-c", ask]))?;
    let script = peer_folder("fastmcp").join("server.py");
    let server = Server::new("FastMCP", python, vec![script.into()], folder);
    Ok((server, versions.trim().to_owned()))
}

/// Runs the installation unless the same one has been done here.
fn install_once(target: &Path, pinned: &str, install: impl FnOnce() -> Result<()>) -> Result<()> {
    let stamp = target.join("starloom-installed");
    if fs::read_to_string(&stamp).is_ok_and(|installed| installed == pinned) {
        return Ok(());
    }
    eprintln!("installing {}", target.display());
    install()?;
    fs::write(stamp, pinned)?;
    Ok(())
}

fn peer_folder(name: &str) -> PathBuf {
    workspace::root().join("bench/peers").join(name)
}
