//! `starloom call`

use std::path::PathBuf;

use clap::Args;
use serde_json::Value as Json;
use starloom_engine::JsonObject;

use super::CliError;
use super::list::pretty;
use super::sources::{SourceFlags, runtime};
use crate::app::App;
use crate::call::{self, Call, CallError, Cancel};
use crate::exit;

/// Call one tool and print its result
#[derive(Args)]
pub struct CallArgs {
    /// The tool's name
    tool: String,

    /// Arguments as key=value; a value is read as the schema wants it
    #[arg(value_name = "KEY=VALUE")]
    arguments: Vec<String>,

    /// All arguments as a JSON object, or @FILE
    #[arg(long, value_name = "JSON")]
    args: Option<String>,

    /// File, folder or pattern to load the tool from
    #[arg(long = "path", value_name = "PATH")]
    paths: Vec<PathBuf>,

    #[command(flatten)]
    sources: SourceFlags,

    /// Print the whole result as JSON
    #[arg(long)]
    json: bool,
}

pub fn cmd_call(args: CallArgs) -> Result<u8, CliError> {
    let arguments = arguments(&args)?;
    let runtime = runtime()?;
    let mut settings = args.sources.settings(&args.paths, runtime.handle())?;
    // Whoever calls from a terminal wrote the script, or can read it.
    settings.debug_errors = true;
    let app = App::start(settings, runtime.handle().clone(), false);
    let outcome = runtime.block_on(async {
        app.loaded().await?;
        let view = app.catalog().await;
        for source in view.sources.iter() {
            if let Some(error) = source.state.error() {
                eprintln!("{}", error.trim_end());
            }
        }
        let call = Call { view, name: args.tool.clone(), arguments, depth: 0, intercept: None };
        let cancel = Cancel::new();
        // `block_in_place` wants a thread of the runtime, which this one is not.
        let running = {
            let (app, cancel) = (app.clone(), cancel.clone());
            tokio::spawn(async move { call::run(&app, &call, &cancel).await })
        };
        tokio::select! {
            result = running => result.map_err(|error| CliError::bug(error.to_string()))?.map_err(call_error),
            _ = tokio::signal::ctrl_c() => {
                cancel.cancel();
                Err(CliError::failed("cancelled"))
            }
        }
    });
    runtime.shutdown_background();
    let result = outcome?;
    let is_error = result.get("isError") == Some(&Json::Bool(true));
    if args.json {
        println!("{}", pretty(&Json::Object(result)));
    } else {
        print_result(&result);
    }
    Ok(if is_error { exit::FAILED } else { exit::OK })
}

fn call_error(error: CallError) -> CliError {
    match &error {
        CallError::UnknownTool { name, suggestion } => CliError::failed(format!("there is no tool `{name}`"))
            .with_hint(match suggestion {
                Some(known) => Some(format!("did you mean `{known}`?")),
                None => Some("`starloom list` shows the tools there are".to_owned()),
            }),
        _ => CliError::failed(error.to_string()),
    }
}

fn arguments(args: &CallArgs) -> Result<JsonObject, CliError> {
    let mut object = match &args.args {
        None => JsonObject::new(),
        Some(text) => {
            let text = match text.strip_prefix('@') {
                Some(path) => std::fs::read_to_string(path)
                    .map_err(|error| CliError::usage(format!("cannot read `{path}`: {error}")))?,
                None => text.clone(),
            };
            match serde_json::from_str(&text) {
                Ok(Json::Object(object)) => object,
                Ok(_) => return Err(CliError::usage("`--args` must be a JSON object")),
                Err(error) => return Err(CliError::usage(format!("`--args` is not JSON: {error}"))),
            }
        }
    };
    for pair in &args.arguments {
        let Some((key, value)) = pair.split_once('=') else {
            return Err(CliError::usage(format!("`{pair}` must be KEY=VALUE")));
        };
        // The schema coerces what it wants as something else.
        object.insert(key.to_owned(), Json::String(value.to_owned()));
    }
    Ok(object)
}

fn print_result(result: &JsonObject) {
    let blocks = result.get("content").and_then(Json::as_array).cloned().unwrap_or_default();
    let text = |block: &Json, key: &str| block.get(key).and_then(Json::as_str).unwrap_or("").to_owned();
    for block in &blocks {
        match block.get("type").and_then(Json::as_str) {
            Some("text") => println!("{}", text(block, "text")),
            Some(kind @ ("image" | "audio")) => {
                let bytes = text(block, "data").len() / 4 * 3;
                println!("[{kind} {}, about {bytes} bytes]", text(block, "mimeType"));
            }
            Some("resource_link") => println!("[link {} {}]", text(block, "name"), text(block, "uri")),
            _ => println!("{}", pretty(block)),
        }
    }
}
