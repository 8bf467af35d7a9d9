//! Saving a file in a running server.

use serde_json::json;

use crate::support::{ECHO, Folder, Server};

fn tool(name: &str, result: &str) -> String {
    format!("def {name}():\n    \"\"\"A tool.\"\"\"\n    return {result}\n")
}

#[test]
fn files_come_change_break_move_and_go() {
    let folder = Folder::new(&[]);
    // The folder itself appears later.
    let mut server = Server::ready(&folder, &["tools"]);
    assert!(server.tool_names().is_empty());
    folder.write("tools/a.star", &tool("alpha", "1"));
    server.list_changed();
    assert_eq!(server.tool_names(), ["alpha"]);

    folder.write("tools/sub/b.star", &tool("beta", "1"));
    server.list_changed();
    assert_eq!(server.tool_names(), ["alpha", "beta"]);

    // A broken save keeps the last good version and says where it is broken.
    folder.write("tools/a.star", "def alpha(:\n");
    server.logged("`a` does not load; the last good version stays in service");
    server.logged("tools/a.star:1:11");
    assert_eq!(server.call_text("alpha", json!({})), "1");

    // Saved the way editors do: written beside, then renamed over.
    folder.write("tools/.a.star.swp", &tool("alpha2", "2"));
    std::fs::rename(folder.path().join("tools/.a.star.swp"), folder.path().join("tools/a.star"))
        .expect("rename");
    server.list_changed();
    assert_eq!(server.tool_names(), ["alpha2", "beta"]);

    // A name that is taken stays with who has it.
    folder.write("tools/c.star", &tool("beta", "3"));
    server.logged("tool `beta` is declared twice");
    assert_eq!(server.call_text("beta", json!({})), "1");
    folder.remove("tools/sub/b.star");
    server.logged("removed");
    server.logged("loaded tools/c.star");
    assert_eq!(server.call_text("beta", json!({})), "3");

    // Helpers and tests are no sources.
    folder.write("tools/_helper.star", &tool("hidden", "1"));
    folder.write("tools/lib/shared.star", &tool("hidden2", "1"));
    folder.write("tools/a_test.star", &tool("hidden3", "1"));
    folder.write("tools/.hidden/d.star", &tool("hidden4", "1"));
    folder.write("tools/z.star", &tool("zulu", "1"));
    server.list_changed();
    assert_eq!(server.tool_names(), ["alpha2", "beta", "zulu"]);

    std::fs::remove_dir_all(folder.path().join("tools")).expect("remove");
    server.list_changed();
    assert!(server.tool_names().is_empty());
    folder.write("tools/new.star", &tool("again", "1"));
    server.list_changed();
    assert_eq!(server.tool_names(), ["again"]);
}

#[test]
fn what_a_file_is_made_of_reloads_it() {
    let folder = Folder::new(&[
        ("ext/lib/names.star", "NAME = \"one\"\n"),
        ("ext/words.json", "[\"un\"]"),
        (
            "ext/a.star",
            "load(\"lib/names.star\", \"NAME\")\nWORDS = data.load_json(\"words.json\")\ndef show():\n    \"\"\"S.\"\"\"\n    return [NAME] + WORDS\n",
        ),
    ]);
    let mut server = Server::ready(&folder, &["ext"]);
    assert_eq!(server.call_text("show", json!({})), "[\"one\",\"un\"]");
    server.logged("loaded ext/a.star");
    folder.write("ext/lib/names.star", "NAME = \"two\"\n");
    server.logged("loaded ext/a.star");
    assert_eq!(server.call_text("show", json!({})), "[\"two\",\"un\"]");
    folder.write("ext/words.json", "[\"deux\"]");
    server.logged("loaded ext/a.star");
    assert_eq!(server.call_text("show", json!({})), "[\"two\",\"deux\"]");
    // Nothing a client lists changed, so nothing was announced.
    assert!(server.is_silent());
}

#[test]
fn a_running_call_finishes_on_the_version_it_started_with() {
    let folder =
        Folder::new(&[("a.star", "def slow():\n    \"\"\"S.\"\"\"\n    sleep(0.5)\n    return \"old\"\n")]);
    let mut server = Server::ready(&folder, &["."]);
    assert_eq!(server.tool_names(), ["slow"]);
    let running = server.send_request("tools/call", json!({"name": "slow"}));
    folder.write("a.star", "def fast():\n    \"\"\"F.\"\"\"\n    return \"new\"\n");
    server.list_changed();
    assert_eq!(server.tool_names(), ["fast"]);
    assert_eq!(server.answer_to(running)["result"]["content"][0]["text"], "old");
}

#[test]
fn notify_changed_announces_without_a_change() {
    let folder =
        Folder::new(&[("a.star", "def poke():\n    \"\"\"P.\"\"\"\n    notify_changed(\"tools\")\n")]);
    let mut server = Server::ready(&folder, &["."]);
    server.send_request("tools/call", json!({"name": "poke"}));
    server.list_changed();
}

#[test]
fn nothing_is_watched_when_told_so() {
    let folder = Folder::new(&[("echo.star", ECHO)]);
    let mut server = Server::ready(&folder, &[".", "--no-watch"]);
    assert_eq!(server.tool_names(), ["echo", "wait", "spin", "late"]);
    folder.write("b.star", &tool("beta", "1"));
    assert_eq!(server.tool_names(), ["echo", "wait", "spin", "late"]);
    assert_eq!(server.finish(), 0);
}
