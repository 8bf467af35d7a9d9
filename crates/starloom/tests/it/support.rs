//! A folder of scripts, the real binary, and a client that never waits for ever.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::{Value as Json, json};

/// Long enough for a loaded machine; a test that needs it has failed.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// A folder of its own, with a home of its own, gone at the end.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new(files: &[(&str, &str)]) -> Folder {
        let path = std::env::temp_dir().join(format!("starloom-it-{}", uuid::Uuid::new_v4()));
        std::fs::create_dir_all(&path).expect("folder");
        // As file events and error messages spell it.
        let folder = Folder(path.canonicalize().expect("path"));
        for (name, text) in files {
            folder.write(name, text);
        }
        folder
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    pub fn write(&self, name: &str, text: &str) {
        let path = self.0.join(name);
        std::fs::create_dir_all(path.parent().expect("parent")).expect("folder");
        std::fs::write(path, text).expect("write");
    }

    pub fn remove(&self, name: &str) {
        std::fs::remove_file(self.0.join(name)).expect("remove");
    }

    /// The binary, in this folder, with nothing of the person who runs the tests.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_starloom"));
        command.args(args).current_dir(&self.0);
        for name in ["STARLOOM_CONFIG", "STARLOOM_URL", "STARLOOM_DEBUG", "RUST_LOG"] {
            command.env_remove(name);
        }
        command.env("HOME", &self.0).env("XDG_STATE_HOME", self.0.join("state")).env("NO_COLOR", "1");
        command
    }

    pub fn run(&self, args: &[&str]) -> Ran {
        let output = self.command(args).stdin(Stdio::null()).output().expect("run");
        Ran::new(output, &self.0)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// What a command printed, with the folder's path replaced.
pub struct Ran {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Ran {
    fn new(output: Output, folder: &Path) -> Ran {
        let text =
            |bytes: &[u8]| String::from_utf8_lossy(bytes).replace(&folder.display().to_string(), "$DIR");
        Ran {
            code: output.status.code().unwrap_or(-1),
            stdout: text(&output.stdout),
            stderr: text(&output.stderr),
        }
    }

    /// Exit code, stdout and stderr in one text, for snapshots.
    pub fn all(&self) -> String {
        format!("exit {}\n--- stdout\n{}--- stderr\n{}", self.code, self.stdout, self.stderr)
    }
}

/// A server on stdio.
pub struct Server {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
    next_id: u64,
    pub log: Receiver<String>,
}

fn lines_of(stream: impl std::io::Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(stream).lines() {
            let Ok(line) = line else { return };
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    receiver
}

impl Server {
    pub fn start(folder: &Folder, args: &[&str]) -> Server {
        let mut child = folder
            .command(&[&["serve"], args].concat())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("start");
        let lines = lines_of(child.stdout.take().expect("stdout"));
        let log = lines_of(child.stderr.take().expect("stderr"));
        let stdin = child.stdin.take();
        Server { child, stdin, lines, next_id: 0, log }
    }

    /// Started and initialized.
    pub fn ready(folder: &Folder, args: &[&str]) -> Server {
        let mut server = Server::start(folder, args);
        server.initialize("2025-11-25");
        server
    }

    pub fn initialize(&mut self, version: &str) -> Json {
        let params = json!({
            "protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "test", "version": "1"},
        });
        let answer = self.request("initialize", params);
        self.send_line(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
        answer
    }

    pub fn send_line(&mut self, line: &str) {
        let stdin = self.stdin.as_mut().expect("open");
        stdin.write_all(line.as_bytes()).expect("write");
        stdin.write_all(b"\n").expect("write");
        stdin.flush().expect("flush");
    }

    pub fn send_bytes(&mut self, bytes: &[u8]) {
        let stdin = self.stdin.as_mut().expect("open");
        stdin.write_all(bytes).expect("write");
        stdin.flush().expect("flush");
    }

    pub fn next_line(&self) -> String {
        self.lines.recv_timeout(PATIENCE).expect("an answer")
    }

    pub fn next(&self) -> Json {
        serde_json::from_str(&self.next_line()).expect("JSON")
    }

    pub fn send_request(&mut self, method: &str, params: Json) -> u64 {
        self.next_id += 1;
        let message = json!({"jsonrpc": "2.0", "id": self.next_id, "method": method, "params": params});
        self.send_line(&message.to_string());
        self.next_id
    }

    /// The answer to a request; notifications before it are dropped.
    pub fn request(&mut self, method: &str, params: Json) -> Json {
        let id = self.send_request(method, params);
        self.answer_to(id)
    }

    pub fn answer_to(&self, id: u64) -> Json {
        loop {
            let message = self.next();
            if message.get("id") == Some(&json!(id)) {
                return message;
            }
        }
    }

    pub fn call(&mut self, tool: &str, arguments: Json) -> Json {
        let answer = self.request("tools/call", json!({"name": tool, "arguments": arguments}));
        answer.get("result").cloned().unwrap_or(answer)
    }

    /// The text of a tool's first block.
    pub fn call_text(&mut self, tool: &str, arguments: Json) -> String {
        let result = self.call(tool, arguments);
        result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no text in {result}")).to_owned()
    }

    pub fn tool_names(&mut self) -> Vec<String> {
        let answer = self.request("tools/list", json!({}));
        let tools = answer["result"]["tools"].as_array().expect("tools");
        tools.iter().map(|tool| tool["name"].as_str().expect("name").to_owned()).collect()
    }

    /// Waits for `notifications/tools/list_changed`.
    pub fn list_changed(&self) {
        loop {
            if self.next()["method"] == "notifications/tools/list_changed" {
                return;
            }
        }
    }

    /// Waits for a line in the log that contains the text.
    pub fn logged(&self, text: &str) -> String {
        loop {
            let line = self.log.recv_timeout(PATIENCE).expect("a line in the log");
            if line.contains(text) {
                return line;
            }
        }
    }

    /// Whether anything is waiting to be read.
    pub fn is_silent(&self) -> bool {
        self.lines.try_recv().is_err()
    }

    /// Closes the input and waits for the end.
    pub fn finish(mut self) -> i32 {
        drop(self.stdin.take());
        self.wait()
    }

    pub fn signal(&self, signal: i32) {
        // SAFETY: a plain system call on our own child.
        unsafe { libc::kill(self.child.id() as i32, signal) };
    }

    pub fn wait(&mut self) -> i32 {
        let deadline = std::time::Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().expect("wait") {
                return status.code().unwrap_or(-1);
            }
            assert!(std::time::Instant::now() < deadline, "the server does not end");
            std::thread::yield_now();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Tools most tests need.
pub const ECHO: &str = r#"
def _echo(params):
    return {"content": [{"type": "text", "text": params["message"]}]}

def _spin(params):
    for _ in range(2000000000):
        pass

def describe_extension():
    return Extension(name = "echo", version = "1.0.0", description = "Echo", tools = [
        Tool(name = "echo", description = "Echo a message", handler = _echo, parameters = [
            ToolParameter(name = "message", param_type = "string", required = True, description = "What to say"),
        ]),
        Tool(name = "wait", description = "Waits", timeout = 600, handler = lambda params: sleep(500)),
        Tool(name = "spin", description = "Spins", timeout = 600, handler = _spin),
        Tool(name = "late", description = "Spins too long", timeout = 0.2, handler = _spin),
    ])
"#;
