//! `starloom.yaml`, its twins, and what the command line says over it.

use expect_test::expect;
use serde_json::json;

use crate::support::{Folder, Server};

const ENV: &str = "def show(name: str):\n    \"\"\"Shows a variable.\"\"\"\n    return env.get(name, \"unset\")\n\ndef other():\n    \"\"\"O.\"\"\"\n    return 1\n";

fn error_of(file: &str, text: &str) -> String {
    let folder = Folder::new(&[("ext/env.star", ENV), (file, text)]);
    let ran = folder.run(&["serve", "ext", "--config", file]);
    assert_eq!((ran.code, ran.stdout.as_str()), (3, ""), "{}", ran.all());
    ran.stderr
}

#[test]
fn mistakes_are_shown_where_they_stand() {
    expect![[r#"
        error: starloom.yaml:3: unknown key `limits.timeot`
        hint: did you mean `timeout`?
    "#]]
    .assert_eq(&error_of("starloom.yaml", "paths: [ext]\nlimits:\n  timeot: 5\n"));
    expect![[r#"
        error: starloom.yaml:1: unknown key `mcpServes`
        hint: `starloom config --default` shows all keys
    "#]]
    .assert_eq(&error_of("starloom.yaml", "mcpServes: {}\n"));
    expect![[r#"
        error: starloom.yaml:2: `env.TOKEN` uses ${STARLOOM_NOT_SET}, which is not set
        hint: set STARLOOM_NOT_SET, or write ${STARLOOM_NOT_SET:-default}
    "#]]
    .assert_eq(&error_of("starloom.yaml", "env:\n  TOKEN: a-${STARLOOM_NOT_SET}\n"));
    expect![[r#"
        error: starloom.yaml:1: `capabilities` must be one of declared, strict, not `open`
    "#]]
    .assert_eq(&error_of("starloom.yaml", "capabilities: open\n"));
    expect![[r#"
        error: starloom.yaml:1: `limits.timeout` must be a number that is not negative
    "#]]
    .assert_eq(&error_of("starloom.yaml", "limits: {timeout: -1}\n"));
    expect![[r#"
        error: division
          --> config.star:1:1
           |
         1 | fail("division")
           | ^^^^^^^^^^^^^^^^
    "#]]
    .assert_eq(&error_of("config.star", "fail(\"division\")\n"));
    expect![[r#"
        error: config.star: a configuration in Starlark must define `config = {...}`
    "#]]
    .assert_eq(&error_of("config.star", "x = 1\n"));
    expect![[r#"
        error: config.star: unknown key `tols`
        hint: did you mean `tools`?
    "#]]
    .assert_eq(&error_of("config.star", "config = {\"tols\": []}\n"));
    assert!(error_of("none/../starloom.yaml", "[").starts_with("error: "));
}

#[test]
fn every_spelling_of_a_config_says_the_same() {
    for (file, text) in [
        ("c.yaml", "paths: [ext]\ntools: [show]\nenv:\n  GREETING: ${STARLOOM_TEST_NONE:-hello}\n"),
        ("c.json", "{\"paths\": [\"ext\"], \"tools\": \"show\", \"env\": {\"GREETING\": \"hello\"}}"),
        (
            "c.star",
            "config = {\"paths\": [\"ext\"], \"tools\": [\"show\"], \"env\": {\"GREETING\": \"hel\" + env.get(\"REST\")}}\n",
        ),
    ] {
        let folder = Folder::new(&[("ext/env.star", ENV), (file, text)]);
        let mut server = Server::ready(&folder, &["--config", file, "--env", "REST=lo,LIST=a,b"]);
        assert_eq!(server.tool_names(), ["show"], "{file}");
        for (name, value) in [("GREETING", "hello"), ("REST", "lo"), ("LIST", "a,b"), ("NOPE", "unset")] {
            assert_eq!(server.call_text("show", json!({"name": name})), value, "{file} {name}");
        }
    }
}

#[test]
fn flags_beat_the_file_and_reach_scripts_only() {
    let folder = Folder::new(&[
        ("ext/env.star", ENV),
        (
            "ext/child.star",
            "allowed_exec = [\"printenv\"]\ndef child(name: str):\n    \"\"\"C.\"\"\"\n    return exec.run(\"printenv\", [name])[\"exit_code\"]\n",
        ),
        ("starloom.yaml", "paths: [ext]\ntools: [other]\nenv: {WHO: file}\n"),
    ]);
    let mut server = Server::ready(&folder, &["--tools", "show,child", "--env", "WHO=flag"]);
    assert_eq!(server.tool_names(), ["child", "show"]);
    assert_eq!(server.call_text("show", json!({"name": "WHO"})), "flag");
    assert_eq!(server.call_text("child", json!({"name": "WHO"})), "1");
    let ran = folder.run(&["serve", "--env", "WHO"]);
    assert_eq!((ran.code, ran.stderr.as_str()), (2, "error: `--env WHO` must be NAME=VALUE\n"));
}

#[test]
fn strict_capabilities_deny_what_nobody_declared() {
    let declared = format!("allowed_env = [\"DECLARED\", \"GROUP_*\"]\n{ENV}");
    let folder = Folder::new(&[("ext/env.star", &declared)]);
    let strict = ["ext", "--capabilities", "strict"];
    let mut server = Server::ready(
        &folder,
        &[&strict[..], &["--env", "DECLARED=1", "--env", "GROUP_X=2", "--env", "STARLOOM_Y=3"]].concat(),
    );
    assert_eq!(server.call_text("show", json!({"name": "DECLARED"})), "1");
    assert_eq!(server.call_text("show", json!({"name": "GROUP_X"})), "2");
    assert!(server.call_text("show", json!({"name": "HOME"})).contains("allowed_env"));
    let ran = folder.run(&[&["serve"], &strict[..], &["--env", "OTHER=1"]].concat());
    assert_eq!(ran.code, 3);
    assert!(
        ran.stderr.ends_with("error: `--env OTHER`: no served extension declares it in `allowed_env`\nhint: add it to `allowed_env` of the extension that reads it, or call it STARLOOM_OTHER\n"),
        "{}",
        ran.stderr
    );
}

#[test]
fn limits_come_from_the_file() {
    let folder = Folder::new(&[
        (
            "ext/spin.star",
            "def spin():\n    \"\"\"S.\"\"\"\n    for _ in range(2000000000):\n        pass\n\ndef fill():\n    \"\"\"F.\"\"\"\n    l = []\n    for i in range(100000000):\n        l.append(str(i))\n\ndef recurse():\n    \"\"\"R.\"\"\"\n    return _r(0)\n\ndef _r(n):\n    return _r(n + 1)\n",
        ),
        ("starloom.yaml", "paths: [ext]\nlimits: {ticks: 100000, heapMB: 4, frames: 50}\n"),
    ]);
    let mut server = Server::ready(&folder, &[]);
    for (tool, expected) in [
        (
            "spin",
            "`spin` was stopped: ran for more than 100000 steps (hint: raise `limits.ticks` in the config)",
        ),
        (
            "fill",
            "`fill` was stopped: needed more than 4 MB of memory (hint: raise `limits.heapMB` in the config, or work on less at a time)",
        ),
        (
            "recurse",
            "`recurse` was stopped: nested function calls deeper than 50 (hint: raise `limits.frames` in the config, or use a loop)",
        ),
    ] {
        assert_eq!(server.call_text(tool, json!({})), expected);
    }
}
