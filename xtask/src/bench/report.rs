//! The table: what was found, against what was promised.

use std::fs;
use std::thread;

use anyhow::Result;

use super::server::Server;
use super::{Bench, Measurement};
use crate::{process, workspace};

/// What a measurement found, ready to be shown.
pub struct Finding {
    pub starloom: String,
    pub peers: String,
    pub ratio: String,
    pub ok: bool,
}

impl Finding {
    /// For servers with Starloom in the first place and rmcp in the second.
    pub fn against_rmcp(servers: &[Server], shown: &[String], ratio: f64, ok: bool) -> Finding {
        let peers: Vec<String> = servers
            .iter()
            .zip(shown)
            .skip(1)
            .map(|(server, shown)| format!("{} {shown}", server.name()))
            .collect();
        Finding {
            starloom: shown[0].clone(),
            peers: peers.join(", "),
            ratio: format!("{ratio:.2} × rmcp"),
            ok,
        }
    }
}

pub struct Report {
    load_before: String,
    versions: Vec<String>,
    lines: Vec<String>,
    missed: Vec<&'static str>,
}

impl Report {
    pub fn begin(bench: &Bench) -> Report {
        let versions = vec![version_of("starloom", &bench.starloom)];
        Report { load_before: load_average(), versions, lines: Vec::new(), missed: Vec::new() }
    }

    pub fn add(&mut self, measurement: &Measurement, result: Result<Finding>) {
        let Measurement { name, what, budget, .. } = measurement;
        let line = match result {
            Ok(Finding { starloom, peers, ratio, ok }) => {
                if !ok {
                    self.missed.push(name);
                }
                let verdict = if ok { "yes" } else { "**no**" };
                format!("| {name}: {what} | {starloom} | {peers} | {ratio} | {budget} | {verdict} |")
            }
            Err(error) => {
                self.missed.push(name);
                eprintln!("{name} failed: {error:#}");
                let reason = to_cell(&format!("{error:#}"));
                format!("| {name}: {what} | failed: {reason} | | | {budget} | **failed** |")
            }
        };
        eprintln!("{line}");
        self.lines.push(line);
    }

    /// Asked last: only then is it known which peers there are.
    pub fn finish(&mut self, bench: &Bench) {
        self.versions.extend(bench.peers.versions());
        self.versions.push(version_of("rustc", "rustc"));
    }

    pub fn to_markdown(&self) -> String {
        let date = process::capture(workspace::command("date").args(["-u", "+%Y-%m-%d"])).unwrap_or_default();
        let n_cores = thread::available_parallelism().map_or(0, usize::from);
        format!(
            "\
# Results of `cargo xtask bench`

{date}, {n_cores} cores, load average {load} before the run. {versions}.
How to read it: [README.md](README.md).

| what | starloom | peers | ratio | budget | ok |
| --- | --- | --- | --- | --- | --- |
{lines}
",
            date = date.trim(),
            load = self.load_before,
            versions = self.versions.join(", "),
            lines = self.lines.join("\n"),
        )
    }

    pub fn missed(&self) -> &[&'static str] {
        &self.missed
    }
}

/// One line of bearable length without this machine's paths, since the table is committed.
fn to_cell(text: &str) -> String {
    let root = workspace::root();
    let target = workspace::target_dir().unwrap_or_else(|_| root.join("target"));
    let mut text = text.replace(['\n', '|'], " ");
    for (folder, name) in [(target, "target"), (root, ".")] {
        text = text.replace(&*folder.to_string_lossy(), name);
    }
    match text.char_indices().nth(300) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

fn load_average() -> String {
    let averages = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    averages.split(' ').next().unwrap_or_default().to_owned()
}

/// `NAME 1.2.3`: the second word of what programs print for `--version`.
fn version_of(name: &str, program: impl AsRef<std::ffi::OsStr>) -> String {
    let printed = process::capture(workspace::command(program).arg("--version")).unwrap_or_default();
    let version = printed.split_whitespace().find(|word| word.starts_with(|c: char| c.is_ascii_digit()));
    format!("{name} {}", version.unwrap_or("of unknown version"))
}
