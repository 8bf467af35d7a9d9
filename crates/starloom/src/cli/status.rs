//! `starloom status`

use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use serde_json::Value as Json;

use super::CliError;
use super::list::{pretty, print_source, source_list};
use super::sources::SourceFlags;
use crate::exit;

/// Show how every source fares: in a running server, or if it were started now
#[derive(Args)]
pub struct StatusArgs {
    /// Files, folders and patterns
    paths: Vec<PathBuf>,

    #[command(flatten)]
    sources: SourceFlags,

    /// Ask the server running here instead of loading the files
    #[arg(long, value_name = "URL", env = "STARLOOM_URL")]
    url: Option<String>,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub fn cmd_status(args: StatusArgs) -> Result<u8, CliError> {
    let sources = match &args.url {
        Some(url) => ask(url)?,
        None => source_list(&*super::list::load(&args.sources, &args.paths)?),
    };
    let entries = sources.as_array().cloned().unwrap_or_default();
    if args.json {
        println!("{}", pretty(&sources));
    } else {
        let text = |entry: &Json, key: &str| entry.get(key).and_then(Json::as_str).unwrap_or("").to_owned();
        let width = entries.iter().map(|entry| text(entry, "id").chars().count()).max().unwrap_or(0).min(32);
        for entry in &entries {
            let tools = entry.get("tools").and_then(Json::as_array).map_or(0, Vec::len);
            print_source(&text(entry, "id"), &text(entry, "state"), tools, &text(entry, "path"), width);
            if let Some(error) = entry.get("error").and_then(Json::as_str) {
                for line in error.trim_end().lines() {
                    println!("    {line}");
                }
            }
        }
    }
    let broken = entries.iter().any(|entry| entry.get("error").is_some());
    Ok(if broken { exit::FAILED } else { exit::OK })
}

/// One request to our own server: not worth an HTTP client.
fn ask(url: &str) -> Result<Json, CliError> {
    let unreachable = |problem: String| CliError::failed(format!("no server answers at {url}: {problem}"));
    let rest = url
        .strip_prefix("http://")
        .ok_or_else(|| CliError::usage(format!("`{url}` must start with http://")))?;
    let authority = rest.split('/').next().unwrap_or(rest);
    let address = authority
        .to_socket_addrs()
        .map_err(|error| unreachable(error.to_string()))?
        .next()
        .ok_or_else(|| unreachable("the name has no address".to_owned()))?;
    let timeout = Duration::from_secs(5);
    let mut stream =
        TcpStream::connect_timeout(&address, timeout).map_err(|error| unreachable(error.to_string()))?;
    stream.set_read_timeout(Some(timeout))?;
    write!(stream, "GET /status HTTP/1.0\r\nHost: {authority}\r\n\r\n")?;
    let mut answer = String::new();
    stream.take(16 << 20).read_to_string(&mut answer).map_err(|error| unreachable(error.to_string()))?;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    if !head.lines().next().is_some_and(|line| line.contains(" 200")) {
        return Err(unreachable(head.lines().next().unwrap_or("no answer").to_owned()));
    }
    let status: Json = serde_json::from_str(body).map_err(|error| unreachable(error.to_string()))?;
    Ok(status.get("sources").cloned().unwrap_or(Json::Null))
}
