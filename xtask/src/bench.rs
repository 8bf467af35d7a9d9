//! `cargo xtask bench`: the budgets, measured against peers in the same run.

mod calls;
mod client;
mod concurrency;
mod memory;
mod peers;
mod reload;
mod report;
mod server;
mod start;
mod statistics;

use std::fs;
use std::path::PathBuf;

use anyhow::{Result, ensure};

use crate::{process, workspace};
use peers::Peers;
use report::{Finding, Report};
use server::Server;

#[derive(Debug, Default)]
pub struct Options {
    only: Vec<String>,
    quick: bool,
}

impl Options {
    pub fn parse(arguments: &[&str]) -> Result<Options, String> {
        let mut options = Options::default();
        let mut rest = arguments.iter();
        while let Some(&argument) = rest.next() {
            match (argument, argument.strip_prefix("--only=")) {
                ("--quick", _) => options.quick = true,
                ("--only", _) => options.select(rest.next().ok_or("`--only` needs names")?)?,
                (_, Some(names)) => options.select(names)?,
                _ => return Err(format!("`bench` does not know `{argument}`")),
            }
        }
        Ok(options)
    }

    fn select(&mut self, names: &str) -> Result<(), String> {
        for name in names.split(',') {
            if MEASUREMENTS.iter().all(|measurement| measurement.name != name) {
                let known: Vec<&str> = MEASUREMENTS.iter().map(|measurement| measurement.name).collect();
                return Err(format!("there is no measurement `{name}`, only {}", known.join(", ")));
            }
            self.only.push(name.to_owned());
        }
        Ok(())
    }

    fn selects(&self, measurement: &Measurement) -> bool {
        self.only.is_empty() || self.only.iter().any(|name| name == measurement.name)
    }

    /// Only a whole run is worth keeping.
    fn is_whole_run(&self) -> bool {
        self.only.is_empty() && !self.quick
    }
}

/// One line of the table.
struct Measurement {
    name: &'static str,
    what: &'static str,
    budget: &'static str,
    run: fn(&Bench) -> Result<Finding>,
}

const MEASUREMENTS: &[Measurement] = &[
    Measurement {
        name: "echo",
        what: "`tools/call` of an echo, one after the other, p50",
        budget: "≤ 1.3 × rmcp",
        run: calls::echo,
    },
    Measurement {
        name: "throughput",
        what: "`tools/call` of an echo, 64 in flight, calls per second",
        budget: "≥ 0.7 × rmcp",
        run: calls::throughput,
    },
    Measurement {
        name: "start",
        what: "process start → `initialize` reply, 11 extensions",
        budget: "≤ 2 × rmcp",
        run: start::start,
    },
    Measurement {
        name: "first-list",
        what: "process start → first `tools/list` reply, 11 extensions",
        budget: "≤ 7 × rmcp's start",
        run: start::first_list,
    },
    Measurement {
        name: "many",
        what: "process start → first `tools/list` reply, 500 extensions (250 beside it)",
        budget: "≤ 0.5 s, ≤ 2.6 × 250 extensions",
        run: start::many,
    },
    Measurement {
        name: "sleepers",
        what: "1,000 concurrent calls that sleep a second; peak memory",
        budget: "< 1.5 s, < 100 MB",
        run: concurrency::sleepers,
    },
    Measurement {
        name: "spinner",
        what: "p99 of an echo beside a spinning handler; when the spinner ended (limit 5 s)",
        budget: "≤ 3 × idle p99, ends ≤ 6 s",
        run: concurrency::spinner,
    },
    Measurement {
        name: "reload",
        what: "save → `list_changed`, median (slowest)",
        budget: "slowest < 100 ms",
        run: reload::reload,
    },
    Measurement {
        name: "reload-load",
        what: "failed calls during 200 reloads under continuous calls",
        budget: "0 failed",
        run: reload::reload_under_load,
    },
    Measurement {
        name: "idle-rss",
        what: "memory 2 s after `initialize`, 11 extensions",
        budget: "≤ 20 MB",
        run: memory::idle,
    },
];

/// What every measurement gets.
struct Bench {
    quick: bool,
    starloom: PathBuf,
    peers: Peers,
    /// Emptied at the start of each run.
    scratch: PathBuf,
}

impl Bench {
    fn prepare(options: &Options) -> Result<Bench> {
        process::run(&mut workspace::cargo(["build", "--release", "--package", "starloom"]))?;
        let target = workspace::target_dir()?;
        let scratch = target.join("bench/scratch");
        if scratch.exists() {
            fs::remove_dir_all(&scratch)?;
        }
        fs::create_dir_all(&scratch)?;
        let starloom = target.join("release/starloom");
        Ok(Bench { quick: options.quick, starloom, peers: Peers::in_folder(target.join("bench")), scratch })
    }

    /// `n`, or a good deal fewer with `--quick`.
    fn rounds(&self, n: usize) -> usize {
        if self.quick { n.div_ceil(5) } else { n }
    }

    fn starloom(&self, served: PathBuf) -> Server {
        let arguments = vec!["serve".into(), served.into_os_string()];
        Server::new("starloom", self.starloom.clone(), arguments, &self.scratch)
    }

    fn starloom_echo(&self) -> Server {
        self.starloom(fixtures().join("echo"))
    }

    fn starloom_eleven(&self) -> Server {
        self.starloom(fixtures().join("eleven"))
    }
}

fn fixtures() -> PathBuf {
    workspace::root().join("bench/fixtures")
}

pub fn run(options: &Options) -> Result<()> {
    let bench = Bench::prepare(options)?;
    let mut report = Report::begin(&bench);
    for measurement in MEASUREMENTS.iter().filter(|measurement| options.selects(measurement)) {
        eprintln!("measuring {}", measurement.name);
        report.add(measurement, (measurement.run)(&bench));
    }
    report.finish(&bench);
    println!("{}", report.to_markdown());
    if options.is_whole_run() {
        fs::write(workspace::root().join("bench/RESULTS.md"), report.to_markdown())?;
        eprintln!("wrote bench/RESULTS.md");
    } else {
        eprintln!("not a whole run: bench/RESULTS.md stays as it is");
    }
    let missed = report.missed();
    ensure!(missed.is_empty(), "over budget or failed: {}", missed.join(", "));
    Ok(())
}
