//! `cargo xtask test`: everything that must hold before a change lands.

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::postgres::Postgres;
use crate::{install, process, workspace};

#[derive(Debug, Default, PartialEq)]
pub struct Options {
    fast: bool,
    /// For `cargo test`: a filter, `-p CRATE`, `--test NAME`.
    selection: Vec<String>,
}

impl Options {
    pub fn parse(arguments: &[&str]) -> Result<Options, String> {
        let mut options = Options::default();
        let mut rest = arguments.iter();
        while let Some(&argument) = rest.next() {
            match argument {
                "--fast" => options.fast = true,
                "--" => options.selection.extend(rest.by_ref().map(|&argument| argument.to_owned())),
                _ => {
                    return Err(format!(
                        "`test` does not know `{argument}` (`--` comes before what is for `cargo test`)"
                    ));
                }
            }
        }
        Ok(options)
    }
}

pub fn run(options: &Options) -> Result<()> {
    process::catch_stop_signals()?;
    let mut steps = Steps { start: Instant::now(), done: Vec::new() };
    let result = run_steps(options, &mut steps);
    steps.summarise();
    result
}

fn run_steps(options: &Options, steps: &mut Steps) -> Result<()> {
    let postgres = steps.time("start PostgreSQL", Postgres::start)?;
    if !options.fast {
        install::find_or_install_rust_components()?;
        steps.command("format", &mut workspace::cargo(["fmt", "--all", "--check"]))?;
        let lint = ["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"];
        steps.command("lint", &mut workspace::cargo(lint))?;
    }
    let mut tests = workspace::cargo(test_arguments(&options.selection));
    tests.env("STARLOOM_TEST_POSTGRES", postgres.url());
    tests.env("STARLOOM_TEST_POSTGRES_CA", postgres.certificate());
    steps.command("tests", &mut tests)?;

    let examples_exist = workspace::root().join("examples/extensions").is_dir();
    if examples_exist && options.selection.is_empty() {
        let mut example_tests = built_starloom()?;
        example_tests.env("STARLOOM_TEST_POSTGRES", postgres.url());
        steps.command("tests of the examples", example_tests.args(["test", "examples"]))?;
        steps.command("check of the examples", built_starloom()?.args(["check", "--strict", "examples"]))?;
    }
    Ok(())
}

fn test_arguments(selection: &[String]) -> Vec<&str> {
    let names_packages = selection.iter().any(|argument| {
        ["-p", "--package"]
            .iter()
            .any(|option| argument == option || argument.starts_with(&format!("{option}=")))
    });
    let mut arguments = vec!["test"];
    if !names_packages {
        arguments.push("--workspace");
    }
    arguments.extend(selection.iter().map(String::as_str));
    arguments
}

/// The binary that the tests were run with.
fn built_starloom() -> Result<Command> {
    let binary: PathBuf = workspace::target_dir()?.join("debug/starloom");
    ensure!(binary.is_file(), "`cargo test` has left no {}", binary.display());
    Ok(workspace::command(binary))
}

struct Steps {
    start: Instant,
    done: Vec<(&'static str, Duration)>,
}

impl Steps {
    fn command(&mut self, name: &'static str, command: &mut Command) -> Result<()> {
        self.time(name, || process::run(command))
    }

    fn time<T>(&mut self, name: &'static str, step: impl FnOnce() -> Result<T>) -> Result<T> {
        process::fail_if_stopped()?;
        eprintln!("\n=== {name}");
        let start = Instant::now();
        let result = step();
        self.done.push((name, start.elapsed()));
        result.with_context(|| format!("step `{name}`"))
    }

    fn summarise(&self) {
        eprintln!();
        for (name, time) in &self.done {
            eprintln!("{:8.1} s  {name}", time.as_secs_f64());
        }
        eprintln!("{:8.1} s  in all", self.start.elapsed().as_secs_f64());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_follows_the_dashes_is_for_cargo_test() {
        let options = Options::parse(&["--fast", "--", "-p", "xtask", "--", "--nocapture"]).unwrap();
        assert!(options.fast);
        assert_eq!(test_arguments(&options.selection), ["test", "-p", "xtask", "--", "--nocapture"]);
        assert_eq!(test_arguments(&["filter".to_owned()]), ["test", "--workspace", "filter"]);
        assert!(Options::parse(&["--quick"]).is_err());
    }
}
