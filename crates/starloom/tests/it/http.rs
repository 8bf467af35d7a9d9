//! Clients over HTTP.

use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::{Value as Json, json};

use crate::support::{ECHO, Folder, PATIENCE, Server};

/// The address a server printed.
fn address(server: &Server) -> String {
    let line = server.logged("is ready at http://");
    let rest = line.split("http://").nth(1).expect("url");
    rest.split('/').next().expect("address").to_owned()
}

struct Answer {
    status: u16,
    head: String,
    body: String,
}

impl Answer {
    fn json(&self) -> Json {
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("not JSON: {}", self.body))
    }

    fn header(&self, name: &str) -> Option<String> {
        self.head.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name).then(|| value.trim().to_owned())
        })
    }
}

fn open(address: &str, method: &str, headers: &[(&str, &str)], body: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).expect("connect");
    stream.set_read_timeout(Some(PATIENCE)).expect("timeout");
    let mut request =
        format!("{method} /mcp HTTP/1.1\r\nConnection: close\r\nContent-Length: {}\r\n", body.len());
    if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
        request.push_str(&format!("Host: {address}\r\n"));
    }
    for (name, value) in headers {
        request.push_str(&format!("{name}: {value}\r\n"));
    }
    stream.write_all(format!("{request}\r\n{body}").as_bytes()).expect("write");
    stream
}

fn send(address: &str, method: &str, headers: &[(&str, &str)], body: &str) -> Answer {
    let mut text = String::new();
    open(address, method, headers, body).read_to_string(&mut text).expect("read");
    let (head, body) = text.split_once("\r\n\r\n").expect("head");
    let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).expect("status");
    Answer { status, head: head.to_owned(), body: body.to_owned() }
}

const JSON: [(&str, &str); 2] =
    [("Content-Type", "application/json"), ("Accept", "application/json, text/event-stream")];

fn post(address: &str, extra: &[(&str, &str)], body: &Json) -> Answer {
    send(address, "POST", &[&JSON, extra].concat(), &body.to_string())
}

fn initialize(address: &str, version: &str) -> String {
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}});
    let answer = post(address, &[], &body);
    assert_eq!(answer.status, 200);
    let session = answer.header("mcp-session-id").expect("session");
    let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    assert_eq!(post(address, &[("Mcp-Session-Id", &session)], &initialized).status, 202);
    session
}

fn request(method: &str, params: Json) -> Json {
    json!({"jsonrpc": "2.0", "id": 5, "method": method, "params": params})
}

#[test]
fn sessions_live_and_end() {
    let folder = Folder::new(&[("echo.star", ECHO)]);
    let server = Server::start(&folder, &[".", "--http", "--port", "0"]);
    let address = address(&server);
    let session = initialize(&address, "2025-06-18");
    let with_session = [("Mcp-Session-Id", session.as_str())];

    let call = request("tools/call", json!({"name": "echo", "arguments": {"message": "hi"}}));
    assert_eq!(post(&address, &with_session, &call).json()["result"]["content"][0]["text"], "hi");
    assert_eq!(post(&address, &[], &call).status, 400);
    assert_eq!(post(&address, &[("Mcp-Session-Id", "made-up")], &call).status, 404);
    let odd_version = [("Mcp-Session-Id", session.as_str()), ("MCP-Protocol-Version", "1.0")];
    assert_eq!(post(&address, &odd_version, &call).status, 400);

    // The stream tells of changes.
    let mut stream =
        open(&address, "GET", &[&with_session[..], &[("Accept", "text/event-stream")]].concat(), "");
    let mut seen = [0_u8; 4096];
    let mut text = String::new();
    while !text.contains("\r\n\r\n") {
        let count = stream.read(&mut seen).expect("head");
        text.push_str(&String::from_utf8_lossy(&seen[..count]));
    }
    folder.write("later.star", "def later():\n    \"\"\"L.\"\"\"\n    return 1\n");
    while !text.contains("notifications/tools/list_changed") {
        let count = stream.read(&mut seen).expect("event");
        assert!(count > 0, "the stream ended: {text}");
        text.push_str(&String::from_utf8_lossy(&seen[..count]));
    }

    assert_eq!(send(&address, "DELETE", &with_session, "").status, 204);
    assert_eq!(send(&address, "DELETE", &with_session, "").status, 404);
    assert_eq!(post(&address, &with_session, &call).status, 404);
    let mut server = server;
    server.signal(libc::SIGINT);
    assert_eq!(server.wait(), 0);
}

#[test]
fn bad_requests_are_told_what_is_wrong() {
    let folder = Folder::new(&[("echo.star", ECHO)]);
    let server = Server::start(&folder, &[".", "--http", "127.0.0.1:0"]);
    let address = address(&server);
    let session = initialize(&address, "2025-03-26");
    let with_session = ("Mcp-Session-Id", session.as_str());
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}).to_string();
    let code = |answer: &Answer| answer.json()["error"]["code"].as_i64();

    for (body, status, expected) in [
        ("{", 400, -32700),
        ("", 400, -32700),
        ("5", 400, -32600),
        (r#"{"jsonrpc":"2.0","id":1}"#, 400, -32600),
    ] {
        let answer = send(&address, "POST", &[&JSON[..], &[with_session]].concat(), body);
        assert_eq!((answer.status, code(&answer)), (status, Some(expected)), "{body:?}");
    }
    let text = [("Content-Type", "text/plain"), with_session];
    assert_eq!(send(&address, "POST", &text, &ping).status, 415);
    let html = [("Content-Type", "application/json"), ("Accept", "text/html"), with_session];
    assert_eq!(send(&address, "POST", &html, &ping).status, 406);
    let evil = [&JSON[..], &[with_session, ("Origin", "https://evil.example")]].concat();
    assert_eq!(send(&address, "POST", &evil, &ping).status, 403);
    let rebound = [&JSON[..], &[with_session, ("Host", "evil.example")]].concat();
    assert_eq!(send(&address, "POST", &rebound, &ping).status, 403);
    let large = format!("{{\"x\":\"{}\"}}", "x".repeat(17 << 20));
    assert_eq!(send(&address, "POST", &[&JSON[..], &[with_session]].concat(), &large).status, 413);
    // This session's revision has batches.
    let batch =
        json!([{"jsonrpc": "2.0", "id": 1, "method": "ping"}, {"jsonrpc": "2.0", "id": 2, "method": "nope"}]);
    let answer = post(&address, &[with_session], &batch).json();
    assert_eq!((&answer[0]["result"], &answer[1]["error"]["code"]), (&json!({}), &json!(-32601)));
    // Still there.
    assert_eq!(send(&address, "POST", &[&JSON[..], &[with_session]].concat(), &ping).status, 200);
}

#[test]
fn modern_requests_stand_for_themselves() {
    let folder = Folder::new(&[("echo.star", ECHO)]);
    let server = Server::start(&folder, &[".", "--http", "-p", "0"]);
    let address = address(&server);
    let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}});
    let call = request("tools/call", json!({"name": "echo", "arguments": {"message": "hi"}, "_meta": meta}));
    let headers =
        |method, name| [("MCP-Protocol-Version", "2026-07-28"), ("Mcp-Method", method), ("Mcp-Name", name)];

    let answer = post(&address, &headers("tools/call", "echo"), &call);
    assert_eq!((answer.status, &answer.json()["result"]["resultType"]), (200, &json!("complete")));
    assert_eq!(answer.header("mcp-session-id"), None);
    for (extra, message, status, code) in [
        (headers("tools/call", "other").to_vec(), &call, 400, -32020),
        (headers("tools/list", "echo").to_vec(), &call, 400, -32020),
        (vec![("MCP-Protocol-Version", "2026-07-28"), ("Mcp-Method", "tools/call")], &call, 400, -32020),
        (vec![("Mcp-Method", "tools/call"), ("Mcp-Name", "echo")], &call, 400, -32020),
    ] {
        let answer = post(&address, &extra, message);
        assert_eq!(
            (answer.status, answer.json()["error"]["code"].as_i64()),
            (status, Some(code)),
            "{extra:?}"
        );
    }
    let unknown = request("nope", json!({"_meta": meta}));
    let answer = post(&address, &headers("nope", ""), &unknown);
    assert_eq!((answer.status, answer.json()["error"]["code"].as_i64()), (404, Some(-32601)));
    let without_meta = request("tools/list", json!({}));
    let answer = post(&address, &headers("tools/list", ""), &without_meta);
    assert_eq!((answer.status, answer.json()["error"]["code"].as_i64()), (400, Some(-32602)));
}

#[test]
fn it_listens_only_where_it_is_safe() {
    let folder = Folder::new(&[("echo.star", ECHO)]);
    let ran = folder.run(&["serve", ".", "--http", "0.0.0.0:0"]);
    expect_test::expect![[r#"
        exit 3
        --- stdout
        --- stderr
        error: `0.0.0.0:0` can be reached from other machines, and nothing there checks who is calling
        hint: listen on 127.0.0.1, or name the host clients use in `http.allowedHosts`
    "#]]
    .assert_eq(&ran.all());
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("bind");
    let port = taken.local_addr().expect("address").port().to_string();
    let ran = folder.run(&["serve", ".", "--http", "-p", &port]);
    assert_eq!(ran.code, 1);
    assert!(ran.stderr.contains("hint: choose another port with `-p`; 0 takes a free one"), "{}", ran.stderr);
}
