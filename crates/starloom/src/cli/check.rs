//! `starloom check`

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use serde_json::json;
use starloom_effects::{Services, ServicesOptions};
use starloom_engine::{Engine, Finding, ScriptError, Severity, Vocabulary};

use super::CliError;
use super::sources::{SourceFlags, runtime};
use crate::catalog::{MergeError, merge};
use crate::exit;
use crate::extensions::{Loader, ScriptFile, discover, discover_helpers, discover_tests};

/// Say everything the server would say about the files, and more
#[derive(Args)]
pub struct CheckArgs {
    /// Files, folders and patterns
    paths: Vec<PathBuf>,

    #[command(flatten)]
    sources: SourceFlags,

    /// Warnings count as errors
    #[arg(long)]
    strict: bool,

    /// Print JSON, one object per finding
    #[arg(long)]
    json: bool,
}

pub fn cmd_check(args: CheckArgs) -> Result<u8, CliError> {
    let runtime = runtime()?;
    let settings = args.sources.settings(&args.paths, runtime.handle())?;
    let loader = Loader {
        engine: Arc::new(Engine::new()),
        services: Arc::new(Services::new(ServicesOptions::default())),
        runtime: runtime.handle().clone(),
        capabilities: settings.capabilities,
        env: Arc::new(settings.env.clone()),
        limits: settings.load_limits.clone(),
    };
    let files = discover(&settings.paths)?;
    let tests = discover_tests(&settings.paths)?;
    let helpers = discover_helpers(&settings.paths)?;
    if files.is_empty() && tests.is_empty() {
        let paths: Vec<String> = settings.paths.iter().map(|path| path.display().to_string()).collect();
        return Err(CliError::load(format!("there are no .star files in {}", paths.join(", "))));
    }
    let mut findings = Vec::new();
    let mut sources = Vec::new();
    for (file, result) in files.iter().zip(loader.load_all(&files)) {
        match result {
            Ok(loaded) => {
                findings.extend(loaded.warnings);
                sources.push(loaded.source);
            }
            Err(errors) => findings.extend(errors.into_iter().map(|error| Finding::error("load", error))),
        }
        analyse(&loader, file, Vocabulary::Server, &mut findings);
    }
    // Helpers may be loaded by tests, so they may use the words of tests.
    for file in tests.iter().chain(&helpers) {
        analyse(&loader, file, Vocabulary::Test, &mut findings);
    }
    runtime.shutdown_background();
    if let Err(error) = merge(sources, &settings.filter, settings.on_conflict) {
        findings.push(conflict(&error));
    }
    findings.retain(|finding| finding.severity != Severity::Advice);
    let findings = without_repeats(findings);
    report(&args, &findings, files.len() + tests.len() + helpers.len());
    let fatal = |finding: &Finding| finding.severity == Severity::Error || args.strict;
    Ok(if findings.iter().any(fatal) { exit::FAILED } else { exit::OK })
}

fn analyse(loader: &Loader, file: &ScriptFile, vocabulary: Vocabulary, findings: &mut Vec<Finding>) {
    match loader.analyse(file, vocabulary) {
        Ok(found) => findings.extend(found),
        Err(error) => findings.push(Finding::error("load", error)),
    }
}

fn conflict(error: &MergeError) -> Finding {
    let code = match error {
        MergeError::Conflict(_) => "duplicate",
        MergeError::Filter(_) => "filter",
    };
    Finding::error(code, ScriptError::new(starloom_engine::ErrorKind::Declaration, error.to_string()))
}

/// Loading and analysing find some mistakes both; the place tells.
fn without_repeats(findings: Vec<Finding>) -> Vec<Finding> {
    let mut seen = HashSet::new();
    findings
        .into_iter()
        .filter(|finding| match finding.location() {
            Some(location) => seen.insert((location.file.clone(), location.line, location.column)),
            None => seen.insert((finding.error.message.clone(), 0, 0)),
        })
        .collect()
}

fn report(args: &CheckArgs, findings: &[Finding], files: usize) {
    if args.json {
        for finding in findings {
            let location = finding.location();
            println!(
                "{}",
                json!({
                    "severity": finding.severity,
                    "code": finding.code,
                    "message": finding.error.message,
                    "hint": finding.error.hint,
                    "file": location.map(|location| &location.file),
                    "line": location.map(|location| location.line),
                    "column": location.map(|location| location.column),
                })
            );
        }
        return;
    }
    for finding in findings {
        println!("{}", finding.render());
    }
    let count = |severity| findings.iter().filter(|finding| finding.severity == severity).count();
    let (errors, warnings) = (count(Severity::Error), count(Severity::Warning));
    let counted = |count: usize, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
    let (files, errors, warnings) =
        (counted(files, "file"), counted(errors, "error"), counted(warnings, "warning"));
    eprintln!("{files} checked: {errors}, {warnings}");
}
