//! `sleepers` and `spinner`: slow and runaway handlers must not be felt by others.

use std::io::{BufRead, BufReader, Write};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::Bench;
use super::calls::{echo_latencies, echo_p99_over};
use super::client::{Client, call_line, expect_success, is_reply};
use super::report::Finding;
use super::statistics::{median, median_ratio, show_megabytes, show_seconds};

pub fn sleepers(bench: &Bench) -> Result<Finding> {
    const CALLS: usize = 1_000;
    let mut client = bench.starloom_echo().connect()?;
    let lines: String =
        (0..CALLS).map(|_| call_line(client.take_id(), "sleeper", &json!({})) + "\n").collect();
    let (stdin, stdout) = client.pipes();
    let mut stdout = BufReader::new(stdout);
    let start = Instant::now();
    // Written beside the reading: neither side may wait for the other's full pipe.
    let replies = thread::scope(|scope| -> Result<Vec<String>> {
        let writer = scope.spawn(|| stdin.write_all(lines.as_bytes()));
        let mut replies = Vec::new();
        while replies.len() < CALLS {
            let mut line = String::new();
            ensure!(stdout.read_line(&mut line)? > 0, "starloom ended after {} replies", replies.len());
            if is_reply(&line) {
                replies.push(line);
            }
        }
        writer.join().expect("the writer does not panic")?;
        Ok(replies)
    })?;
    let time = start.elapsed().as_secs_f64();
    drop(stdout);
    let peak = client.memory("VmHWM")?;
    for reply in replies {
        expect_success(&serde_json::from_str(&reply)?)?;
    }
    Ok(Finding {
        starloom: format!("{}, {}", show_seconds(time), show_megabytes(peak)),
        peers: "–".to_owned(),
        ratio: "–".to_owned(),
        ok: time < 1.5 && peak < 100_000_000,
    })
}

pub fn spinner(bench: &Bench) -> Result<Finding> {
    const ROUNDS: usize = 5;
    const WINDOW: Duration = Duration::from_secs(2);
    const LIMIT_OF_THE_SPINNER: Duration = Duration::from_secs(5);
    let mut client = bench.starloom_echo().connect()?;
    echo_latencies(&mut client, 200)?;
    let mut idle = Vec::new();
    let mut beside_the_spinner = Vec::new();
    let mut slowest_end = Duration::ZERO;
    for _ in 0..bench.rounds(ROUNDS) {
        idle.push(echo_p99_over(&mut client, WINDOW)?);
        let start = Instant::now();
        let id = client.send_call("spinner", json!({}))?;
        beside_the_spinner.push(echo_p99_over(&mut client, WINDOW).context("a call beside the spinner")?);
        let reply = wait_for_reply(&mut client, id)?;
        let end = start.elapsed();
        ensure!(reply["result"]["isError"] == true, "the spinner was not stopped: {reply}");
        ensure!(end + Duration::from_millis(500) > LIMIT_OF_THE_SPINNER, "the spinner ended early: {reply}");
        slowest_end = slowest_end.max(end);
    }
    let ratio = median_ratio(&beside_the_spinner, &idle);
    Ok(Finding {
        starloom: format!(
            "{} (idle: {}), ends after {}",
            show_seconds(median(&beside_the_spinner)),
            show_seconds(median(&idle)),
            show_seconds(slowest_end.as_secs_f64()),
        ),
        peers: "–".to_owned(),
        ratio: format!("{ratio:.2} × idle"),
        ok: ratio <= 3.0 && slowest_end <= LIMIT_OF_THE_SPINNER + Duration::from_secs(1),
    })
}

fn wait_for_reply(client: &mut Client, id: u64) -> Result<Value> {
    loop {
        let message = client.read_message()?;
        if message["id"].as_u64() == Some(id) {
            return Ok(message);
        }
    }
}
