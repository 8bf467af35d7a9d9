//! `echo` and `throughput`: what one call costs.

use std::collections::HashSet;
use std::io::{Read, Write};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::client::{Client, call_line, expect_success, is_reply};
use super::report::Finding;
use super::server::Server;
use super::statistics::{median, median_ratio, percentile, seconds, show_seconds};
use super::{Bench, client};

const MESSAGE: &str = "hello";
const IN_FLIGHT: usize = 64;

pub fn echo(bench: &Bench) -> Result<Finding> {
    const ROUNDS: usize = 5;
    const CALLS: usize = 2_000;
    let servers = with_all_peers(bench, bench.starloom_echo())?;
    let mut clients = servers.iter().map(Server::connect).collect::<Result<Vec<_>>>()?;
    for client in &mut clients {
        echo_latencies(client, 200)?;
    }
    let mut p50s = vec![Vec::new(); servers.len()];
    for _ in 0..ROUNDS {
        for (client, p50s) in clients.iter_mut().zip(&mut p50s) {
            p50s.push(median(&seconds(&echo_latencies(client, bench.rounds(CALLS))?)));
        }
    }
    let ratio = median_ratio(&p50s[0], &p50s[1]);
    let shown: Vec<String> = p50s.iter().map(|p50s| show_seconds(median(p50s))).collect();
    Ok(Finding::against_rmcp(&servers, &shown, ratio, ratio <= 1.3))
}

pub fn throughput(bench: &Bench) -> Result<Finding> {
    const ROUNDS: usize = 5;
    const CALLS: usize = 20_000;
    // The slow ones show their rate well before that.
    const CALLS_OF_SLOW_PEERS: usize = 2_000;
    let servers = with_all_peers(bench, bench.starloom_echo())?;
    let mut clients = servers.iter().map(Server::connect).collect::<Result<Vec<_>>>()?;
    for client in &mut clients {
        calls_per_second(client, 500)?;
    }
    let mut rates = vec![Vec::new(); servers.len()];
    for _ in 0..ROUNDS {
        for (i, client) in clients.iter_mut().enumerate() {
            let calls = if i < 2 { CALLS } else { CALLS_OF_SLOW_PEERS };
            rates[i].push(calls_per_second(client, bench.rounds(calls))?);
        }
    }
    let ratio = median_ratio(&rates[0], &rates[1]);
    let shown: Vec<String> = rates.iter().map(|rates| format!("{:.0}/s", median(rates))).collect();
    Ok(Finding::against_rmcp(&servers, &shown, ratio, ratio >= 0.7))
}

/// Starloom first, rmcp second.
fn with_all_peers(bench: &Bench, starloom: Server) -> Result<Vec<Server>> {
    Ok(vec![starloom, bench.peers.rmcp()?, bench.peers.typescript()?, bench.peers.fastmcp()?])
}

/// The time of each of `calls` echoes, one after the other.
pub fn echo_latencies(client: &mut Client, calls: usize) -> Result<Vec<Duration>> {
    let mut enough = calls;
    echo_latencies_while(client, || {
        let go_on = enough > 0;
        enough = enough.saturating_sub(1);
        go_on
    })
}

pub fn echo_p99_over(client: &mut Client, time: Duration) -> Result<f64> {
    let end = Instant::now() + time;
    let latencies = echo_latencies_while(client, || Instant::now() < end)?;
    Ok(percentile(&seconds(&latencies), 99))
}

fn echo_latencies_while(client: &mut Client, mut go_on: impl FnMut() -> bool) -> Result<Vec<Duration>> {
    let mut latencies = Vec::new();
    let mut ids = Vec::new();
    let mut replies = String::new();
    while go_on() {
        let id = client.take_id();
        let line = call_line(id, "echo", &json!({"message": MESSAGE}));
        let start = Instant::now();
        client.send_line(&line)?;
        loop {
            let reply_start = replies.len();
            client.read_line(&mut replies)?;
            if client::is_reply(&replies[reply_start..]) {
                break;
            }
            replies.truncate(reply_start);
        }
        latencies.push(start.elapsed());
        ids.push(id);
    }
    // Looked at afterwards, so that our parsing is not measured.
    for (id, line) in ids.into_iter().zip(replies.lines()) {
        let reply: Value = serde_json::from_str(line)?;
        ensure!(reply["id"].as_u64() == Some(id), "the reply to call {id} is {reply}");
        expect_echo(&reply)?;
    }
    Ok(latencies)
}

fn expect_echo(reply: &Value) -> Result<()> {
    expect_success(reply)?;
    ensure!(reply["result"]["content"][0]["text"] == MESSAGE, "not an echo: {reply}");
    Ok(())
}

/// As many new calls are written at once as replies came in, so that the
/// client costs as little as it can and the server is what is measured.
fn calls_per_second(client: &mut Client, calls: usize) -> Result<f64> {
    let arguments = json!({"message": MESSAGE});
    let ids: Vec<u64> = (0..calls).map(|_| client.take_id()).collect();
    let lines: Vec<String> = ids.iter().map(|&id| call_line(id, "echo", &arguments) + "\n").collect();
    let mut unsent = lines.iter();
    let mut received = Vec::with_capacity(calls * 128);
    let mut chunk = vec![0; 1 << 16];
    let mut scanned = 0;
    let mut answered = 0;

    let (stdin, stdout) = client.pipes();
    let start = Instant::now();
    stdin.write_all(unsent.by_ref().take(IN_FLIGHT).cloned().collect::<String>().as_bytes())?;
    while answered < calls {
        let n = stdout.read(&mut chunk)?;
        ensure!(n > 0, "the server closed its stdout after {answered} replies");
        received.extend_from_slice(&chunk[..n]);
        let mut new_replies = 0;
        while let Some(length) = received[scanned..].iter().position(|&byte| byte == b'\n') {
            let line = std::str::from_utf8(&received[scanned..scanned + length])?;
            new_replies += usize::from(is_reply(line));
            scanned += length + 1;
        }
        answered += new_replies;
        let next: String = unsent.by_ref().take(new_replies).cloned().collect();
        stdin.write_all(next.as_bytes())?;
    }
    let time = start.elapsed();

    let mut missing: HashSet<u64> = ids.into_iter().collect();
    for line in std::str::from_utf8(&received)?.lines().filter(|line| is_reply(line)) {
        let reply: Value = serde_json::from_str(line)?;
        expect_echo(&reply)?;
        missing.remove(&reply["id"].as_u64().unwrap_or_default());
    }
    ensure!(missing.is_empty(), "{} calls were never answered", missing.len());
    Ok(calls as f64 / time.as_secs_f64())
}
