//! The runner for tool authors.

use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::sync::mpsc::{Receiver, channel};

use expect_test::{Expect, expect};
use saphyr::{LoadableYamlNode, Yaml};
use serde_json::Value as Json;

use crate::support::{Folder, PATIENCE};

const WEATHER: &str = r#"
def describe_extension():
    return Extension(
        name = "weather",
        version = "1.0.0",
        description = "Weather",
        allowed_exec = ["date"],
        allowed_hosts = ["api.example.com"],
        tools = [
            Tool(
                name = "forecast",
                description = "The weather of the next days",
                parameters = [
                    ToolParameter(name = "city", param_type = "string", required = True),
                    ToolParameter(name = "days", param_type = "integer", required = False, default = 1),
                ],
                handler = forecast,
            ),
            Tool(name = "today", description = "The date", handler = today),
            Tool(name = "twice", description = "The date, asked for by a tool", handler = twice),
            Tool(name = "broken", description = "Fails", handler = lambda params: {}["key"]),
            Tool(name = "refuse", description = "Refuses", handler = lambda params: mcp_error(-32001, "not today")),
        ],
    )

def fahrenheit(celsius):
    return celsius * 9 // 5 + 32

def forecast(params):
    print("asking for", params["city"])
    url = "https://api.example.com/forecast"
    answer = http.get(url, params = {"q": params["city"]}, headers = {"X-Key": env.get("API_KEY")})
    if not answer["success"]:
        return error_result("the service says " + str(answer["status"]))
    return {"days": params["days"], "max": answer["json"]["max"]}

def today(params):
    store.increment("asked")
    return exec.run("date", ["+%F"])["stdout"].strip()

def twice(params):
    return call_tool("today")["content"][0]["text"]
"#;

/// What is printed, without the times, which differ from run to run.
fn timeless(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    let marks = ["skipped in ", "not run in ", "duration_ms: ", "time=\"", "\"seconds\":"];
    while let Some((at, mark)) = marks.iter().filter_map(|mark| Some((rest.find(mark)?, mark))).min() {
        let (before, after) = rest.split_at(at + mark.len());
        let digits = after.chars().take_while(|c| c.is_ascii_digit() || *c == '.').count();
        out.push_str(before);
        out.push_str(if digits > 0 { "0" } else { "" });
        rest = &after[digits..];
    }
    out + rest
}

fn check(files: &[(&str, &str)], args: &[&str], expected: Expect) {
    let ran = Folder::new(files).run(&[&["test"], args].concat());
    expected.assert_eq(&timeless(&ran.all()));
}

/// One test file beside the weather extension.
fn check_weather(test: &str, expected: Expect) {
    check(&[("extensions/weather.star", WEATHER), ("extensions/weather_test.star", test)], &[], expected);
}

#[test]
fn passing_files_take_a_line_each() {
    check(
        &[
            (
                "extensions/a_test.star",
                r#"
def test_one():
    testing.eq(1, 1)

def test_values_are_nobodys_business():
    return test_one

def helper():
    fail("never called")

def test_two():
    testing.eq("boom", testing.raises(fail, "boom", match = "bo+m"))
    testing.approx(0.3, 0.1 + 0.2)
    testing.contains([1, 2], 2)
"#,
            ),
            ("extensions/sub/b_test.star", "def test_skipped():\n    testing.skip(\"not on mondays\")\n"),
            ("extensions/c_test.star", "x = 1\n"),
            ("extensions/lib/d_test.star", "def test_helper():\n    testing.is_true(True)\n"),
        ],
        &[],
        expect![[r#"
            exit 0
            --- stdout
            ok      extensions/a_test.star: 3 passed
            empty   extensions/c_test.star: no functions `test_*`
            ok      extensions/lib/d_test.star: 1 passed
            ok      extensions/sub/b_test.star: 1 skipped
              skipped test_skipped: not on mondays
            4 passed, 0 failed, 1 skipped in 0 s
            --- stderr
        "#]],
    );
}

#[test]
fn failures_show_values_lines_and_logs() {
    check(
        &[(
            "a_test.star",
            r#"
def test_short():
    testing.eq(1, 2)

def test_diff():
    print("before")
    log("careful", level = "warning", attempt = 2)
    expected = {"name": "Ada", "languages": ["en", "fr"], "born": 1815}
    testing.eq(expected, {"name": "Ada", "languages": ["en", "it"], "born": 1815})

def test_message():
    testing.is_true([], "the list is empty")

def test_error():
    deeper({})

def deeper(values):
    return values["x"]

def test_table():
    testing.table([
        {"name": "small", "a": 1, "double": 2},
        {"name": "large", "a": 100, "double": 201},
        {"a": 3, "double": 7},
    ], lambda a, double: testing.eq(double, 2 * a))

def test_raises_nothing():
    testing.raises(len, [])

def test_approx():
    testing.approx(1.0, 1.1)

def test_parameter(x):
    pass
"#,
        )],
        &["a_test.star"],
        expect![[r#"
            exit 1
            --- stdout
            FAILED  a_test.star: 8 failed
              FAILED test_short
                error: Assertion failed: expected 1, got 2
                  --> a_test.star:3:5
                   |
                 3 |     testing.eq(1, 2)
                   |     ^^^^^^^^^^^^^^^^

              FAILED test_diff
                error: Assertion failed: values differ (- expected, + actual)
                  {
                    "name": "Ada",
                    "languages": [
                      "en",
                -     "fr",
                +     "it",
                    ],
                    "born": 1815,
                  }
                  --> a_test.star:9:5
                   |
                 9 |     testing.eq(expected, {"name": "Ada", "languages": ["en", "it"], "born": 1815})
                   |     ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
                log:
                  info: before
                  warning: careful attempt=2

              FAILED test_message
                error: the list is empty
                  --> a_test.star:12:5
                    |
                 12 |     testing.is_true([], "the list is empty")
                    |     ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^

              FAILED test_error
                error: Key `"x"` was not found
                  --> a_test.star:18:12
                    |
                 18 |     return values["x"]
                    |            ^^^^^^^^^^^
                  called from a_test.star:15:5 (`deeper`)

              FAILED test_table
                error: Assertion failed: 2 of 3 cases failed
                  case 1 (large): Assertion failed: expected 201, got 200 (a_test.star:25:26)
                  case 2 {"a": 3, "double": 7}: Assertion failed: expected 7, got 6 (a_test.star:25:26)
                  --> a_test.star:21:5
                    |
                 21 |     testing.table([
                    |     ^^^^^^^^^^^^^^^

              FAILED test_raises_nothing
                error: Assertion failed: expected an error, but the call returned 0
                  --> a_test.star:28:5
                    |
                 28 |     testing.raises(len, [])
                    |     ^^^^^^^^^^^^^^^^^^^^^^^

              FAILED test_approx
                error: Assertion failed: expected about 1, got 1.1: they differ by 0.10000000000000009, more than 0.0000011
                  --> a_test.star:31:5
                    |
                 31 |     testing.approx(1.0, 1.1)
                    |     ^^^^^^^^^^^^^^^^^^^^^^^^

              FAILED test_parameter
                error: Missing parameter `x` for call to `a_test.star.test_parameter`

            0 passed, 8 failed, 0 skipped in 0 s
            --- stderr
        "#]],
    );
}

#[test]
fn a_file_that_does_not_load_is_a_failed_test() {
    check(
        &[
            ("extensions/a_test.star", "def test_a():\n    pass\n"),
            ("extensions/missing_test.star", "load(\"nowhere\", \"x\")\n\ndef test_a():\n    pass\n"),
            ("extensions/mock_test.star", "testing.mock_env(A = \"1\")\n"),
            ("extensions/syntax_test.star", "print(\"hello\")\ndef test_a(:\n"),
            // The server would not load it either, whatever its functions do.
            (
                "extensions/tool.star",
                "def describe_extension():\n    return Extension(name = \"\", version = \"1\", description = \"\", tools = [])\n",
            ),
            ("extensions/tool_test.star", "def test_a():\n    pass\n"),
        ],
        &[],
        expect![[r#"
            exit 1
            --- stdout
            ok      extensions/a_test.star: 1 passed
            FAILED  extensions/missing_test.star: 1 failed
              FAILED (load)
                error: there is no `nowhere` beside this file or below the source's root
                  --> extensions/missing_test.star:1:6
                   |
                 1 | load("nowhere", "x")
                   |      ^^^^^^^^^

            FAILED  extensions/mock_test.star: 1 failed
              FAILED (load)
                error: `testing.mock_env` works only inside a test function
                  --> extensions/mock_test.star:1:1
                   |
                 1 | testing.mock_env(A = "1")
                   | ^^^^^^^^^^^^^^^^^^^^^^^^^

            FAILED  extensions/syntax_test.star: 1 failed
              FAILED (load)
                error: Parse error: unexpected symbol ':', expected identifier
                  --> extensions/syntax_test.star:2:12
                   |
                 2 | def test_a(:
                   |            ^

            FAILED  extensions/tool_test.star: 1 failed
              FAILED (load)
                error: the extension has no `name`
                  --> extensions/tool.star:2:12
                   |
                 2 |     return Extension(name = "", version = "1", description = "", tools = [])
                   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^

            1 passed, 4 failed, 0 skipped in 0 s
            --- stderr
        "#]],
    );
}

#[test]
fn a_test_defined_twice_runs_once_and_is_reported() {
    let test = "def test_a():\n    fail()\n\ndef test_a():\n    pass\n";
    let ran = Folder::new(&[("a_test.star", test)]).run(&["test", "."]);
    expect!["ok      a_test.star: 1 passed\n1 passed, 0 failed, 0 skipped in 0 s\n"]
        .assert_eq(&timeless(&ran.stdout));
    assert!(
        ran.stderr.contains("a_test.star:1:5: `test_a` never runs: it is defined again at a_test.star:4:5"),
        "{}",
        ran.stderr
    );
}

#[test]
fn both_spellings_of_load_reach_the_extension() {
    check_weather(
        r#"
load("weather", "fahrenheit")
load("weather.star", "forecast", same = "fahrenheit")

def test_fahrenheit():
    testing.eq(212, fahrenheit(100))
    testing.eq(32, same(0))
"#,
        expect![[r#"
            exit 0
            --- stdout
            ok      extensions/weather_test.star: 1 passed
            1 passed, 0 failed, 0 skipped in 0 s
            --- stderr
        "#]],
    );
}

#[test]
fn tools_are_called_as_clients_call_them() {
    check_weather(
        r#"
def test_validation():
    result = testing.call("forecast", {"town": "Oslo"})
    testing.eq(True, result["isError"])
    fail(result["content"][0]["text"])

def test_unknown():
    testing.call("forcast", {})

def test_protocol_error():
    testing.eq("not today", testing.raises(testing.call, "refuse"))

def test_call_tool_never_raises():
    testing.contains(call_tool("forcast")["content"][0]["text"], "Did you mean `forecast`?")

def test_by_source():
    testing.mock_exec("date", stdout = "2024-05-01\n")
    testing.eq("2024-05-01", testing.call("weather/today")["content"][0]["text"])

def test_broken():
    testing.eq({"content": [text("sunny")]}, testing.call("broken"))
"#,
        expect![[r#"
            exit 1
            --- stdout
            FAILED  extensions/weather_test.star: 3 passed, 3 failed
              FAILED test_validation
                error: Invalid arguments for `forecast`:
                - $.town: unknown argument; the tool takes city, days
                - $: "city" is a required property
                  --> extensions/weather_test.star:5:5
                   |
                 5 |     fail(result["content"][0]["text"])
                   |     ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^

              FAILED test_unknown
                error: Unknown tool: forcast. Did you mean `forecast`?
                  --> extensions/weather_test.star:8:5
                   |
                 8 |     testing.call("forcast", {})
                   |     ^^^^^^^^^^^^^^^^^^^^^^^^^^^

              FAILED test_broken
                error: Assertion failed: values differ (- expected, + actual)
                  {
                    "content": [
                      {
                        "type": "text",
                -       "text": "sunny",
                +       "text": "Key `\"key\"` was not found",
                      },
                    ],
                +   "isError": True,
                  }
                  --> extensions/weather_test.star:21:5
                    |
                 21 |     testing.eq({"content": [text("sunny")]}, testing.call("broken"))
                    |     ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
                log:
                  warning: `broken` of `weather` failed
                  error: Key `"key"` was not found
                    --> extensions/weather.star:21:83
                      |
                   21 |             Tool(name = "broken", description = "Fails", handler = lambda params: {}["key"]),
                      |                                                                                   ^^^^^^^^^

            3 passed, 3 failed, 0 skipped in 0 s
            --- stderr
        "#]],
    );
}

#[test]
fn http_mocks_answer_the_test_and_the_tools_it_calls() {
    check_weather(
        r#"
URL = "https://api.example.com/forecast"

def test_tool():
    testing.mock_http(URL, json = {"max": 21}, headers = {"X-Rate": "9"})
    testing.mock_env(API_KEY = "secret")
    result = testing.call("forecast", {"city": "São Paulo", "days": "3"})
    testing.eq({"days": 3, "max": 21}, result["structuredContent"])
    request = testing.http_requests()[0]
    testing.eq("GET", request["method"])
    testing.eq(URL + "?q=S%C3%A3o+Paulo", request["url"])
    testing.eq("secret", request["headers"]["x-key"])
    testing.eq(["asking for São Paulo"], [line["message"] for line in testing.logs()])

def test_in_turn():
    testing.mock_http(URL, status = 503, times = 1)
    testing.mock_http(URL, json = {"max": 1})
    testing.eq("the service says 503", testing.call("forecast", {"city": "x"})["content"][0]["text"])
    testing.eq(1, testing.call("forecast", {"city": "x"})["structuredContent"]["max"])

def test_methods_and_patterns():
    testing.mock_http("https://api.example.com/*/items", body = "listed", method = "get")
    testing.mock_http("https://api.example.com/*", status = 201, method = "POST")
    testing.mock_http("https://api.example.com/exact?a=1", body = "exact")
    testing.eq("listed", http.get("https://api.example.com/v1/items", params = {"page": 2})["body"])
    answer = http.post("https://api.example.com/v1/items", json_body = {"a": [1]})
    testing.eq((201, "", "https://api.example.com/v1/items"), (answer["status"], answer["body"], answer["url"]))
    testing.eq({"a": [1]}, testing.http_requests()[1]["json"])
    testing.eq("exact", http.get("https://api.example.com/exact", params = {"a": 1})["body"])
    http.put("https://api.example.com/exact", params = {"a": 2}, body = "x")

def test_used_up():
    testing.mock_http(URL, times = 1)
    http.get(URL)
    http.get(URL)

def test_permission():
    testing.mock_http("https://other.example.com")
    http.get("https://other.example.com")
"#,
        expect![[r#"
            exit 1
            --- stdout
            FAILED  extensions/weather_test.star: 2 passed, 3 failed
              FAILED test_methods_and_patterns
                error: no mock answers PUT https://api.example.com/exact?a=2; there are:
                  GET https://api.example.com/*/items
                  POST https://api.example.com/*
                  any method https://api.example.com/exact?a=1
                  --> extensions/weather_test.star:30:5
                    |
                 30 |     http.put("https://api.example.com/exact", params = {"a": 2}, body = "x")
                    |     ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^

              FAILED test_used_up
                error: no mock answers GET https://api.example.com/forecast; there are:
                  any method https://api.example.com/forecast (used up: times = 1)
                  --> extensions/weather_test.star:35:5
                    |
                 35 |     http.get(URL)
                    |     ^^^^^^^^^^^^^

              FAILED test_permission
                error: Host 'other.example.com' is not in allowed_hosts. Allowed hosts: ["api.example.com"]
                  --> extensions/weather_test.star:39:5
                    |
                 39 |     http.get("https://other.example.com")
                    |     ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^

            2 passed, 3 failed, 0 skipped in 0 s
            --- stderr
        "#]],
    );
}

#[test]
fn exec_mocks_need_the_extensions_permission() {
    check_weather(
        r#"
def test_tool():
    testing.mock_exec("date", stdout = "2024-05-01\n", args = ["+%F"])
    testing.eq("2024-05-01", testing.call("twice")["content"][0]["text"])
    testing.eq([("date", ["+%F"])], [(call["command"], call["args"]) for call in testing.exec_calls()])

def test_failure():
    testing.mock_exec("date", stderr = "no", exit_code = 3)
    answer = exec.run("date", stdin = "x")
    testing.eq((3, False, "no"), (answer["exit_code"], answer["success"], answer["stderr"]))
    testing.eq("x", testing.exec_calls()[0]["stdin"])

def test_real():
    testing.eq(10, len(testing.call("today")["content"][0]["text"]))

def test_unmatched():
    testing.mock_exec("date", args = ["-u"])
    testing.mock_exec("date", args = ["+%F"], times = 1)
    exec.run("date", ["+%F"])
    exec.run("date", ["+%F"])

def test_undeclared():
    testing.mock_exec("rm")
    exec.run("rm", ["-r", "/"])
"#,
        expect![[r#"
            exit 1
            --- stdout
            FAILED  extensions/weather_test.star: 3 passed, 2 failed
              FAILED test_unmatched
                error: no mock answers `date +%F`; there are:
                  date -u
                  date +%F (used up: times = 1)
                  --> extensions/weather_test.star:20:5
                    |
                 20 |     exec.run("date", ["+%F"])
                    |     ^^^^^^^^^^^^^^^^^^^^^^^^^

              FAILED test_undeclared
                error: Command 'rm' is not in the allowed exec whitelist. Allowed commands: ["date"]
                  --> extensions/weather_test.star:24:5
                    |
                 24 |     exec.run("rm", ["-r", "/"])
                    |     ^^^^^^^^^^^^^^^^^^^^^^^^^^^

            3 passed, 2 failed, 0 skipped in 0 s
            --- stderr
        "#]],
    );
}

#[test]
fn the_clock_the_variables_and_the_store_are_the_tests_own() {
    check_weather(
        r#"
def test_time():
    before = time.monotonic()
    testing.mock_time(1714564800.5)
    testing.eq("2024-05-01T12:00:00Z", time.iso())
    testing.eq(1714564800500, time.now_ms())
    store.set("short", 1, ttl = 60)
    sleep(59)
    testing.eq(1, store.get("short"))
    sleep(1)
    testing.eq(None, store.get("short"))
    testing.approx(60, time.monotonic() - before, abs = 5)
    testing.mock_time(0)
    testing.eq(0, time.now())

def test_time_is_real_again():
    testing.is_true(time.now() > 1714564860)

def test_env():
    testing.mock_env({"HOME": None}, CITY = "Oslo")
    testing.eq(("Oslo", "no home"), (env.get("CITY"), env.get("HOME", "no home")))

def test_env_is_real_again():
    testing.eq("", env.get("CITY"))
    testing.ne("", env.get("HOME"))

def test_store_is_shared_with_the_extension():
    testing.mock_exec("date")
    store.set("asked", 41)
    testing.call("today")
    testing.eq(42, store.get("asked"))

def test_store_starts_empty():
    testing.eq([], store.keys())

def test_logs():
    print("a", 1)
    log("b", level = "error", code = 7)
    testing.eq([
        {"level": "info", "message": "a 1", "fields": {}},
        {"level": "error", "message": "b", "fields": {"code": 7}},
    ], testing.logs())
"#,
        expect![[r#"
            exit 0
            --- stdout
            ok      extensions/weather_test.star: 7 passed
            7 passed, 0 failed, 0 skipped in 0 s
            --- stderr
        "#]],
    );
}

#[test]
fn a_test_without_a_namesake_may_do_what_the_extensions_it_loads_may() {
    let extension = |name: &str, command: &str| {
        format!(
            "name = \"{name}\"\nallowed_exec = [\"{command}\"]\n\ndef {name}():\n    \"\"\"Runs.\"\"\"\n    return exec.run(\"{command}\")[\"success\"]\n"
        )
    };
    let (one, two) = (extension("one", "true"), extension("two", "false"));
    check(
        &[
            ("extensions/one.star", &one),
            ("extensions/two.star", &two),
            ("extensions/lib/helper.star", "allowed_exec = [\"rm\"]\ndef remove():\n    exec.run(\"rm\")\n"),
            (
                "extensions/both_test.star",
                r#"
load("lib/helper.star", "remove")
load("one", "one")
load("two", "two")

allowed_exec = ["echo"]

def test_union():
    testing.eq((True, False), (one(), two()))

def test_own():
    testing.eq("hi\n", exec.run("echo", ["hi"])["stdout"])

def test_helpers_declare_nothing():
    remove()

def test_a_tool_has_only_its_own():
    testing.eq("false", testing.call("two")["content"][0]["text"])
"#,
            ),
            ("extensions/none_test.star", "def test_none():\n    exec.run(\"true\")\n"),
        ],
        &[],
        expect![[r#"
            exit 1
            --- stdout
            FAILED  extensions/both_test.star: 3 passed, 1 failed
              FAILED test_helpers_declare_nothing
                error: Command 'rm' is not in the allowed exec whitelist. Allowed commands: ["true", "false", "echo"]
                  --> extensions/lib/helper.star:3:5
                   |
                 3 |     exec.run("rm")
                   |     ^^^^^^^^^^^^^^
                  called from extensions/both_test.star:15:5 (`remove`)

            FAILED  extensions/none_test.star: 1 failed
              FAILED test_none
                error: Command 'true' cannot be executed: no exec whitelist configured for this extension. Add allowed_exec=['true'] to the Extension definition.
                  --> extensions/none_test.star:2:5
                   |
                 2 |     exec.run("true")
                   |     ^^^^^^^^^^^^^^^^

            3 passed, 2 failed, 0 skipped in 0 s
            --- stderr
        "#]],
    );
}

#[test]
fn projects_with_the_same_tools_can_be_tested_at_once() {
    let tool = "def hello():\n    \"\"\"Says hello.\"\"\"\n    return \"NAME\"\n";
    let test =
        "def test_hello():\n    testing.eq(\"NAME\", testing.call(\"hello\")[\"content\"][0][\"text\"])\n";
    check(
        &[
            ("a/x.star", &tool.replace("NAME", "a")),
            ("a/x_test.star", &test.replace("NAME", "a")),
            ("b/x.star", &tool.replace("NAME", "b")),
            ("b/x_test.star", &test.replace("NAME", "b")),
        ],
        &["a", "b/*_test.star"],
        expect![[r#"
            exit 0
            --- stdout
            ok      a/x_test.star: 1 passed
            ok      b/x_test.star: 1 passed
            2 passed, 0 failed, 0 skipped in 0 s
            --- stderr
        "#]],
    );
}

#[test]
fn a_filter_is_a_part_of_file_and_test() {
    let files = [
        ("extensions/a_test.star", "def test_one():\n    pass\n\ndef test_two():\n    pass\n"),
        ("extensions/b_test.star", "def test_one():\n    pass\n"),
    ];
    check(
        &files,
        &["-k", "a_test.star::test_o,two"],
        expect![[r#"
        exit 0
        --- stdout
        ok      extensions/a_test.star: 2 passed
        2 passed, 0 failed, 0 skipped in 0 s
        --- stderr
    "#]],
    );
    check(
        &files,
        &["-k", "three"],
        expect![[r#"
            exit 1
            --- stdout
            0 passed, 0 failed, 0 skipped in 0 s
            --- stderr
            error: none of the 3 tests in 2 files matches `-k three`
            hint: it is compared with `file::test`
        "#]],
    );
}

#[test]
fn fail_fast_says_what_was_not_run() {
    check(
        &[
            (
                "a_test.star",
                "def test_a():\n    pass\n\ndef test_b():\n    testing.fail(\"enough\")\n\ndef test_c():\n    pass\n",
            ),
            ("b_test.star", "def test_a():\n    pass\n\ndef test_b():\n    pass\n"),
        ],
        &["--fail-fast", "--jobs", "1", "."],
        expect![[r#"
            exit 1
            --- stdout
            FAILED  a_test.star: 1 passed, 1 failed, 1 not run
              FAILED test_b
                error: enough
                  --> a_test.star:5:5
                   |
                 5 |     testing.fail("enough")
                   |     ^^^^^^^^^^^^^^^^^^^^^^

            1 passed, 1 failed, 0 skipped, 3 not run in 0 s
            --- stderr
        "#]],
    );
}

#[test]
fn output_is_in_the_order_of_the_files_whoever_is_first() {
    let slow = "def test_slow():\n    for _ in range(200000):\n        pass\n";
    let quick = "def test_quick():\n    pass\n";
    let files = [
        ("extensions/a_test.star", slow),
        ("extensions/b_test.star", quick),
        ("extensions/c_test.star", slow),
        ("extensions/d_test.star", quick),
    ];
    check(
        &files,
        &["--jobs", "4"],
        expect![[r#"
        exit 0
        --- stdout
        ok      extensions/a_test.star: 1 passed
        ok      extensions/b_test.star: 1 passed
        ok      extensions/c_test.star: 1 passed
        ok      extensions/d_test.star: 1 passed
        4 passed, 0 failed, 0 skipped in 0 s
        --- stderr
    "#]],
    );
}

#[test]
fn a_test_that_spins_is_stopped_while_others_pass() {
    check(
        &[
            ("starloom.yaml", "paths: [extensions]\nlimits: {timeout: 0.2}\n"),
            (
                "extensions/a_test.star",
                "def test_spins():\n    for _ in range(1000000000):\n        pass\n\ndef test_after():\n    pass\n",
            ),
            ("extensions/b_test.star", "def test_waits():\n    sleep(1000)\n"),
            ("extensions/c_test.star", "def test_fine():\n    pass\n"),
        ],
        &[],
        expect![[r#"
            exit 1
            --- stdout
            FAILED  extensions/a_test.star: 1 passed, 1 failed
              FAILED test_spins
                error: stopped: took longer than 0.2 s
                hint: raise `limits.timeout` in the config

            FAILED  extensions/b_test.star: 1 failed
              FAILED test_waits
                error: stopped: took longer than 0.2 s
                hint: raise `limits.timeout` in the config

            ok      extensions/c_test.star: 1 passed
            2 passed, 2 failed, 0 skipped in 0 s
            --- stderr
        "#]],
    );
}

#[test]
fn no_tests_is_a_failure_unless_allowed() {
    check(
        &[("extensions/a.star", "x = 1\n")],
        &[],
        expect![[r#"
        exit 1
        --- stdout
        0 passed, 0 failed, 0 skipped in 0 s
        --- stderr
        error: no tests found in `extensions`
        hint: tests are functions `test_*` in files `*_test.star`; `--allow-empty` does without
    "#]],
    );
    check(
        &[],
        &[],
        expect![[r#"
        exit 1
        --- stdout
        --- stderr
        error: no tests found: no path given, and no ./starloom.yaml, ./extensions or ./llm/mcp here
        hint: run `starloom test PATH`
    "#]],
    );
    assert_eq!(Folder::new(&[("extensions/a.star", "x = 1\n")]).run(&["test", "--allow-empty"]).code, 0);
    assert_eq!(Folder::new(&[]).run(&["test", "--allow-empty"]).code, 0);
}

#[test]
fn what_cannot_be_read_is_not_a_failed_test() {
    check(
        &[("starloom.yaml", "pats: []\n")],
        &[],
        expect![[r#"
        exit 3
        --- stdout
        --- stderr
        error: starloom.yaml:1: unknown key `pats`
        hint: did you mean `paths`?
    "#]],
    );
    check(
        &[],
        &["missing_test.star"],
        expect![[r#"
        exit 3
        --- stdout
        --- stderr
        error: there is no file `missing_test.star`
    "#]],
    );
    assert_eq!(Folder::new(&[]).run(&["test", "--jobs", "0"]).code, 2);
}

#[test]
fn the_spelling_of_starlark_mcp_works() {
    let folder = Folder::new(&[("my/a_test.star", "def test_a():\n    testing.eq(1, 1)\n")]);
    let ran = folder.run(&["-t", "-e", "my"]);
    expect![[r#"
        exit 0
        --- stdout
        ok      my/a_test.star: 1 passed
        1 passed, 0 failed, 0 skipped in 0 s
        --- stderr
    "#]]
    .assert_eq(&timeless(&ran.all()));
}

/// Everything a report has to cope with: quotes, markup, control characters, several lines.
const AWKWARD: &[(&str, &str)] = &[
    (
        "extensions/a_test.star",
        "def test_fine():\n    print(\"not shown\")\n\ndef test_skipped():\n    testing.skip(\"a # b \\\\ <c>\")\n",
    ),
    (
        "extensions/b_test.star",
        "def test_assertion():\n    print(\"  first: <&>\\n]]> \\x1b[31m\\x00\")\n    testing.eq(\"<a href='x'>\\x07\\u2028</a>\", \"\\\"&amp;\\\"\")\n\ndef test_error():\n    fail(\"  # 1\\n  ---\\n# 2\\r\\n\\ttab\")\n",
    ),
    ("extensions/c_test.star", "load(\"none\", \"x\")\n"),
];

#[test]
fn json_is_an_object_a_line() {
    let ran = Folder::new(AWKWARD).run(&["test", "--format", "json"]);
    let events: Vec<Json> =
        ran.stdout.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let finished: Vec<&Json> = events.iter().filter(|event| event["event"] == "test_finished").collect();
    assert_eq!(finished[2]["failure"]["kind"], "assertion");
    assert_eq!(finished[2]["failure"]["location"]["line"], 3);
    assert_eq!(finished[2]["logs"][0]["message"], "  first: <&>\n]]> \u{1b}[31m\0");
    let brief: Vec<String> = events
        .iter()
        .map(|event| {
            let fields = [
                "event", "file", "name", "outcome", "tests", "selected", "passed", "failed", "skipped",
                "not_run",
            ];
            let known = fields.iter().filter_map(|field| event.get(field));
            known.map(|value| value.to_string().replace('"', "")).collect::<Vec<_>>().join(" ")
        })
        .collect();
    expect![[r#"
        started
        file_loaded extensions/a_test.star 2 2
        test_finished extensions/a_test.star test_fine passed
        test_finished extensions/a_test.star test_skipped skipped
        file_finished extensions/a_test.star 1 0 1 0
        file_loaded extensions/b_test.star 2 2
        test_finished extensions/b_test.star test_assertion failed
        test_finished extensions/b_test.star test_error failed
        file_finished extensions/b_test.star 0 2 0 0
        test_finished extensions/c_test.star (load) failed
        file_finished extensions/c_test.star 0 1 0 0
        finished 1 3 1 0
    "#]]
    .assert_eq(&(brief.join("\n") + "\n"));
}

#[test]
fn tap_is_well_formed() {
    let ran = Folder::new(AWKWARD).run(&["test", "--format", "tap"]);
    expect![[r##"
        TAP version 14
        ok 1 - extensions/a_test.star::test_fine
        ok 2 - extensions/a_test.star::test_skipped # SKIP a \# b \\ <c>
        not ok 3 - extensions/b_test.star::test_assertion
          ---
          message: "Assertion failed: expected \"<a href='x'>\\x07\\u2028</a>\", got \"\\\"&amp;\\\"\""
          severity: fail
          at: {file: "extensions/b_test.star", line: 3, column: 5}
          duration_ms: 0
          error: |2
            error: Assertion failed: expected "<a href='x'>\x07\u2028</a>", got "\"&amp;\""
              --> extensions/b_test.star:3:5
               |
             3 |     testing.eq("<a href='x'>\x07\u2028</a>", "\"&amp;\"")
               |     ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
          log: "info:   first: <&>\n]]> \u001b[31m\u0000"
          ...
        not ok 4 - extensions/b_test.star::test_error
          ---
          message: "# 1\n  ---\n# 2\r\n\ttab"
          severity: error
          at: {file: "extensions/b_test.star", line: 6, column: 5}
          duration_ms: 0
          error: "error: # 1\n  ---\n# 2\r\n\ttab\n  --> extensions/b_test.star:6:5\n   |\n 6 |     fail(\"  # 1\\n  ---\\n# 2\\r\\n\\ttab\")\n   |     ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^"
          ...
        not ok 5 - extensions/c_test.star::(load)
          ---
          message: "there is no `none` beside this file or below the source's root"
          severity: error
          at: {file: "extensions/c_test.star", line: 1, column: 6}
          duration_ms: 0
          error: |2
            error: there is no `none` beside this file or below the source's root
              --> extensions/c_test.star:1:6
               |
             1 | load("none", "x")
               |      ^^^^^^
          ...
        1..5
    "##]].assert_eq(&timeless(&ran.stdout));
    let blocks: Vec<&str> = ran.stdout.split("  ---\n").skip(1).collect();
    assert_eq!(blocks.len(), 3);
    for block in blocks {
        let block = block.split("\n  ...\n").next().expect("end");
        let block: Vec<&str> = block.lines().map(|line| line.strip_prefix("  ").unwrap_or(line)).collect();
        let yaml = Yaml::load_from_str(&block.join("\n")).expect("YAML");
        let rendered = yaml[0]["error"].as_str().expect("text");
        assert!(rendered.starts_with("error: "), "{rendered}");
    }
}

#[test]
fn junit_is_well_formed() {
    let ran = Folder::new(AWKWARD).run(&["test", "--format", "junit"]);
    expect![[r##"
        <?xml version="1.0" encoding="UTF-8"?>
        <testsuites name="starloom" tests="5" failures="1" errors="2" skipped="1" time="0">
          <testsuite name="extensions/a_test.star" tests="2" failures="0" errors="0" skipped="1" time="0">
            <testcase classname="extensions/a_test.star" name="test_fine" file="extensions/a_test.star" line="1" time="0"/>
            <testcase classname="extensions/a_test.star" name="test_skipped" file="extensions/a_test.star" line="4" time="0">
              <skipped message="a # b \ &lt;c&gt;"/>
            </testcase>
          </testsuite>
          <testsuite name="extensions/b_test.star" tests="2" failures="1" errors="1" skipped="0" time="0">
            <testcase classname="extensions/b_test.star" name="test_assertion" file="extensions/b_test.star" line="1" time="0">
              <failure message="Assertion failed: expected &quot;&lt;a href='x'&gt;\x07\u2028&lt;/a&gt;&quot;, got &quot;\&quot;&amp;amp;\&quot;&quot;" type="assertion">error: Assertion failed: expected &quot;&lt;a href='x'&gt;\x07\u2028&lt;/a&gt;&quot;, got &quot;\&quot;&amp;amp;\&quot;&quot;
          --&gt; extensions/b_test.star:3:5
           |
         3 |     testing.eq(&quot;&lt;a href='x'&gt;\x07\u2028&lt;/a&gt;&quot;, &quot;\&quot;&amp;amp;\&quot;&quot;)
           |     ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^</failure>
              <system-out>info:   first: &lt;&amp;&gt;
        ]]&gt; \u{1b}[31m\u{0}</system-out>
            </testcase>
            <testcase classname="extensions/b_test.star" name="test_error" file="extensions/b_test.star" line="5" time="0">
              <error message="# 1&#10;  ---&#10;# 2&#13;&#10;&#9;tab" type="error">error: # 1
          ---
        # 2&#13;
        	tab
          --&gt; extensions/b_test.star:6:5
           |
         6 |     fail(&quot;  # 1\n  ---\n# 2\r\n\ttab&quot;)
           |     ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^</error>
            </testcase>
          </testsuite>
          <testsuite name="extensions/c_test.star" tests="1" failures="0" errors="1" skipped="0" time="0">
            <testcase classname="extensions/c_test.star" name="(load)" file="extensions/c_test.star" line="1" time="0">
              <error message="there is no `none` beside this file or below the source's root" type="error">error: there is no `none` beside this file or below the source's root
          --&gt; extensions/c_test.star:1:6
           |
         1 | load(&quot;none&quot;, &quot;x&quot;)
           |      ^^^^^^</error>
            </testcase>
          </testsuite>
        </testsuites>
    "##]].assert_eq(&timeless(&ran.stdout));
    check_xml(&ran.stdout);
}

/// Elements are closed in order, attributes quoted, and no character is one that XML does not have.
fn check_xml(text: &str) {
    let is_allowed = |c: char| matches!(c, '\t' | '\n' | '\r' | ' '..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'..);
    assert!(text.chars().all(is_allowed));
    for reference in text.split('&').skip(1) {
        let name = reference.split(';').next().expect("name");
        assert!(["amp", "lt", "gt", "quot", "#10", "#13", "#9"].contains(&name), "&{name};");
    }
    let mut open = Vec::new();
    let mut rest = text.strip_prefix("<?xml version=\"1.0\" encoding=\"UTF-8\"?>").expect("prolog");
    while let Some((_, tag)) = rest.split_once('<') {
        let (tag, after) = tag.split_once('>').expect("end of tag");
        assert!(!tag.contains('<') && tag.matches('"').count() % 2 == 0, "{tag}");
        let name = tag.trim_start_matches('/').split([' ', '/']).next().expect("name");
        if tag.starts_with('/') {
            assert_eq!(open.pop(), Some(name));
        } else if !tag.ends_with('/') {
            open.push(name);
        }
        rest = after;
    }
    assert_eq!((open.len(), rest.trim()), (0, ""));
}

#[test]
fn the_guide_is_right() {
    let guide = include_str!("../../../../docs/guide/testing.md");
    let folder = Folder::new(&[]);
    let mut n_files = 0;
    for block in guide.split("```python\n").skip(1) {
        let block = block.split("```").next().expect("end of block");
        let name = block.lines().next().and_then(|line| line.strip_prefix("# ")).expect("name of the file");
        folder.write(name, block);
        n_files += 1;
    }
    let ran = folder.run(&["test"]);
    assert_eq!((ran.code, n_files), (0, 8), "{}", ran.all());
}

/// A run with `--watch`.
struct Watched {
    child: std::process::Child,
    stdout: Receiver<String>,
    stderr: Receiver<String>,
}

impl Watched {
    fn start(folder: &Folder) -> Watched {
        let mut command = folder.command(&["test", "--watch", "--jobs", "1"]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("start");
        let stdout = lines(child.stdout.take().expect("stdout"));
        let stderr = lines(child.stderr.take().expect("stderr"));
        Watched { child, stdout, stderr }
    }

    /// What the next run prints.
    fn next_run(&self) -> String {
        let waits = self.stderr.recv_timeout(PATIENCE).expect("a run");
        assert!(waits.ends_with("waiting for changes, Ctrl-C ends"), "{waits}");
        let mut out = String::new();
        while !out.contains(" skipped in ") {
            out += &(self.stdout.recv_timeout(PATIENCE).expect("output") + "\n");
        }
        timeless(&out)
    }

    fn end(mut self) -> Option<i32> {
        // SAFETY: the process is ours and has not been waited for.
        unsafe { libc::kill(self.child.id() as i32, libc::SIGINT) };
        self.child.wait().expect("end").code()
    }
}

fn lines(stream: impl std::io::Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            let _ = sender.send(line);
        }
    });
    receiver
}

#[test]
fn a_change_runs_again_what_it_concerns() {
    let folder = Folder::new(&[
        (
            "extensions/a.star",
            "load(\"lib/number.star\", \"number\")\n\ndef get():\n    \"\"\"Gets.\"\"\"\n    return number\n",
        ),
        ("extensions/lib/number.star", "number = 1\n"),
        ("extensions/a_test.star", "load(\"a\", \"get\")\n\ndef test_a():\n    testing.eq(1, get())\n"),
        ("extensions/b_test.star", "def test_b():\n    pass\n"),
        ("extensions/z_test.star", "def test_z():\n    testing.call(\"later\")\n"),
    ]);
    let watched = Watched::start(&folder);
    let first = watched.next_run();
    assert!(first.ends_with("2 passed, 1 failed, 0 skipped in 0 s\n"), "{first}");
    folder.write("extensions/b_test.star", "def test_b():\n    pass\n\ndef test_c():\n    pass\n");
    assert_eq!(
        watched.next_run(),
        "ok      extensions/b_test.star: 2 passed\n2 passed, 0 failed, 0 skipped in 0 s\n"
    );
    // What a test needed and did not find.
    folder.write("extensions/later.star", "def later():\n    \"\"\"Later.\"\"\"\n    return 1\n");
    assert_eq!(
        watched.next_run(),
        "ok      extensions/z_test.star: 1 passed\n1 passed, 0 failed, 0 skipped in 0 s\n"
    );
    folder.write("extensions/lib/number.star", "number = 2\n");
    let failed = watched.next_run();
    assert!(failed.contains("Assertion failed: expected 1, got 2"), "{failed}");
    assert_eq!(watched.end(), Some(0));
}

#[test]
fn an_interrupt_ends_what_a_test_started() {
    let folder = Folder::new(&[(
        "a_test.star",
        "allowed_exec = [\"sh\"]\n\ndef test_long():\n    exec.run(\"sh\", [\"-c\", \"echo $$ > pid; exec sleep 1000\"])\n\ndef test_never():\n    pass\n",
    )]);
    let mut command = folder.command(&["test", "a_test.star"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("start");
    let pid_file = folder.path().join("pid");
    let started = std::time::Instant::now();
    let pid: i32 = loop {
        assert!(started.elapsed() < PATIENCE, "the command was not started");
        if let Some(pid) = std::fs::read_to_string(&pid_file).ok().and_then(|text| text.trim().parse().ok()) {
            break pid;
        }
        std::thread::yield_now();
    };
    // SAFETY: the process is ours and has not been waited for.
    unsafe { libc::kill(child.id() as i32, libc::SIGINT) };
    let output = child.wait_with_output().expect("end");
    assert_eq!(output.status.code(), Some(1));
    expect!["0 passed, 0 failed, 0 skipped, 2 not run in 0 s\n"]
        .assert_eq(&timeless(&String::from_utf8_lossy(&output.stdout)));
    let stat = format!("/proc/{pid}/stat");
    // Dead and not yet collected is dead.
    let is_alive = || std::fs::read_to_string(&stat).is_ok_and(|stat| !stat.contains(") Z "));
    while is_alive() {
        assert!(started.elapsed() < PATIENCE, "the command lives on");
        std::thread::yield_now();
    }
}
