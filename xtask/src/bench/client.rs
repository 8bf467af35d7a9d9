//! The measuring client, the same for every server: newline-delimited JSON-RPC
//! over the child's stdio, with blocking reads and writes and no thread in between.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use serde_json::{Value, json};

/// No measurement lets one server live longer: after this it hangs and is ended.
const LIFETIME: Duration = Duration::from_secs(300);

pub struct Client {
    server: &'static str,
    child: Child,
    spawned_at: Instant,
    log: PathBuf,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    watchdog: Option<Watchdog>,
    next_id: u64,
}

impl Client {
    pub fn new(server: &'static str, mut child: Child, spawned_at: Instant, log: PathBuf) -> Client {
        let stdin = child.stdin.take().expect("it was started with a pipe");
        let stdout =
            BufReader::with_capacity(1 << 16, child.stdout.take().expect("it was started with a pipe"));
        let watchdog = Some(Watchdog::start(child.id()));
        Client { server, child, spawned_at, log, stdin, stdout, watchdog, next_id: 1 }
    }

    pub fn spawned_at(&self) -> Instant {
        self.spawned_at
    }

    /// Returns when the reply is here and `notifications/initialized` is on its way.
    pub fn initialize(&mut self) -> Result<()> {
        self.request_initialize()?;
        self.confirm_initialized()
    }

    pub fn request_initialize(&mut self) -> Result<()> {
        let params = json!({
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "starloom-bench", "version": "1"},
        });
        self.request("initialize", params)?;
        Ok(())
    }

    pub fn confirm_initialized(&mut self) -> Result<()> {
        self.send_line(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#)
    }

    /// The names on the first page.
    pub fn list_tools(&mut self) -> Result<Vec<String>> {
        Ok(self.list_page(None)?.0)
    }

    /// The names on all pages.
    pub fn list_all_tools(&mut self) -> Result<Vec<String>> {
        let (mut names, mut cursor) = self.list_page(None)?;
        while let Some(at) = cursor {
            let (more, next) = self.list_page(Some(&at))?;
            names.extend(more);
            cursor = next;
        }
        Ok(names)
    }

    fn list_page(&mut self, cursor: Option<&str>) -> Result<(Vec<String>, Option<String>)> {
        let params = cursor.map_or(json!({}), |cursor| json!({"cursor": cursor}));
        let result = self.request("tools/list", params)?;
        let tools = result["tools"].as_array().context("the `tools/list` reply has no `tools`")?;
        let names = tools.iter().filter_map(|tool| tool["name"].as_str()).map(str::to_owned).collect();
        Ok((names, result["nextCursor"].as_str().map(str::to_owned)))
    }

    /// Sends a request and waits for its result; what else arrives meanwhile is passed over.
    pub fn request(&mut self, method: &str, params: Value) -> Result<Value> {
        let id = self.take_id();
        self.send_line(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string())?;
        loop {
            let mut message = self.read_message()?;
            if message["id"].as_u64() != Some(id) {
                continue;
            }
            ensure!(
                message.get("error").is_none(),
                "{} answers `{method}` with {}",
                self.server,
                message["error"]
            );
            return Ok(message["result"].take());
        }
    }

    /// Sends `tools/call` without waiting, and returns its id.
    pub fn send_call(&mut self, tool: &str, arguments: Value) -> Result<u64> {
        let id = self.take_id();
        self.send_line(&call_line(id, tool, &arguments))?;
        Ok(id)
    }

    pub fn take_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id - 1
    }

    pub fn send_line(&mut self, line: &str) -> Result<()> {
        // One write, so that the server never wakes up for half a line.
        let written = self.stdin.write_all(format!("{line}\n").as_bytes());
        written.map_err(|error| self.explain(&format!("it does not read: {error}")))
    }

    /// Appends one line, with its end, to `buffer`.
    pub fn read_line(&mut self, buffer: &mut String) -> Result<()> {
        match self.stdout.read_line(buffer) {
            Ok(0) => Err(self.explain("it closed its stdout")),
            Ok(_) => Ok(()),
            Err(error) => Err(self.explain(&format!("it cannot be read: {error}"))),
        }
    }

    pub fn read_message(&mut self) -> Result<Value> {
        let mut line = String::new();
        self.read_line(&mut line)?;
        serde_json::from_str(&line)
            .with_context(|| format!("{} sent a line that is not JSON: {line}", self.server))
    }

    /// The pipes themselves, for a measurement that has its own way with them.
    pub fn pipes(&mut self) -> (&mut ChildStdin, &mut impl Read) {
        (&mut self.stdin, &mut self.stdout)
    }

    /// A field of `/proc/PID/status` in bytes: `VmRSS`, `VmHWM`.
    pub fn memory(&self, field: &str) -> Result<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
        let kibibytes = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
        Ok(kibibytes.with_context(|| format!("no `{field}` in the status of {}", self.server))? * 1024)
    }

    fn explain(&mut self, problem: &str) -> anyhow::Error {
        // Give a server that is about to end the time to say why.
        thread::sleep(Duration::from_millis(100));
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        let last_lines: Vec<&str> = log.lines().rev().take(5).collect();
        let last_lines: Vec<&str> = last_lines.into_iter().rev().collect();
        match self.child.try_wait() {
            Ok(Some(status)) => anyhow!("{} ended, {status}: {}", self.server, last_lines.join(" / ")),
            _ => anyhow!("{}: {problem}: {}", self.server, last_lines.join(" / ")),
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // First the watchdog: once the child is reaped its id may be another's.
        self.watchdog.take();
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn call_line(id: u64, tool: &str, arguments: &Value) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"{tool}","arguments":{arguments}}}}}"#
    )
}

/// Notifications and requests of the server have a `method`, replies do not.
/// For lines whose texts are ours, so that a look is enough.
pub fn is_reply(line: &str) -> bool {
    !line.contains(r#""method""#)
}

/// Fails unless the message is the successful result of the call `id`.
pub fn expect_success(message: &Value) -> Result<()> {
    if message.get("error").is_some() || message["result"]["isError"].as_bool() == Some(true) {
        bail!("a call failed: {message}");
    }
    ensure!(message["result"]["content"].is_array(), "not the result of a call: {message}");
    Ok(())
}

/// Ends a server that hangs, so that the blocking read returns.
struct Watchdog {
    stop: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Watchdog {
    fn start(pid: u32) -> Watchdog {
        let (stop, stopped) = mpsc::channel();
        let thread = thread::spawn(move || {
            if stopped.recv_timeout(LIFETIME) == Err(mpsc::RecvTimeoutError::Timeout) {
                // SAFETY: a system call; the client reaps the child only after this thread has ended.
                unsafe { libc::kill(pid as libc::pid_t, libc::SIGKILL) };
            }
        });
        Watchdog { stop: Some(stop), thread: Some(thread) }
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.stop.take();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
