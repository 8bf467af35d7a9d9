//! Commands as a person types them, mistakes included.

use expect_test::expect;

use crate::support::{ECHO, Folder, Server};
use serde_json::json;

const CALC: &str = "def add(a: int, b: int = 2) -> int:\n    \"\"\"Adds two numbers.\n\n    Args:\n        a: the first\n    \"\"\"\n    return a + b\n\ndef broken(x: str):\n    \"\"\"Fails.\"\"\"\n    return [1][5]\n";

#[test]
fn call_prints_results_for_people_and_programs() {
    let folder = Folder::new(&[("extensions/calc.star", CALC)]);
    expect![[r#"
        exit 0
        --- stdout
        7
        --- stderr
    "#]]
    .assert_eq(&folder.run(&["call", "add", "a=5"]).all());
    folder.write("args.json", r#"{"a": 1, "b": 1}"#);
    let ran = folder.run(&["call", "add", "--args", "@args.json", "--json"]);
    let result: serde_json::Value = serde_json::from_str(&ran.stdout).expect("JSON");
    assert_eq!(result["structuredContent"], json!({"result": 2}));
    expect![[r#"
        exit 1
        --- stdout
        error: Index `5` is out of bound
          --> extensions/calc.star:11:12
            |
         11 |     return [1][5]
            |            ^^^^^^

        --- stderr
    "#]]
    .assert_eq(&folder.run(&["call", "broken", "x=1"]).all().replace(&log_lines(&folder), ""));
    expect![[r#"
        exit 1
        --- stdout
        --- stderr
        error: there is no tool `ad`
        hint: did you mean `add`?
    "#]]
    .assert_eq(&folder.run(&["call", "ad"]).all());
    for (args, stderr) in [
        (&["call", "add", "a"][..], "error: `a` must be KEY=VALUE\n"),
        (&["call", "add", "--args", "[1]"], "error: `--args` must be a JSON object\n"),
        (
            &["call", "add", "--args", "@none"],
            "error: cannot read `none`: No such file or directory (os error 2)\n",
        ),
    ] {
        let ran = folder.run(args);
        assert_eq!((ran.code, ran.stderr.as_str()), (2, stderr));
    }
}

/// The log of a failing call carries the time; the command's own output is what is compared.
fn log_lines(folder: &Folder) -> String {
    let ran = folder.run(&["call", "broken", "x=1"]);
    ran.stderr
}

#[test]
fn list_and_status_show_every_source_with_its_state() {
    let folder = Folder::new(&[("extensions/calc.star", CALC), ("extensions/bad.star", "def f(:\n")]);
    expect![[r#"
        exit 0
        --- stdout
        add     Adds two numbers.
        broken  Fails.
        --- stderr

        bad (failed):
        error: Parse error: unexpected symbol ':', expected identifier
          --> extensions/bad.star:1:7
           |
         1 | def f(:
           |       ^
    "#]]
    .assert_eq(&without_log(&folder.run(&["list"]).all()));
    expect![[r#"
        exit 1
        --- stdout
        bad   failed     0 tools  extensions/bad.star
            error: Parse error: unexpected symbol ':', expected identifier
              --> extensions/bad.star:1:7
               |
             1 | def f(:
               |       ^
        calc  loaded     2 tools  extensions/calc.star
        --- stderr
    "#]]
    .assert_eq(&without_log(&folder.run(&["status"]).all()));
    let ran = folder.run(&["list", "tools", "extensions", "--json"]);
    let tools: serde_json::Value = serde_json::from_str(&ran.stdout).expect("JSON");
    assert_eq!(tools[0]["inputSchema"]["properties"]["a"]["description"], "the first");
}

/// Drops the lines of the log, which carry the time.
fn without_log(text: &str) -> String {
    let mut out = String::new();
    let mut in_log = false;
    for line in text.lines() {
        if line.starts_with("20") && line.contains("Z ") {
            in_log = true;
            continue;
        }
        // A log entry's own lines follow it until a blank one or the next part.
        if in_log && !line.is_empty() && !line.starts_with("---") {
            continue;
        }
        in_log = false;
        out.push_str(line);
        out.push('\n');
    }
    out
}

#[test]
fn a_running_server_tells_its_status() {
    let folder = Folder::new(&[("extensions/calc.star", CALC)]);
    let server = Server::start(&folder, &["--http", "-p", "0"]);
    let line = server.logged("is ready at ");
    let url = line.split("at ").nth(1).expect("url").to_owned();
    server.logged("loaded extensions/calc.star");
    folder.write("extensions/calc.star", "def add(:\n");
    server.logged("does not load; the last good version stays in service");
    let ran = folder.run(&["status", "--url", &url]);
    assert!(ran.stdout.starts_with("calc  stale      2 tools  extensions/calc.star\n"), "{}", ran.all());
    assert_eq!(ran.code, 1);
    let ran = folder.run(&["status", "--url", "http://127.0.0.1:1"]);
    assert_eq!(ran.code, 1);
    assert!(ran.stderr.starts_with("error: no server answers at http://127.0.0.1:1"), "{}", ran.stderr);
}

#[test]
fn check_says_what_the_server_would_say_and_more() {
    let folder = Folder::new(&[
        (
            "extensions/a.star",
            "def f(x: int) -> str:\n    \"\"\"F.\"\"\"\n    return x\n\ndef g():\n    \"\"\"G.\"\"\"\n    return tiem.now()\n\ndef no_doc():\n    return 1\n",
        ),
        (
            "extensions/b.star",
            "def describe_extension():\n    return Extension(name = \"b\", version = \"1\", description = \"\", tools = [\n        Tool(name = \"f\", description = \"\", handler = lambda p: 1, parameters = [\n            ToolParameter(name = \"n\", param_type = \"strng\", required = False, default = \"1\", description = \"\"),\n        ]),\n    ])\n",
        ),
        ("extensions/ok.star", CALC),
    ]);
    let ran = folder.run(&["check"]);
    let expected = expect![[r#"
        exit 1
        --- stdout
        error[load]: Variable `tiem` not found, did you mean `time`?
          --> extensions/a.star:7:12
           |
         7 |     return tiem.now()
           |            ^^^^

        error[type]: Expected type `str` but got `int`
          --> extensions/a.star:3:5
           |
         3 |     return x
           |     ^^^^^^^^

        warning[unknown-type]: parameter `n`: unknown type `strng`, served as string
          --> extensions/b.star:4:13
           |
         4 |             ToolParameter(name = "n", param_type = "strng", required = False, default = "1", description = ""),
           |             ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
        hint: did you mean `string`?

        --- stderr
        3 files checked: 2 errors, 1 warning
    "#]];
    expected.assert_eq(&ran.all());
    // The same facts for programs.
    let ran = folder.run(&["check", "--json"]);
    let first: serde_json::Value =
        serde_json::from_str(ran.stdout.lines().next().expect("a line")).expect("JSON");
    assert_eq!((&first["file"], &first["line"]), (&json!("extensions/a.star"), &json!(7)));
    // Warnings are errors when strict.
    assert_eq!(folder.run(&["check", "extensions/b.star"]).code, 0);
    assert_eq!(folder.run(&["check", "--strict", "extensions/b.star"]).code, 1);
    let ran = folder.run(&["check", "nowhere"]);
    assert_eq!((ran.code, ran.stderr.as_str()), (3, "error: there are no .star files in nowhere\n"));
}

#[test]
fn duplicates_stop_the_start_with_both_places() {
    let folder = Folder::new(&[("a.star", CALC), ("b.star", CALC)]);
    let ran = folder.run(&["serve", "."]);
    assert_eq!(ran.code, 3);
    assert!(
        ran.stderr.contains("error: tool `add` is declared twice: at a.star:1:5 and at b.star:1:5\nhint: rename one, or start with `--on-conflict prefix`\n"),
        "{}",
        ran.stderr
    );
    let mut server = Server::ready(&folder, &[".", "--on-conflict", "prefix"]);
    assert_eq!(server.tool_names(), ["a__add", "a__broken", "b__add", "b__broken"]);
    assert_eq!(server.call_text("b__add", json!({"a": 1})), "3");
}

#[test]
fn tools_are_chosen_by_name() {
    let folder = Folder::new(&[("extensions/calc.star", CALC), ("extensions/echo.star", ECHO)]);
    let mut server = Server::ready(&folder, &["--tools", "ADD,e*", "--exclude", "ech-o"]);
    assert_eq!(server.tool_names(), ["add"]);
    let ran = folder.run(&["serve", "--tools", "ad"]);
    assert_eq!(ran.code, 3);
    assert!(
        ran.stderr.ends_with("error: no tool matches `ad`\nhint: did you mean `add`?\n"),
        "{}",
        ran.stderr
    );
}

#[test]
fn paths_may_be_files_folders_and_patterns() {
    let folder = Folder::new(&[
        ("x/calc.star", CALC),
        ("y/z/echo.star", ECHO),
        ("y/other.star", "def o():\n    \"\"\"O.\"\"\"\n    return 1\n"),
    ]);
    for (args, expected) in [
        (&["x/calc.star", "y"][..], &["add", "broken", "o", "echo", "wait", "spin", "late"][..]),
        (&["y/**/e*.star"], &["echo", "wait", "spin", "late"]),
        (&["{x,y}/*.star"], &["add", "broken", "o"]),
    ] {
        assert_eq!(Server::ready(&folder, args).tool_names(), expected, "{args:?}");
    }
    let ran = folder.run(&["serve", "missing.star"]);
    assert_eq!(ran.code, 3);
    assert!(ran.stderr.ends_with("error: there is no file `missing.star`\n"), "{}", ran.stderr);
    let ran = Folder::new(&[]).run(&["serve"]);
    expect![[r#"
        exit 2
        --- stdout
        --- stderr
        error: there is nothing to serve: no path given, and no ./starloom.yaml, ./extensions or ./llm/mcp here
        hint: run `starloom serve PATH`
    "#]]
    .assert_eq(&ran.all());
}

#[test]
fn old_spellings_still_work() {
    let folder = Folder::new(&[("tools/calc.star", CALC)]);
    let mut child =
        folder.command(&["-e", "tools"]).stdin(std::process::Stdio::null()).spawn().expect("start");
    assert!(child.wait().expect("wait").success());
    assert_eq!(folder.run(&["-v"]).stdout, format!("starloom {}\n", env!("CARGO_PKG_VERSION")));
    assert_eq!(folder.run(&["frobnicate"]).code, 2);
}

#[test]
fn the_reference_is_fresh() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference");
    let folder = Folder::new(&[]);
    for page in ["cli", "builtins", "config"] {
        let committed = std::fs::read_to_string(format!("{root}/{page}.md")).unwrap_or_default();
        let ran = folder.run(&["docs", page]);
        assert_eq!(ran.code, 0);
        assert!(ran.stdout == committed, "docs/reference/{page}.md is old; run `cargo xtask docs`");
    }
}

#[test]
fn debug_traces_loading_binding_and_calls_on_stderr() {
    let folder = Folder::new(&[("extensions/calc.star", CALC)]);
    let output = folder.command(&["call", "add", "a=5"]).env("STARLOOM_DEBUG", "1").output().expect("run");
    let log = String::from_utf8_lossy(&output.stderr);
    for trace in ["loaded extensions/calc.star", "bound", r#"{"a":5,"b":2}"#, "called"] {
        assert!(log.contains(trace), "no `{trace}` in\n{log}");
    }
    assert_eq!(String::from_utf8_lossy(&output.stdout), "7\n");
    assert!(!log.contains('\u{1b}'), "plain when not a terminal");
}
