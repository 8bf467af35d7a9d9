//! How a server under measurement is started.

use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Instant;

use anyhow::{Context, Result};

use super::client::Client;
use crate::workspace;

#[derive(Clone)]
pub struct Server {
    name: &'static str,
    program: PathBuf,
    arguments: Vec<OsString>,
    /// What it prints on stderr, to be shown when it fails.
    log: PathBuf,
}

impl Server {
    pub fn new(name: &'static str, program: PathBuf, arguments: Vec<OsString>, log_folder: &Path) -> Server {
        Server { name, program, arguments, log: log_folder.join(format!("{name}.log")) }
    }

    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Started, and nothing said yet.
    pub fn spawn(&self) -> Result<Client> {
        let mut command = workspace::command(&self.program);
        command.args(&self.arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(File::create(&self.log)?);
        let spawned_at = Instant::now();
        let child = command.spawn().with_context(|| format!("cannot start {}", self.program.display()))?;
        Ok(Client::new(self.name, child, spawned_at, self.log.clone()))
    }

    /// Started and initialised, with `tools/list` answered: loading is over.
    pub fn connect(&self) -> Result<Client> {
        let mut client = self.spawn()?;
        client.initialize()?;
        client.list_tools()?;
        Ok(client)
    }
}
