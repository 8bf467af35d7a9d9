//! The protocol over stdio, message by message.

use serde_json::{Value as Json, json};

use crate::support::{ECHO, Folder, Server};

/// A line and what must come back: the id and either a code or the keys of the result.
fn check(server: &mut Server, line: &str, expected: &str) {
    server.send_line(line);
    let answer = server.next();
    let shown = match (answer.get("result"), answer.get("error")) {
        (Some(Json::Object(result)), None) => result.keys().cloned().collect::<Vec<_>>().join(","),
        (None, Some(error)) => error["code"].to_string(),
        _ => panic!("neither result nor error: {answer}"),
    };
    assert_eq!(format!("{} {shown}", answer["id"]), expected, "for {line:.200}\n{answer}");
}

#[test]
fn every_line_gets_its_answer_and_the_server_lives_on() {
    let folder = Folder::new(&[("echo.star", ECHO)]);
    let mut server = Server::start(&folder, &["."]);
    // Before `initialize`: only ping and lifecycle.
    check(&mut server, r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#, "1 ");
    check(&mut server, r#"{"jsonrpc":"2.0","id":2,"method":"tools/list"}"#, "2 -32600");
    check(&mut server, r#"{"jsonrpc":"2.0","id":3,"method":"initialize"}"#, "3 -32602");
    check(
        &mut server,
        r#"{"jsonrpc":"2.0","id":4,"method":"initialize","params":{"protocolVersion":7}}"#,
        "4 -32602",
    );
    check(&mut server, "{", "null -32700");
    let initialize = r#"{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}"#;
    check(&mut server, initialize, "\"i\" protocolVersion,capabilities,serverInfo");
    check(&mut server, r#"{"jsonrpc":"2.0","id":5,"method":"tools/list"}"#, "5 -32600");
    check(&mut server, r#"{"jsonrpc":"2.0","id":6,"method":"ping"}"#, "6 ");
    server.send_line(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);

    let deep = format!(r#"{{"jsonrpc":"2.0","id":9,"method":"ping","params":{}}}"#, "[".repeat(500));
    for (line, expected) in [
        (initialize, "\"i\" -32600"),
        ("nonsense", "null -32700"),
        ("\"text\"", "null -32600"),
        ("[]", "null -32600"),
        (r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#, "null -32600"),
        (deep.as_str(), "null -32700"),
        (r#"{"jsonrpc":"2.0","id":1,"method":"nope"}"#, "1 -32601"),
        (r#"{"jsonrpc":"2.0","id":0,"method":"ping"}"#, "0 "),
        (
            r#"{"jsonrpc":"2.0","id":123456789012345678901234567890,"method":"ping"}"#,
            "123456789012345678901234567890 ",
        ),
        (r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#, "null -32600"),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":null}"#, "1 tools,_meta"),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":[]}"#, "1 -32602"),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":"x"}}"#, "1 -32602"),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":5}}"#, "1 -32602"),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tools/call"}"#, "1 -32602"),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":5}}"#, "1 -32602"),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":[]}}"#,
            "1 -32602",
        ),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"nope"}}"#, "1 -32602"),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo"}}"#, "1 content,isError"),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"message":"x"}}}"#,
            "1 content",
        ),
    ] {
        check(&mut server, line, expected);
    }
    server.send_line("");
    server.send_line(r#"{"jsonrpc":"2.0","method":"notifications/whatever","params":[1]}"#);
    server.send_line(r#"{"jsonrpc":"2.0","id":99,"result":{}}"#);
    server.send_bytes(b"\xff\xfe invalid\n");
    assert_eq!(server.next()["error"]["code"], -32700);
    // A line too long to keep, without a newline for 40 MB.
    server.send_bytes(&vec![b'x'; 40 << 20]);
    server.send_bytes(b"\n");
    assert_eq!(server.next()["error"]["code"], -32600);
    check(&mut server, "\u{feff}  {\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"ping\"} \r", "7 ");
    assert_eq!(server.finish(), 0);
}

#[test]
fn versions_are_negotiated() {
    let folder = Folder::new(&[("echo.star", ECHO)]);
    for (asked, answered) in [
        ("2024-11-05", "2024-11-05"),
        ("2025-03-26", "2025-03-26"),
        ("2025-06-18", "2025-06-18"),
        ("2025-11-25", "2025-11-25"),
        ("2026-07-28", "2025-11-25"),
        ("1999-01-01", "2025-11-25"),
    ] {
        let mut server = Server::start(&folder, &["."]);
        assert_eq!(server.initialize(asked)["result"]["protocolVersion"], answered);
    }
}

#[test]
fn modern_requests_need_no_initialize() {
    let folder = Folder::new(&[("echo.star", ECHO)]);
    let mut server = Server::start(&folder, &["."]);
    let meta = |version: &str| json!({"io.modelcontextprotocol/protocolVersion": version, "io.modelcontextprotocol/clientCapabilities": {}});
    let discovered = server.request("server/discover", json!({"_meta": meta("2026-07-28")}));
    assert_eq!(discovered["result"]["supportedVersions"][0], "2026-07-28");
    let listed = server.request("tools/list", json!({"_meta": meta("2026-07-28")}));
    assert_eq!(listed["result"]["resultType"], "complete");
    assert!(listed["result"]["ttlMs"].is_number());
    let called = server.request(
        "tools/call",
        json!({"name": "echo", "arguments": {"message": "hi"}, "_meta": meta("2026-07-28")}),
    );
    assert_eq!(called["result"]["content"][0]["text"], "hi");
    assert_eq!(called["result"]["resultType"], "complete");
    let refused = server.request("tools/list", json!({"_meta": meta("2099-01-01")}));
    assert_eq!(refused["error"]["code"], -32022);
    assert_eq!(refused["error"]["data"]["supported"], json!(["2026-07-28"]));
    let incomplete = server
        .request("tools/list", json!({"_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}}));
    assert_eq!(incomplete["error"]["code"], -32602);
}

#[test]
fn batches_exist_in_their_one_revision() {
    let folder = Folder::new(&[("echo.star", ECHO)]);
    let mut server = Server::start(&folder, &["."]);
    server.initialize("2025-03-26");
    server.send_line(
        r#"[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","method":"notifications/x"},7,
           {"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"echo","arguments":{"message":"m"}}}]"#
            .replace('\n', "")
            .as_str(),
    );
    let answer = server.next();
    let ids: Vec<&Json> = answer.as_array().expect("a batch").iter().map(|one| &one["id"]).collect();
    assert_eq!(ids, [&json!(1), &Json::Null, &json!(2)]);
    assert_eq!(answer[2]["result"]["content"][0]["text"], "m");
    // Only notifications: no answer at all.
    server.send_line(r#"[{"jsonrpc":"2.0","method":"notifications/x"}]"#);
    assert_eq!(server.request("ping", json!({}))["result"], json!({}));
}

#[test]
fn calls_run_side_by_side_and_cancelling_one_stops_it_silently() {
    let folder = Folder::new(&[("echo.star", ECHO)]);
    let mut server = Server::ready(&folder, &["."]);
    for tool in ["wait", "spin"] {
        let slow = server.send_request("tools/call", json!({"name": tool}));
        assert_eq!(server.call_text("echo", json!({"message": "meanwhile"})), "meanwhile");
        // `"1"` is not `1`.
        server.send_line(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": slow.to_string()}}).to_string());
        server.send_line(
            &json!({"jsonrpc": "2.0", "id": slow, "method": "tools/call", "params": {"name": "echo"}})
                .to_string(),
        );
        assert_eq!(server.next()["error"]["code"], -32600, "the id is still in use");
        server.send_line(
            &json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": slow}})
                .to_string(),
        );
        assert_eq!(server.request("ping", json!({}))["result"], json!({}));
    }
    assert!(server.is_silent());
    // With both stopped, the end of input ends the server well before the grace period.
    assert_eq!(server.finish(), 0);
}

#[test]
fn a_limit_names_itself_and_how_to_raise_it() {
    let folder = Folder::new(&[("echo.star", ECHO)]);
    let mut server = Server::ready(&folder, &["."]);
    let result = server.call("late", json!({}));
    assert_eq!(result["isError"], true);
    assert_eq!(
        result["content"][0]["text"],
        "`late` was stopped: took longer than 0.2 s (hint: raise `timeout` on the tool (up to 600 s) or `limits.timeout` in the config)"
    );
}

#[test]
fn lists_come_in_pages_whose_cursors_survive_a_reload() {
    let many: String =
        (0..25).map(|n| format!("def tool_{n:02}():\n    \"\"\"Tool.\"\"\"\n    return {n}\n\n")).collect();
    let folder =
        Folder::new(&[("many.star", &many), ("starloom.yaml", "pageSize: 10\npaths: [many.star]\n")]);
    let mut server = Server::ready(&folder, &[]);
    let first = server.request("tools/list", json!({}));
    assert_eq!(first["result"]["tools"].as_array().expect("tools").len(), 10);
    assert_eq!(first["result"]["_meta"]["starloom/total"], 25);
    let cursor = first["result"]["nextCursor"].clone();
    folder.write("many.star", &format!("{many}\ndef one_more():\n    \"\"\"More.\"\"\"\n    return 1\n"));
    server.list_changed();
    let second = server.request("tools/list", json!({"cursor": cursor}));
    assert_eq!(second["result"]["tools"][0]["name"], "tool_10");
    let third = server.request("tools/list", json!({"cursor": second["result"]["nextCursor"]}));
    assert_eq!(third["result"]["tools"].as_array().expect("tools").len(), 6);
    assert_eq!(third["result"].get("nextCursor"), None);
    // The tool a cursor names is gone: say so.
    folder.write("many.star", "def other():\n    \"\"\"Other.\"\"\"\n    return 1\n");
    server.list_changed();
    assert_eq!(server.request("tools/list", json!({"cursor": cursor}))["error"]["code"], -32602);
}

#[test]
fn signals_end_the_server_and_what_runs() {
    let folder =
        Folder::new(&[("echo.star", ECHO), ("starloom.yaml", "limits: {grace: 0.2}\npaths: [echo.star]\n")]);
    let mut server = Server::ready(&folder, &[]);
    server.send_request("tools/call", json!({"name": "wait"}));
    server.send_request("tools/call", json!({"name": "spin"}));
    assert_eq!(server.call_text("echo", json!({"message": "x"})), "x");
    server.signal(libc::SIGTERM);
    assert_eq!(server.wait(), 0);
}

#[test]
fn arguments_are_checked_all_at_once() {
    let folder = Folder::new(&[(
        "forms.star",
        r##"
def _show(params):
    return json.encode(params)

def describe_extension():
    return Extension(name = "forms", version = "1", description = "d", tools = [
        Tool(name = "form", description = "d", handler = _show, parameters = [
            ToolParameter(name = "city", param_type = "string", required = True, description = ""),
            ToolParameter(name = "limit", param_type = "integer", required = False, default = 10, description = "", minimum = 1, maximum = 50),
            ToolParameter(name = "deep", param_type = "boolean", required = False, default = "true", description = ""),
            ToolParameter(name = "unit", param_type = "string", required = False, description = "", enum = ["c", "f"]),
            ToolParameter(name = "tags", param_type = "array", required = False, description = "", items = "string"),
            ToolParameter(name = "ratio", param_type = "number", required = False, description = ""),
        ]),
        Tool(name = "loose", description = "d", handler = _show, strict_args = False, parameters = [
            ToolParameter(name = "a", param_type = "any", required = False, description = ""),
        ]),
        Tool(name = "raw", description = "d", handler = _show, input_schema = {
            "properties": {"p": {"$ref": "#/$defs/point"}}, "required": ["p"],
            "$defs": {"point": {"type": "object", "properties": {"x": {"type": "number"}}, "required": ["x"]}},
        }),
    ])
"##,
    )]);
    let mut server = Server::ready(&folder, &["."]);
    for (tool, arguments, expected) in [
        ("form", json!({"city": "Oslo"}), r#"{"city":"Oslo","limit":10,"deep":true}"#),
        (
            "form",
            json!({"city": "Oslo", "limit": "5", "deep": "False", "ratio": "1.5"}),
            r#"{"city":"Oslo","limit":5,"deep":false,"ratio":1.5}"#,
        ),
        (
            "form",
            json!({"city": "Oslo", "limit": null, "unit": null}),
            r#"{"city":"Oslo","limit":10,"deep":true}"#,
        ),
        (
            "form",
            json!({"city": "Oslo", "tags": "[\"a\"]"}),
            r#"{"city":"Oslo","tags":["a"],"limit":10,"deep":true}"#,
        ),
        (
            "form",
            json!({"cty": "Oslo", "limit": 99, "unit": "k", "tags": ["a", 5]}),
            "Invalid arguments for `form`:\n- $.cty: unknown argument, did you mean `city`?\n- $: \"city\" is a required property\n- $.limit: 99 is greater than the maximum of 50\n- $.unit: \"k\" is not one of \"c\", \"f\"\n- $.tags[1]: 5 is not of type \"string\"",
        ),
        ("loose", json!({"a": 1, "b": 2}), r#"{"a":1,"b":2}"#),
        ("raw", json!({"p": {"x": 1.5}}), r#"{"p":{"x":1.5}}"#),
        ("raw", json!({"p": {}}), "Invalid arguments for `raw`:\n- $.p: \"x\" is a required property"),
    ] {
        assert_eq!(server.call_text(tool, arguments.clone()), expected, "{tool} {arguments}");
    }
}

#[test]
fn results_take_their_shape() {
    let folder = Folder::new(&[(
        "shapes.star",
        r#"
CASES = {
    "text": "hello",
    "none": None,
    "number": 9999999999,
    "list": [1, 2],
    "dict": {"b": 1, "a": 1.5},
    "full": {"content": [text("x"), image("aGk=")], "isError": False, "structuredContent": {"k": 1}},
    "structured_list": {"content": [text("x")], "structuredContent": [1]},
    "only_structured": {"structuredContent": {"k": 1}},
    "bad_text": {"content": [{"type": "text", "text": 5}]},
    "bad_type": {"content": [{"type": "txt", "text": ""}], "isError": False},
    "bad_content": {"content": "x", "isError": True},
    "error": error_result("no"),
}

def _make(case):
    return lambda params: CASES[case]

def describe_extension():
    return Extension(name = "shapes", version = "1", description = "d", tools = [
        Tool(name = case, description = "d", handler = _make(case)) for case in CASES
    ] + [
        Tool(name = "checked", description = "d", handler = lambda p: {"n": "x"}, output_schema = {"type": "object", "properties": {"n": {"type": "integer"}}}),
        Tool(name = "nan", description = "d", handler = lambda p: {"x": [float("nan")]}),
        Tool(name = "protocol", description = "d", handler = lambda p: mcp_error(-32050, "custom", {"k": 1})),
        Tool(name = "nested", description = "d", handler = lambda p: call_tool("shapes/text")),
        Tool(name = "nested_unknown", description = "d", handler = lambda p: call_tool("nope")),
        Tool(name = "for_ever", description = "d", handler = lambda p: call_tool("for_ever")),
    ])
"#,
    )]);
    let mut server = Server::ready(&folder, &["."]);
    for (tool, expected) in [
        ("text", r#"{"content":[{"type":"text","text":"hello"}]}"#),
        ("none", r#"{"content":[{"type":"text","text":""}]}"#),
        ("number", r#"{"content":[{"type":"text","text":"9999999999"}]}"#),
        ("list", r#"{"content":[{"type":"text","text":"[1,2]"}]}"#),
        (
            "dict",
            r#"{"content":[{"type":"text","text":"{\"b\":1,\"a\":1.5}"}],"structuredContent":{"b":1,"a":1.5}}"#,
        ),
        (
            "full",
            r#"{"content":[{"type":"text","text":"x"},{"type":"image","data":"aGk=","mimeType":"image/png"}],"isError":false,"structuredContent":{"k":1}}"#,
        ),
        ("structured_list", r#"{"content":[{"type":"text","text":"x"}],"structuredContent":{"result":[1]}}"#),
        (
            "only_structured",
            r#"{"content":[{"type":"text","text":"{\"k\":1}"}],"structuredContent":{"k":1}}"#,
        ),
        (
            "bad_text",
            r#"{"content":[{"type":"text","text":"`bad_text` returned a malformed result: content[0].text must be a string, not a number"}],"isError":true}"#,
        ),
        (
            "bad_type",
            r#"{"content":[{"type":"text","text":"`bad_type` returned a malformed result: content[0].type `txt` is unknown, did you mean `text`?"}],"isError":true}"#,
        ),
        (
            "bad_content",
            r#"{"content":[{"type":"text","text":"`bad_content` returned a malformed result: `content` must be a list, not a string"}],"isError":true}"#,
        ),
        ("error", r#"{"content":[{"type":"text","text":"no"}],"isError":true}"#),
        (
            "checked",
            r#"{"content":[{"type":"text","text":"`checked` returned a result that does not match its output schema: structuredContent/n: \"x\" is not of type \"integer\""}],"isError":true}"#,
        ),
        (
            "nan",
            r#"{"content":[{"type":"text","text":"the result at $.x[0]: JSON has no `nan`"}],"isError":true}"#,
        ),
        ("nested", r#"{"content":[{"type":"text","text":"hello"}]}"#),
        (
            "nested_unknown",
            r#"{"content":[{"type":"text","text":"Unknown tool: nope. Did you mean `none`?"}],"isError":true}"#,
        ),
        (
            "for_ever",
            r#"{"content":[{"type":"text","text":"tools call each other more than 8 deep"}],"isError":true}"#,
        ),
    ] {
        assert_eq!(server.call(tool, json!({})).to_string(), expected, "{tool}");
    }
    let answer = server.request("tools/call", json!({"name": "protocol"}));
    assert_eq!(answer["error"], json!({"code": -32050, "message": "custom", "data": {"k": 1}}));
}
