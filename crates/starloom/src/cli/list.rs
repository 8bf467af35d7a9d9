//! `starloom list`

use std::path::PathBuf;

use clap::Args;
use serde_json::{Value as Json, json};

use super::CliError;
use super::sources::{SourceFlags, runtime};
use crate::app::App;
use crate::catalog::{Catalog, Source};
use crate::exit;

/// List what would be served: tools, or the sources they come from
#[derive(Args)]
pub struct ListArgs {
    /// `tools` (the default) or `servers`, then files, folders and patterns
    #[arg(value_name = "WHAT_AND_PATHS")]
    words: Vec<String>,

    #[command(flatten)]
    sources: SourceFlags,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy)]
enum What {
    /// Every tool with its description
    Tools,
    /// Every source with its state: loaded, stale, failed or removed
    Servers,
}

pub fn cmd_list(args: ListArgs) -> Result<u8, CliError> {
    let (what, paths) = match args.words.split_first() {
        Some((word, rest)) if word == "tools" => (What::Tools, rest),
        Some((word, rest)) if matches!(word.as_str(), "servers" | "sources") => (What::Servers, rest),
        _ => (What::Tools, args.words.as_slice()),
    };
    let paths: Vec<PathBuf> = paths.iter().map(PathBuf::from).collect();
    let catalog = load(&args.sources, &paths)?;
    match (what, args.json) {
        (What::Tools, true) => println!("{}", pretty(&Json::Array(catalog.wire_tools().to_vec()))),
        (What::Servers, true) => println!("{}", pretty(&source_list(&catalog))),
        (What::Tools, false) => print_tools(&catalog),
        (What::Servers, false) => print_sources(&catalog),
    }
    Ok(exit::OK)
}

/// Loads everything once, without watching.
pub fn load(sources: &SourceFlags, paths: &[PathBuf]) -> Result<std::sync::Arc<Catalog>, CliError> {
    let runtime = runtime()?;
    let settings = sources.settings(paths, runtime.handle())?;
    let app = App::start(settings, runtime.handle().clone(), false);
    let catalog = runtime.block_on(async {
        app.loaded().await?;
        Ok::<_, CliError>(app.catalog().await)
    });
    runtime.shutdown_background();
    catalog
}

pub fn pretty(json: &Json) -> String {
    serde_json::to_string_pretty(json).unwrap_or_default()
}

pub fn shortened(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let mut short: String = text.chars().take(width - 1).collect();
    short.push('…');
    short
}

fn print_tools(catalog: &Catalog) {
    let width = catalog.tools().iter().map(|tool| tool.name.chars().count()).max().unwrap_or(0).min(48);
    for tool in catalog.tools() {
        let summary = tool.description.lines().next().unwrap_or("");
        println!("{:width$}  {}", tool.name, shortened(summary, 90));
    }
    report_errors(catalog);
}

fn print_sources(catalog: &Catalog) {
    let width = catalog.sources.iter().map(|source| source.id.chars().count()).max().unwrap_or(0).min(32);
    for source in &catalog.sources {
        print_source(
            &source.id,
            source.state.name(),
            source.tools.len(),
            &source.path.display().to_string(),
            width,
        );
    }
    report_errors(catalog);
}

pub fn print_source(id: &str, state: &str, tools: usize, path: &str, width: usize) {
    println!("{id:width$}  {state:7}  {tools:3} tools  {path}");
}

fn report_errors(catalog: &Catalog) {
    for source in &catalog.sources {
        if let Some(error) = source.state.error() {
            eprintln!("\n{} ({}):\n{}", source.id, source.state.name(), error.trim_end());
        }
    }
}

/// The sources as JSON: the same facts for `list`, `status` and `/status`.
pub fn source_list(catalog: &Catalog) -> Json {
    let entry = |source: &Source| {
        let tools: Vec<&str> = source.tools.iter().map(|tool| tool.name.as_str()).collect();
        let mut entry = json!({
            "id": source.id,
            "state": source.state.name(),
            "path": source.path.display().to_string(),
            "version": source.version,
            "description": source.description,
            "tools": tools,
        });
        if let Some(error) = source.state.error() {
            entry["error"] = json!(error);
        }
        entry
    };
    Json::Array(catalog.sources.iter().map(entry).collect())
}
