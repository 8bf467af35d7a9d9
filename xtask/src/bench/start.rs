//! `start`, `first-list` and `many`: how long until a client can work.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, ensure};

use super::Bench;
use super::report::Finding;
use super::server::Server;
use super::statistics::{median, median_ratio, seconds, show_seconds};

const ROUNDS: usize = 30;
const ROUNDS_OF_SLOW_PEERS: usize = 5;

pub fn start(bench: &Bench) -> Result<Finding> {
    let servers =
        [bench.starloom_eleven(), bench.peers.rmcp()?, bench.peers.typescript()?, bench.peers.fastmcp()?];
    let mut times = vec![Vec::new(); servers.len()];
    // The two that are compared take turns; the slow ones would leave them a cold machine.
    for (group, rounds) in [(0..2, ROUNDS), (2..4, ROUNDS_OF_SLOW_PEERS)] {
        for i in group.clone() {
            time_to_initialize(&servers[i])?; // From a warm disk cache, like all that follow.
        }
        for _ in 0..bench.rounds(rounds) {
            for i in group.clone() {
                times[i].push(time_to_initialize(&servers[i])?.as_secs_f64());
            }
        }
    }
    let ratio = median_ratio(&times[0], &times[1]);
    let shown: Vec<String> = times.iter().map(|times| show_seconds(median(times))).collect();
    Ok(Finding::against_rmcp(&servers, &shown, ratio, ratio <= 2.0))
}

pub fn first_list(bench: &Bench) -> Result<Finding> {
    let starloom = bench.starloom_eleven();
    let rmcp = bench.peers.rmcp()?;
    let mut ours = Vec::new();
    let mut theirs = Vec::new();
    time_to_list(&starloom)?;
    time_to_initialize(&rmcp)?;
    for _ in 0..bench.rounds(ROUNDS) {
        ours.push(time_to_list(&starloom)?);
        theirs.push(time_to_initialize(&rmcp)?);
    }
    let (ours, theirs) = (seconds(&ours), seconds(&theirs));
    let ratio = median_ratio(&ours, &theirs);
    let shown = [show_seconds(median(&ours)), show_seconds(median(&theirs))];
    Ok(Finding::against_rmcp(&[starloom, rmcp], &shown, ratio, ratio <= 7.0))
}

pub fn many(bench: &Bench) -> Result<Finding> {
    const EXTENSIONS: usize = 500;
    let all = bench.starloom(generate_extensions(bench, EXTENSIONS)?);
    let half = bench.starloom(generate_extensions(bench, EXTENSIONS / 2)?);
    expect_tools(&all, EXTENSIONS * TOOLS_PER_EXTENSION)?;
    let mut times_of_all = Vec::new();
    let mut times_of_half = Vec::new();
    for _ in 0..bench.rounds(9) {
        times_of_all.push(time_to_list(&all)?);
        times_of_half.push(time_to_list(&half)?);
    }
    let (times_of_all, times_of_half) = (seconds(&times_of_all), seconds(&times_of_half));
    let growth = median_ratio(&times_of_all, &times_of_half);
    let time = median(&times_of_all);
    Ok(Finding {
        starloom: format!("{} (250: {})", show_seconds(time), show_seconds(median(&times_of_half))),
        peers: "–".to_owned(),
        ratio: format!("{growth:.2} × for 2 × the extensions"),
        ok: time <= 0.5 && growth <= 2.6,
    })
}

fn time_to_initialize(server: &Server) -> Result<Duration> {
    let mut client = server.spawn()?;
    client.request_initialize()?;
    Ok(client.spawned_at().elapsed())
}

fn time_to_list(server: &Server) -> Result<Duration> {
    let mut client = server.spawn()?;
    client.initialize()?;
    let tools = client.list_tools()?;
    let time = client.spawned_at().elapsed();
    ensure!(!tools.is_empty(), "{} lists no tools", server.name());
    Ok(time)
}

fn expect_tools(server: &Server, n_expected: usize) -> Result<()> {
    let n_listed = server.connect()?.list_all_tools()?.len();
    ensure!(n_listed == n_expected, "{n_expected} tools were written, and {n_listed} are listed");
    Ok(())
}

const TOOLS_PER_EXTENSION: usize = 3;

fn generate_extensions(bench: &Bench, n_extensions: usize) -> Result<PathBuf> {
    let folder = bench.scratch.join(format!("many-{n_extensions}"));
    fs::create_dir_all(&folder)?;
    for i in 0..n_extensions {
        fs::write(folder.join(format!("inventory_{i:03}.star")), extension_source(i))?;
    }
    Ok(folder)
}

/// About what a small real extension is: a few helpers, three tools, a parameter of each kind.
fn extension_source(i: usize) -> String {
    r#"
"""Inventory @ID@."""

UNITS = {"piece": 1, "pair": 2, "dozen": 12}

def _to_pieces(count, unit):
    if unit not in UNITS:
        fail("unknown unit: " + unit)
    return count * UNITS[unit]

def _convert(params):
    return str(_to_pieces(params["count"], params.get("unit", "piece")))

def _total(params):
    total = 0
    for line in params["lines"].split("\n"):
        words = line.split(" ")
        if len(words) == 2:
            total += _to_pieces(int(words[0]), words[1])
    return {"content": [{"type": "text", "text": "total: %d" % total}]}

def _units(params):
    return "\n".join(["%s = %d" % (name, size) for name, size in sorted(UNITS.items())])

def describe_extension():
    return Extension(
        name = "inventory_@ID@",
        version = "1.0.0",
        description = "Counts things, number @ID@",
        tools = [
            Tool(
                name = "inventory_@ID@_convert",
                description = "Convert a count to pieces",
                parameters = [
                    ToolParameter(name = "count", param_type = "integer", required = True, description = "How many"),
                    ToolParameter(name = "unit", param_type = "string", required = False, default = "piece", description = "Of what"),
                ],
                handler = _convert,
            ),
            Tool(
                name = "inventory_@ID@_total",
                description = "Add up lines of counts and units",
                parameters = [
                    ToolParameter(name = "lines", param_type = "string", required = True, description = "One count and unit a line"),
                ],
                handler = _total,
            ),
            Tool(name = "inventory_@ID@_units", description = "The units and their sizes", parameters = [], handler = _units),
        ],
    )
"#
    .replace("@ID@", &format!("{i:03}"))
}
