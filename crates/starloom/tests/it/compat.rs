//! Files written for starlark-mcp, in all the ways its users write them.

use serde_json::json;

use crate::support::{Folder, Server};

const OLD: &str = r#"
load_time = time.now()

def get_fact(params):
    count = params.get("count", 1)
    data = {"shadow": "of the module"}
    return {"content": [{"type": "text", "text": "%d facts, %s" % (count, data["shadow"])}]}

def run_ls(params):
    result = exec.run("ls", ["-d", "/"])
    if not result["success"]:
        return {"content": [{"type": "text", "text": result["stderr"]}], "isError": True}
    return {"content": [{"type": "text", "text": result["stdout"]}]}

def run_cat(params):
    return {"content": [{"type": "text", "text": exec.run("cat", [])["stdout"]}]}

def fuzzy_find(params):
    found = fuzzy.search_with_scores(params["query"], ["apple pie", "banana"], limit = 1)
    return {"content": [{"type": "text", "text": found[0]["item"]}], "structuredContent": found}

def numbers(params):
    return {"content": [{"type": "text", "text": json.encode({"big": 9999999999, "pi": math.pi})}]}

def _internal(params):
    return {"content": [{"type": "text", "text": "private"}]}

alias = _internal

def describe_extension():
    return Extension(
        name = "old_style",
        version = "1.0.0",
        description = "As it was",
        allowed_exec = ["ls"],
        tools = [
            Tool("get_fact", "Get facts", [
                ToolParameter("count", "integer", False, "3", "How many"),
                ToolParameter("verbose", "boolean", False, "true", "More"),
                ToolParameter("ratio", "float", False, 1.5, "Ratio"),
                ToolParameter("ids", "array", False, None, "Ids"),
            ], get_fact),
            Tool(name = "run_ls", description = "List", parameters = [], handler = run_ls),
            Tool(name = "run_cat", description = "Cat", parameters = None, handler = run_cat),
            Tool(name = "fuzzy_find", description = "Find", handler = fuzzy_find, parameters = [
                ToolParameter(name = "query", param_type = "string", required = True, description = "What"),
            ]),
            {"name": "numbers", "description": "Numbers", "parameters": [], "handler": numbers},
            Tool(name = "private", description = "P", handler = alias, title = "Private",
                 annotations = {"readOnlyHint": True}),
        ],
    )
"#;

#[test]
fn old_files_run_as_they_are() {
    let folder = Folder::new(&[("extensions/file_name.star", OLD)]);
    let mut server = Server::ready(&folder, &["-e", "extensions"]);
    let listed = server.request("tools/list", json!({}));
    let tools = &listed["result"]["tools"];
    assert_eq!(
        tools[0]["inputSchema"].to_string(),
        r#"{"type":"object","properties":{"count":{"type":"integer","description":"How many","default":3},"verbose":{"type":"boolean","description":"More","default":true},"ratio":{"type":"number","description":"Ratio","default":1.5},"ids":{"type":"array","description":"Ids"}},"required":[]}"#
    );
    assert_eq!(tools[5]["title"], "Private");
    assert_eq!(tools[5]["annotations"], json!({"readOnlyHint": true}));
    assert_eq!(server.call_text("get_fact", json!({})), "3 facts, of the module");
    assert_eq!(server.call_text("run_ls", json!({})), "/\n");
    assert_eq!(
        server.call_text("run_cat", json!({})),
        "Command 'cat' is not in the allowed exec whitelist. Allowed commands: [\"ls\"]"
    );
    let found = server.call("fuzzy_find", json!({"query": "apl"}));
    assert_eq!(found["content"][0]["text"], "apple pie");
    assert_eq!(found["structuredContent"]["result"][0]["item"], "apple pie");
    assert_eq!(server.call_text("numbers", json!({})), r#"{"big":9999999999,"pi":3.141592653589793}"#);
    assert_eq!(server.call_text("private", json!({})), "private");
    // Removed by its file's name, though the extension has another.
    folder.remove("extensions/file_name.star");
    server.list_changed();
    assert!(server.tool_names().is_empty());
}

#[test]
fn grants_never_leak_to_another_extension() {
    let tool = |name: &str, allowed: &str| {
        format!(
            "def _run(params):\n    return exec.run(\"echo\", [\"hi\"])[\"stdout\"]\n\ndef describe_extension():\n    return Extension(name = \"{name}\", version = \"1\", description = \"\", {allowed} tools = [Tool(name = \"{name}\", description = \"\", handler = _run)])\n"
        )
    };
    let folder = Folder::new(&[
        ("ext/a.star", &tool("allowed", "allowed_exec = [\"echo\"],")),
        ("ext/b.star", &tool("denied", "")),
    ]);
    let mut server = Server::ready(&folder, &["ext"]);
    for _ in 0..3 {
        assert_eq!(server.call_text("allowed", json!({})), "hi\n");
        assert!(
            server
                .call_text("denied", json!({}))
                .starts_with("Command 'echo' cannot be executed: no exec whitelist")
        );
    }
}
