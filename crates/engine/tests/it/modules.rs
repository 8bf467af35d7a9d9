//! The builtin modules: what they return, what they ask of the host, and what they say to mistakes.

use expect_test::expect;
use serde_json::json;
use starloom_engine::{Effect, ErrorKind, Json};

use crate::support::{call_as_test, handler, take_effects};

/// Runs an expression, or statements with a `return`.
fn run(body: &str) -> Result<Json, starloom_engine::ScriptError> {
    call_as_test(&handler(body))
}

/// Tells all that is wrong, not just the first.
fn report(problems: Vec<String>) {
    assert!(problems.is_empty(), "{}", problems.join("\n\n"));
}

fn check(cases: &[(&str, Json)]) {
    let problems = cases.iter().filter_map(|(body, expected)| {
        // As texts: the order of keys and the form of numbers count.
        let expected = expected.to_string();
        match run(body).map(|json| json.to_string()) {
            Ok(found) if found == expected => None,
            Ok(found) => Some(format!("{body}\nexpected {expected}\nfound    {found}")),
            Err(error) => Some(format!("{body}\n{}", error.render())),
        }
    });
    report(problems.collect());
}

/// Each of these is `True`.
fn check_true(bodies: &[&str]) {
    check(&bodies.iter().map(|body| (*body, json!(true))).collect::<Vec<_>>());
}

/// An expectation that ends with `…` is a beginning.
fn check_errors(cases: &[(&str, &str)]) {
    let problems = cases.iter().filter_map(|(body, expected)| match run(body) {
        Ok(found) => Some(format!("{body}\nexpected {expected}\nfound a value: {found}")),
        Err(error) => {
            let fits = match expected.strip_suffix('…') {
                Some(beginning) => error.message.starts_with(beginning),
                None => error.message == *expected,
            };
            let fits = fits && !matches!(error.kind, ErrorKind::Panic);
            (!fits).then(|| format!("{body}\nexpected {expected}\nfound    {}", error.message))
        }
    });
    report(problems.collect());
}

/// The effect a call makes, without the keys that are null or empty.
fn check_effects(cases: &[(&str, Json)]) {
    fn without_nothing(json: Json) -> Json {
        match json {
            Json::Object(object) => object
                .into_iter()
                .filter(|(_, value)| !(value.is_null() || *value == json!([]) || *value == json!({})))
                .map(|(key, value)| (key, without_nothing(value)))
                .collect(),
            other => other,
        }
    }
    for (body, expected) in cases {
        take_effects();
        run(body).unwrap_or_else(|error| panic!("{body}\n{}", error.render()));
        let effect = take_effects().pop().unwrap_or_else(|| panic!("{body}: no effect"));
        // It survives the trip over a pipe, with all digits.
        let text = serde_json::to_string(&effect).expect("text");
        assert_eq!(serde_json::from_str::<Effect>(&text).expect("effect"), effect);
        let json = serde_json::to_value(&effect).expect("json");
        assert_eq!(serde_json::from_value::<Effect>(json.clone()).expect("effect"), effect);
        assert_eq!(without_nothing(json).to_string(), expected.to_string(), "{body}");
    }
}

#[test]
fn http() {
    check_effects(&[
        (
            r#"http.get("http://x/", {"q": "a b", "n": [1, 2.5], "skip": None, "t": True}, {"A": 1}, ("u", "p"))"#,
            json!({"http": {"method": "GET", "url": "http://x/",
                "params": [["q", "a b"], ["n", "1"], ["n", "2.5"], ["t", "True"]],
                "headers": [["A", "1"]], "auth": ["u", "p"], "body": "none",
            }}),
        ),
        (
            r#"http.delete("http://x/", timeout = 1, max_bytes = 10, max_redirects = 0)"#,
            json!({"http": {"method": "DELETE", "url": "http://x/", "body": "none",
                "timeout": 1.0, "max_bytes": 10, "max_redirects": 0,
            }}),
        ),
        (r#"http.head("u")"#, json!({"http": {"method": "HEAD", "url": "u", "body": "none"}})),
        (r#"http.options("u")"#, json!({"http": {"method": "OPTIONS", "url": "u", "body": "none"}})),
        // As plane.star calls it.
        (
            r#"http.post("u", None, {"A": "b"}, "text", None, None, None)"#,
            json!({"http": {"method": "POST", "url": "u", "headers": [["A", "b"]], "body": {"text": "text"},
            }}),
        ),
        (
            r#"http.put("u", json_body = {"n": (1, 2.5, None)}, form_body = {"a": 1}, body = "x")"#,
            json!({"http": {"method": "PUT", "url": "u", "body": {"json": {"n": [1, 2.5, null]}}}}),
        ),
        (
            r#"http.patch("u", form_body = {"a": 1, "b": ["c", "d"]}, body = "x")"#,
            json!({"http": {"method": "PATCH", "url": "u",
                "body": {"form": [["a", "1"], ["b", "c"], ["b", "d"]]},
            }}),
        ),
        // Text that is JSON already goes out as it was written.
        (
            r#"http.post("u", json_body = '{"a":  1}')"#,
            json!({"http": {"method": "POST", "url": "u",
                "headers": [["Content-Type", "application/json"]], "body": {"text": "{\"a\":  1}"},
            }}),
        ),
        (
            r#"http.post("u", headers = {"content-type": "application/ld+json"}, json_body = "[]")"#,
            json!({"http": {"method": "POST", "url": "u",
                "headers": [["content-type", "application/ld+json"]], "body": {"text": "[]"},
            }}),
        ),
        (
            r#"http.post("u", json_body = "no json")"#,
            json!({"http": {"method": "POST", "url": "u", "body": {"json": "no json"}}}),
        ),
        (
            r#"http.post("u", body = b"bytes")"#,
            json!({"http": {"method": "POST", "url": "u", "body": {"text": "bytes"}}}),
        ),
    ]);
    let body = r#"{"n": 12345678901234567890}"#;
    check(&[
        (
            r#"http.get("http://x/y")"#,
            json!({
                "status_code": 200, "status": 200, "body": body, "headers": {"a": "b"}, "url": "http://x/y",
                "success": true, "json": {"n": 12_345_678_901_234_567_890_u64},
            }),
        ),
        (
            r#"http.get("http://x/binary")"#,
            json!({
                "status_code": 404, "status": 404, "body": "\u{fffd}\u{0}a", "headers": {"content-type": "image/png"},
                "url": "http://x/binary", "success": false, "body_base64": "/wBh",
            }),
        ),
    ]);
    check_errors(&[
        (r#"http.get("u", [1])"#, "params must be a dict, got: list"),
        (r#"http.get("u", headers = "a: b")"#, "headers must be a dict, got: string"),
        (r#"http.post("u", form_body = [])"#, "form_body must be a dict, got: list"),
        (r#"http.get("u", auth = "ab")"#, "auth must be a tuple of (username, password)"),
        (r#"http.get("u", auth = ("a", "b", "c"))"#, "auth must be a tuple of (username, password)"),
        (r#"http.get("u", timeout = 0)"#, "http.get: timeout must be a positive number of seconds"),
        (r#"http.put("u", max_bytes = -1)"#, "http.put: max_bytes must be an integer of at least 0, got: -1"),
        (r#"http.put("u", body = b"\xff")"#, "body must be text: these bytes are not UTF-8"),
        (
            r#"http.put("u", json_body = {"f": len})"#,
            "json_body: at $.f: a `function` cannot be represented in JSON",
        ),
        (r#"http.get("http://x/fail")"#, "Request failed: no route to host"),
        (r#"http.get(1)"#, "Type of parameter `url` doesn't match, expected `str`, actual `int (repr: 1)`"),
    ]);
}

#[test]
fn databases() {
    check_effects(&[
        (
            r#"sqlite.query("a.db", "select ?", [None, True, 1 << 70, 1.5, "s", [1], {"a": 1}])"#,
            serde_json::from_str(
                r#"{"sqlite": {"path": "a.db", "operation": {"query": {"sql": "select ?",
                    "params": {"positional": [null, true, 1180591620717411303424, 1.5, "s", [1], {"a": 1}]}}}}}"#,
            )
            .expect("json"),
        ),
        (
            r#"sqlite.execute(db_path = "a.db", statement = "x", params = {"a": 1})"#,
            json!({"sqlite": {"path": "a.db",
                "operation": {"execute": {"sql": "x", "params": {"named": {"a": 1}}}},
            }}),
        ),
        (
            r#"sqlite.query("a.db", "x", params = range(2))"#,
            json!({"sqlite": {"path": "a.db",
                "operation": {"query": {"sql": "x", "params": {"positional": [0, 1]}}},
            }}),
        ),
        (
            r#"sqlite.list_tables("a.db")"#,
            json!({"sqlite": {"path": "a.db", "operation": {"list_tables": {}}}}),
        ),
        (
            r#"sqlite.describe_table("a.db", "t")"#,
            json!({"sqlite": {"path": "a.db", "operation": {"describe_table": {"table": "t"}}}}),
        ),
        (
            r#"postgres.query("c", "x", (1,), timeout = 2)"#,
            json!({"postgres": {"connection": "c",
                "operation": {"query": {"sql": "x", "params": {"positional": [1]}}}, "timeout": 2.0,
            }}),
        ),
        (
            r#"postgres.execute("c", statement = "x", params = ["a"])"#,
            json!({"postgres": {"connection": "c",
                "operation": {"execute": {"sql": "x", "params": {"positional": ["a"]}}},
            }}),
        ),
        (
            r#"postgres.list_tables("c")"#,
            json!({"postgres": {"connection": "c", "operation": {"list_tables": {"schema": "public"}}}}),
        ),
        (
            r#"postgres.describe_table("c", "t", "s")"#,
            json!({"postgres": {"connection": "c",
                "operation": {"describe_table": {"table": "t", "schema": "s"}},
            }}),
        ),
    ]);
    check(&[(r#"sqlite.query("a.db", "x")"#, json!([{"n": 1}]))]);
    check_errors(&[
        (
            r#"sqlite.query("a.db", "x", "abc")"#,
            "sqlite.query: params must be a list, a tuple or a dict, got: string",
        ),
        (
            r#"sqlite.query("a.db", "x", [b"a"])"#,
            "sqlite.query: params: at $[0]: JSON has no bytes; use `base64.encode`",
        ),
        (
            r#"postgres.query("c", "x", {"a": 1})"#,
            "postgres.query: Postgres has no named parameters; use `$1`, `$2` and a list, got: dict",
        ),
        (
            r#"postgres.execute("c", "x", timeout = -1)"#,
            "postgres.execute: timeout must be a positive number of seconds",
        ),
    ]);
}

#[test]
fn store() {
    check_effects(&[
        (r#"store.get("k")"#, json!({"store": {"get": {"key": "k"}}})),
        (
            r#"store.set("k", {"a": [1]}, ttl = 60)"#,
            json!({"store": {"set": {"key": "k", "value": {"a": [1]}, "ttl": 60.0}}}),
        ),
        (r#"store.delete("k")"#, json!({"store": {"delete": {"key": "k"}}})),
        (r#"store.keys("p:")"#, json!({"store": {"keys": {"prefix": "p:"}}})),
        (r#"store.increment("k")"#, json!({"store": {"increment": {"key": "k", "by": 1}}})),
        (
            r#"store.increment("k", -5, 1.5)"#,
            json!({"store": {"increment": {"key": "k", "by": -5, "ttl": 1.5}}}),
        ),
        (
            r#"store.compare_and_set("k", 1, "b")"#,
            json!({"store": {"compare_and_set": {"key": "k", "expected": 1, "value": "b"}}}),
        ),
    ]);
    check(&[
        (r#"[store.get("known"), store.get("k"), store.get("k", 7)]"#, json!([{"n": 1}, null, 7])),
        (
            r#"[store.set("k", 1), store.delete("k"), store.keys(), store.increment("k", 3)]"#,
            json!([null, true, ["a", "b"], 3]),
        ),
    ]);
    check_errors(&[
        (r#"store.get("")"#, "store.get: the key must not be empty"),
        (r#"store.set("k", 1, ttl = 0)"#, "store.set: ttl must be a positive number of seconds"),
        (r#"store.set("k", len)"#, "store.set: value: at $: a `function` cannot be represented in JSON"),
        (
            r#"store.increment("k", 1 << 64)"#,
            "Error unpacking value for parameter `by` of type `int: Integer value is too big to fit in i64: …",
        ),
    ]);
}

#[test]
fn math() {
    check(&[
        ("[math.pow(2, 10), math.sqrt(16), math.abs(-5), math.exp(0)]", json!([1024.0, 4.0, 5.0, 1.0])),
        ("[math.ceil(1.2), math.floor(-1.2), math.trunc(-1.7), math.ceil(7)]", json!([2, -2, -1, 7])),
        (
            "[math.round(2.5), math.round(-2.5), math.round(2.345, 2), math.round(1.5, 400)]",
            json!([3.0, -3.0, 2.35, 1.5]),
        ),
        (
            "[math.floor(1e18), math.floor(-1e18)]",
            json!([1_000_000_000_000_000_000_i64, -1_000_000_000_000_000_000_i64]),
        ),
        ("[math.gcd(12, -18), math.gcd(0, 5), math.gcd(0, 0)]", json!([6, 5, 0])),
        ("[math.log2(8), math.log10(1000), math.log(8, 2), math.log(1)]", json!([3.0, 3.0, 3.0, 0.0])),
        ("[math.fmod(-7, 3), math.hypot(3, 4), math.atan2(0, 1)]", json!([-1.0, 5.0, 0.0])),
        (
            "[math.isnan(math.nan), math.isinf(-math.inf), math.isinf(1 << 5000), math.isnan(1)]",
            json!([true, true, false, false]),
        ),
    ]);
    check_true(&[
        // The author's digits, not a float's.
        "math.floor(1e22) == 10000000000000000000000 and math.ceil(-1e300) == -int(1e300)",
        "math.floor(123456789012345678901234567890) == 123456789012345678901234567890",
        "math.gcd((1 << 200) * 6, (1 << 201) * 9) == (1 << 200) * 6",
        "math.round(math.log2(1 << 5000), 9) == 5000.0",
        "math.round(math.log10(10000000000000000000000000 * (1 << 4000)), 6) == math.round(25 + 4000 * math.log10(2), 6)",
        "math.pi > 3.14159 and math.e < 2.72",
        "math.round(math.sin(math.pi / 2) + math.cos(0) + math.tan(0), 9) == 2.0",
        "math.round(math.asin(1) + math.acos(1) + math.atan(0), 9) == math.round(math.pi / 2, 9)",
    ]);
    check_errors(&[
        ("math.sqrt(-1)", "math domain error: sqrt of negative number"),
        ("math.round(1, -1)", "decimals must be non-negative"),
        ("math.log(0)", "math domain error: log of a number that is not positive"),
        ("math.log10(-5)", "math domain error: log10 of a number that is not positive"),
        ("math.log(2, 1)", "math domain error: log to the base 1"),
        ("math.asin(2)", "math domain error: asin of a number outside of -1 to 1"),
        ("math.acos(-1.5)", "math domain error: acos of a number outside of -1 to 1"),
        ("math.pow(-8, 0.5)", "math domain error: pow of a negative number to a fraction"),
        ("math.fmod(1, 0)", "math domain error: fmod by zero"),
        ("math.sin(math.inf)", "math domain error: sin of an infinite number"),
        ("math.floor(math.nan)", "math.floor: NaN is not a finite number"),
        (
            "math.ceil(\"x\")",
            "Type of parameter `x` doesn't match, expected `float | int`, actual `string (repr: \"x\")`",
        ),
    ]);
}

#[test]
fn fuzzy() {
    check(&[
        (r#"fuzzy.search("ab", ["xx", "a_b", "ab", 5])"#, json!(["ab", "a_b"])),
        (r#"fuzzy.search("ab", ["a_b", "ab"], limit = 1)"#, json!(["ab"])),
        (r#"fuzzy.search("", ["b", "a"], limit = 0)"#, json!(["b", "a"])),
        (r#"fuzzy.search("A", ["a", "A"])"#, json!(["A"])),
        (
            r#"[i["n"] for i in fuzzy.search("x", [{"n": "x1", "d": "q"}, {"n": "q", "d": "x2"}])]"#,
            json!(["x1", "q"]),
        ),
        (
            r#"[i["n"] for i in fuzzy.search("x", [{"n": "x1", "d": "q"}, {"n": "q", "d": "x2"}], key = "d")]"#,
            json!(["q"]),
        ),
        (r#"len(fuzzy.search("x", [{"n": "x1", "d": "q", "i": 1}], keys = ["n", "missing"]))"#, json!(1)),
        (r#"fuzzy.search_with_scores("ab", ["ab"])[0]["item"]"#, json!("ab")),
        (r#"type(fuzzy.search_with_scores("ab", ["ab"])[0]["score"])"#, json!("int")),
    ]);
    check_errors(&[
        (
            r#"fuzzy.search("x", [], key = "a", keys = ["b"])"#,
            "fuzzy.search: cannot specify both 'key' and 'keys' parameters",
        ),
        (r#"fuzzy.search("x", [], keys = "ab")"#, "fuzzy.search: keys must be a list of strings"),
        (
            r#"fuzzy.search_with_scores("x", [], keys = [1])"#,
            "fuzzy.search_with_scores: keys must be a list of strings",
        ),
        (r#"fuzzy.search("x", [], key = 1)"#, "fuzzy.search: key must be a string"),
        (r#"fuzzy.search("x", [], limit = "a")"#, "fuzzy.search: limit must be an integer"),
        (r#"fuzzy.search("x", 5)"#, "fuzzy.search: items must be iterable: got int"),
        (
            r#"fuzzy.search("x" * 100000, ["x" * 100000])"#,
            "fuzzy.search: a query of 100000 characters is too long…",
        ),
    ]);
}

#[test]
fn time() {
    check(&[
        ("[time.now(), time.now_ms(), time.monotonic()]", json!([1_700_000_000, 1_700_000_000_123_i64, 5.0])),
        (
            "[time.iso(), time.iso(0), time.iso(1.5)]",
            json!(["2023-11-14T22:13:20Z", "1970-01-01T00:00:00Z", "1970-01-01T00:00:01.5Z"]),
        ),
        (
            r#"[time.iso(0, "Europe/Berlin"), time.iso(0, tz = "-05:30")]"#,
            json!(["1970-01-01T01:00:00+01:00", "1969-12-31T18:30:00-05:30"]),
        ),
        (
            r#"[time.format(0), time.format(86399, "%d.%m.%y %H:%M"), time.format(0, "%A %Z", "America/New_York")]"#,
            json!(["1970-01-01T00:00:00Z", "01.01.70 23:59", "Wednesday EST"]),
        ),
        (
            r#"[time.parse("2024-02-29"), time.parse("2024-02-29T12:00:00+02:00"), time.parse("1970-01-01 00:00:01.25Z")]"#,
            json!([1_709_164_800, 1_709_200_800, 1.25]),
        ),
        (
            r#"[time.parse("Thu, 29 Feb 2024 12:00:00 GMT"), time.parse("2024-02-29", tz = "Asia/Tokyo")]"#,
            json!([1_709_208_000, 1_709_164_800 - 9 * 3600]),
        ),
        (
            r#"[time.parse("29/02/2024", "%d/%m/%Y"), time.parse("5", "%s"), time.parse("2024-02-29T00:00:00Z", "%Y-%m-%dT%H:%M:%SZ")]"#,
            json!([1_709_164_800, 5, 1_709_164_800]),
        ),
        (r#"time.parse("2024-02-29 01:00 +01:00", "%F %H:%M %:z", tz = "Asia/Tokyo")"#, json!(1_709_164_800)),
        (r#"time.parse(time.iso(1700000000.25, "Asia/Kolkata"))"#, json!(1_700_000_000.25)),
    ]);
    check_errors(&[
        (
            r#"time.iso(0, "Europe/Berlim")"#,
            "time.iso: there is no time zone `Europe/Berlim`; did you mean `Europe/Berlin`?",
        ),
        (
            r#"time.format(0, tz = "")"#,
            "time.format: there is no time zone ``; use a name such as `Europe/Berlin`, or an offset such as `+02:00`",
        ),
        (r#"time.format(0, "%!")"#, "time.format: `%!` is not a format: …"),
        (r#"time.iso(1 << 80)"#, "time.iso: the timestamp is outside of the years -9999 to 9999"),
        (r#"time.iso(math.nan)"#, "time.iso: the timestamp is outside of the years -9999 to 9999"),
        (
            r#"time.parse("yesterday")"#,
            "time.parse: `yesterday` is neither RFC 3339 (2024-05-01T12:00:00Z), nor a date…",
        ),
        (r#"time.parse("2024-02-30")"#, "time.parse: `2024-02-30` is neither…"),
        (r#"time.parse("x", "%Y")"#, "time.parse: `x` is not of the format `%Y`: …"),
        (r#"time.parse("12", "%H")"#, "time.parse: `12` read as `%H` gives no date: …"),
    ]);
}

#[test]
fn re() {
    check(&[
        (
            r#"re.match("(?P<y>\\d+)-(\\w)?", "2024-x é")"#,
            json!({"text": "2024-x", "start": 0, "end": 6, "groups": ["2024", "x"], "named": {"y": "2024"}}),
        ),
        (
            r#"[re.match("b", "ab"), re.search("b", "ab").start, re.full_match("a", "ab"), re.full_match("a|ab", "ab").end]"#,
            json!([null, 1, null, 2]),
        ),
        // Positions are those of the language's own slices.
        (
            r#"[(m.start, m.end, "äöü äx"[m.start:m.end]) for m in re.find_all("ä.", "äöü äx")]"#,
            json!([[0, 2, "äö"], [4, 6, "äx"]]),
        ),
        (r#"[m.groups for m in re.find_all("(a)|(b)", "ab")]"#, json!([["a", null], [null, "b"]])),
        (
            r#"re.sub("(\\w+)@(?P<host>\\w+)", "\\g<host> at \\1$1\\\\", "me@x you@y")"#,
            json!("x at me$1\\ y at you$1\\"),
        ),
        (
            r#"[re.sub("a", "b", "aaa", 2), re.sub("a", "b", "aaa", count = 0), re.sub("", "-", "é1")]"#,
            json!(["bba", "bbb", "-é-1-"]),
        ),
        (r#"re.sub("\\d", lambda m: str(int(m.text) + 1) + m.text, "a1b2")"#, json!("a21b32")),
        (
            r#"[re.split(",\\s*", "a, b,c"), re.split("(-)", "a-b"), re.split(",", "a,b,c", 1), re.split("", "ab")]"#,
            json!([["a", "b", "c"], ["a", "-", "b"], ["a", "b,c"], ["", "a", "b", ""]]),
        ),
        (
            r#"[re.escape("a.b*"), re.full_match(re.escape("a.b*"), "a.b*").text]"#,
            json!(["a\\.b\\*", "a.b*"]),
        ),
        (r#"re.match("(?x) a  # the letter", "ab").text"#, json!("a")),
        (r#"re.full_match("(?i)ä", "Ä").text"#, json!("Ä")),
    ]);
    check_errors(&[
        (r#"re.search("a(b", "x")"#, "re.search: bad pattern `a(b`: unclosed group"),
        (
            r#"re.match("(?=a)", "x")"#,
            "re.match: bad pattern `(?=a)`: look-around, including look-ahead and look-behind, is not supported",
        ),
        (
            r#"re.search("\\w{1000}{1000}", "x")"#,
            "re.search: the pattern `\\w{1000}{1000}` is too large: repeat less",
        ),
        (r#"re.search("a" * 200000, "x")"#, "re.search: the pattern `aaa…"),
        (r#"re.sub("a", "\\2", "a")"#, "re.sub: the pattern `a` has no group `2`"),
        (r#"re.sub("a", "\\g<n>", "a")"#, "re.sub: the pattern `a` has no group `n`"),
        (
            r#"re.sub("a", "\\q", "a")"#,
            "re.sub: `\\q` in the replacement `\\q` means nothing; write `\\\\` for a backslash",
        ),
        (r#"re.sub("a", "x\\", "a")"#, "re.sub: the replacement `x\\` ends with a lone `\\`"),
        (r#"re.sub("a", lambda m: 5, "a")"#, "re.sub: the replacement function returned a `int`, not text"),
        (r#"re.sub("a", "b", "a", -1)"#, "re.sub: count must not be negative"),
        (r#"re.split("a", "a", maxsplit = -1)"#, "re.split: maxsplit must not be negative"),
    ]);
    // More patterns than the cache holds.
    check_true(&[
        r#"all([re.match(str(n) + "$", str(n)) != None for n in list(range(100)) + list(range(100))])"#,
    ]);
}

#[test]
fn base64_crypto_and_url() {
    check(&[
        (
            r#"[base64.encode("ä?>"), base64.encode(b"\xff\xfe"), base64.decode("w6Q/Pg=="), base64.decode("w6Q/\nPg")]"#,
            json!(["w6Q/Pg==", "//4=", "ä?>", "ä?>"]),
        ),
        (
            r#"[base64.url_encode("ä?>"), base64.url_decode("w6Q_Pg"), base64.url_decode("w6Q_Pg==")]"#,
            json!(["w6Q_Pg", "ä?>", "ä?>"]),
        ),
        (
            r#"[base64.decode_bytes("//4=") == b"\xff\xfe", base64.decode_bytes("__4") == b"\xff\xfe"]"#,
            json!([true, true]),
        ),
        (r#"crypto.sha256("")"#, json!("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855")),
        (
            r#"[crypto.sha1("abc"), crypto.md5(b"abc")]"#,
            json!(["a9993e364706816aba3e25717850c26c9cd0d89d", "900150983cd24fb0d6963f7d28e17f72"]),
        ),
        (r#"crypto.sha512("abc")[:16]"#, json!("ddaf35a193617aba")),
        (
            r#"crypto.sha256("abc", encoding = "base64")"#,
            json!("ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0="),
        ),
        (
            r#"crypto.hmac_sha256("key", "The quick brown fox jumps over the lazy dog")"#,
            json!("f7bc83f430538424b13298e6aa6fb143ef4d59a14946175997479dbc2d1a3cd8"),
        ),
        (
            r#"[crypto.hmac_sha1("key", b"The quick brown fox jumps over the lazy dog"), crypto.hmac_sha512("", "")[:8]]"#,
            json!(["de7c9b85b8b78aa6bc8a7a36f70a90701c9db4d9", "b936cee8"]),
        ),
        (
            r#"[crypto.equal("a", b"a"), crypto.equal("a", "b"), crypto.equal("a", "aa")]"#,
            json!([true, false, false]),
        ),
        (
            r#"url.parse("https://me:pw@Example.com/a%20b?x=1&y#top")"#,
            json!({
                "scheme": "https", "host": "example.com", "port": 443, "path": "/a%20b", "query": "x=1&y",
                "fragment": "top", "username": "me",
            }),
        ),
        (
            r#"[url.parse("http://[::1]:8080")[k] for k in ["host", "port", "path", "query"]]"#,
            json!(["[::1]", 8080, "/", ""]),
        ),
        (r#"url.parse("mailto:a@b")["port"]"#, json!(null)),
        (
            r#"[url.encode("a/b c&é~"), url.decode("a%2Fb%20c%26%c3%A9+%zz%"), url.encode("")]"#,
            json!(["a%2Fb%20c%26%C3%A9~", "a/b c&é+%zz%", ""]),
        ),
        (
            r#"[url.encode_query({"a b": [1, "x&y"], "n": None, "é": True}), url.encode_query({})]"#,
            json!(["a+b=1&a+b=x%26y&%C3%A9=True", ""]),
        ),
        (r#"url.parse_query("?a=1&b=x+y%26&a=2&c")"#, json!({"a": ["1", "2"], "b": ["x y&"], "c": [""]})),
        (
            r#"[url.join("http://x/a/b", "../c?d"), url.join("http://x/a", "http://y"), url.join("http://x/a", "")]"#,
            json!(["http://x/c?d", "http://y/", "http://x/a"]),
        ),
    ]);
    check_errors(&[
        ("base64.encode(5)", "base64.encode: data must be a string or bytes, got: int"),
        (
            r#"base64.decode("//4=")"#,
            "base64.decode: the bytes are not UTF-8 text; use `base64.decode_bytes`",
        ),
        (
            r#"base64.decode("w6Q_Pg")"#,
            "base64.decode: not base64: Invalid symbol 95, offset 3.; use `base64.url_decode` for text with `-` and `_`",
        ),
        (
            r#"base64.url_decode("w6Q/Pg")"#,
            "base64.url_decode: not base64: Invalid symbol 47, offset 3.; use `base64.decode` for text with `+` and `/`",
        ),
        (r#"base64.decode_bytes("!")"#, "base64.decode_bytes: not base64: …"),
        ("crypto.sha256(None)", "crypto.sha256: data must be a string or bytes, got: NoneType"),
        (
            r#"crypto.md5("a", encoding = "b64")"#,
            "crypto.md5: encoding must be \"hex\" or \"base64\", got: \"b64\"",
        ),
        (r#"crypto.hmac_sha1("a", 1)"#, "crypto.hmac_sha1: message must be a string or bytes, got: int"),
        ("crypto.equal(1, 2)", "crypto.equal: a must be a string or bytes, got: int"),
        (r#"url.parse("/a")"#, "url.parse: `/a` is not a URL: relative URL without a base"),
        (r#"url.decode("%ff")"#, "url.decode: `%ff` does not stand for UTF-8 text"),
        (r#"url.encode_query([1])"#, "url.encode_query: params must be a dict, got: list"),
        (r#"url.join("a", "b")"#, "url.join: `a` is not a URL: relative URL without a base"),
    ]);
}

#[test]
fn yaml() {
    check(&[
        (
            r#"yaml.decode("a: 1\nb: [x, 'y', \"z\\n\"]\nc:\n  - d: ~\n    e: 2.50\n  - true\nf: |\n  l1\n  l2\n")"#,
            json!({"a": 1, "b": ["x", "y", "z\n"], "c": [{"d": null, "e": 2.5}, true], "f": "l1\nl2\n"}),
        ),
        (
            r#"yaml.decode("[0x1F, 0o17, 007, +5, -0, 1e3, .5, 5., 1_000, 0x, 12:30, 2024-01-01, yes, '12', !!str 12, !!int '7', !Ref x, 1.2.3, +, '']")"#,
            json!([
                31,
                15,
                7,
                5,
                0,
                1000.0,
                0.5,
                5.0,
                "1_000",
                "0x",
                "12:30",
                "2024-01-01",
                "yes",
                "12",
                "12",
                7,
                "x",
                "1.2.3",
                "+",
                ""
            ]),
        ),
        (
            r#"[yaml.decode(""), yaml.decode(" # only\n"), yaml.decode("---\n"), yaml.decode_all(""), yaml.decode_all("a\n---\n- b\n")]"#,
            json!([null, null, null, [], ["a", ["b"]]]),
        ),
        (
            r#"yaml.decode("1: a\ntrue: b\nnull: c\n2.5: d\n")"#,
            json!({"1": "a", "true": "b", "null": "c", "2.5": "d"}),
        ),
        (
            r#"yaml.decode("base: &b {x: 1, y: 2}\none: {<<: *b, y: 3}\ntwo: {<<: [{z: 0}, *b]}\n'<<': 4\n")"#,
            json!({
                "base": {"x": 1, "y": 2}, "one": {"y": 3, "x": 1}, "two": {"z": 0, "x": 1, "y": 2}, "<<": 4,
            }),
        ),
        (
            r#"yaml.encode({"s": "plain text, fine", "q": "a: b", "l": [1, 2.5, None, True], "e": [[], {}, ""], "m": [{"a": 1, "b": [2]}, [3]], "t": "l1\n  l2\n", "w": ["true", "12", "-x", ">", " a", "é", "x\n\n"]})"#,
            json!(
                "s: plain text, fine\nq: \"a: b\"\nl:\n  - 1\n  - 2.5\n  - null\n  - true\ne:\n  - []\n  - {}\n  - \"\"\nm:\n  - a: 1\n    b:\n      - 2\n  - - 3\nt: |\n  l1\n    l2\nw:\n  - \"true\"\n  - \"12\"\n  - \"-x\"\n  - \">\"\n  - \" a\"\n  - é\n  - \"x\\n\\n\"\n"
            ),
        ),
        (
            r#"[yaml.encode("a\nb"), yaml.encode([]), yaml.encode(struct(a = (1,)))]"#,
            json!(["\"a\\nb\"\n", "[]\n", "a:\n  - 1\n"]),
        ),
    ]);
    check_true(&[
        "yaml.decode('[123456789012345678901234567890, -0x10, 0xffffffffffffffffffff]') == [123456789012345678901234567890, '-0x10', 1208925819614629174706175]",
        "math.isinf(yaml.decode('-.inf')) and math.isnan(yaml.decode('.NaN'))",
        // What is written is read back, whatever it looks like.
        r##"v = [" ", "a\tb", "\n", "a\n", "a\n\nb", "a\n b\n", "a\n \nb", "\ta\nb", "a\r\nb", "\\", '"', "'", "---", "...\n", "a #b", "a#b", "a:", "a:b", "http://x/y?z", "\u0085", "\u2028", "\ufeff", "\x7f", "null", "Null", "~", "NO", "y", "1e5", "0x1", "1_0", ".5", "-", "- a", "? a", "! a", "&a", "*a", "%a", "@a", "`a", "{a", "[a", "|", ">", "=", "<<", "a\n---\nb\n", "日本", "😀", "a" * 3000]
w = {"k" * 2000: v, "": [v, {"x": v}], "a\nb": {"c: d": [[v]]}, "é #": -1.5e-300, "n": 1 << 100}
return [x for x in v if yaml.decode(yaml.encode(x)) != x or yaml.decode(yaml.encode([[x]])) != [[x]]] == [] and yaml.decode(yaml.encode(w)) == w"##,
    ]);
    check_errors(&[
        (
            r#"yaml.decode("a: b: c")"#,
            "yaml.decode: line 1, column 5: mapping values are not allowed in this context",
        ),
        (r#"yaml.decode("a\n---\nb")"#, "yaml.decode: the text has 2 documents; use `yaml.decode_all`"),
        (r#"yaml.decode("a: 1\nb: 2\na: 3")"#, "yaml.decode: line 3, column 1: the key `a` occurs twice"),
        (
            r#"yaml.decode("[1, 2]: 3")"#,
            "yaml.decode: line 1, column 1: a key must be a scalar, not a list or a map",
        ),
        (r#"yaml.decode("a: *x")"#, "yaml.decode: line 1, column 4: …"),
        (r#"yaml.decode("&a [*a]")"#, "yaml.decode: line 1, column 5: an alias inside of its own anchor"),
        (r#"yaml.decode("a: {<<: 5}")"#, "yaml.decode: line 1, column 5: `<<` takes a map or a list of maps"),
        (r#"yaml.decode("!!int x")"#, "yaml.decode: line 1, column 1: `x` is not a !!int"),
        (
            r#"yaml.decode("1e999")"#,
            "yaml.decode: line 1, column 1: the number 1e999 is too large for a float",
        ),
        (r#"yaml.decode("- " * 300 + "a")"#, "yaml.decode: line 1, column 401: nested deeper than 200"),
        (r#"yaml.decode("[" * 250)"#, "yaml.decode: line 1, column 201: nested deeper than 200"),
        (r#"yaml.decode("9" * 200000)"#, "yaml.decode: at $: an integer of more than 100000 digits"),
        // Depth hidden behind aliases, and a billion laughs.
        (
            r#"yaml.decode("- &a " + "[" * 150 + "]" * 150 + "\n- " + "[" * 150 + "*a" + "]" * 150)"#,
            "yaml.decode: line 2, column 153: nested deeper than 200",
        ),
        (
            r#"return yaml.decode("a0: &a0 x\n" + "".join(["a%d: &a%d [%s]\n" % (n, n, ", ".join(["*a%d" % (n - 1)] * 10)) for n in range(1, 12)]))"#,
            "yaml.decode: line 6, column 5: anchors and aliases stand for more than 16 MB",
        ),
        (
            r#"yaml.decode("a: &a \"" + "x" * 1000000 + "\"\nb: [" + "*a, " * 20 + "]")"#,
            "yaml.decode: line 2, column 65: anchors and aliases stand for more…",
        ),
        (r#"yaml.encode(len)"#, "yaml.encode: at $: a `function` cannot be represented in JSON"),
        (r#"yaml.encode(math.inf)"#, "yaml.encode: at $: JSON has no `+inf`"),
    ]);
}

#[test]
fn csv() {
    check(&[
        (
            r#"csv.decode("a,b\r\n1,\"x,\"\"y\"\"\n\"\n\n2,\n")"#,
            json!([{"a": "1", "b": "x,\"y\"\n"}, {"a": "2", "b": ""}]),
        ),
        (
            r#"[csv.decode("a;b\n1;2", header = False, delimiter = ";"), csv.decode(""), csv.decode("a,b\n")]"#,
            json!([[["a", "b"], ["1", "2"]], [], []]),
        ),
        (r#"csv.decode("\ufeffé\n1")"#, json!([{"é": "1"}])),
        (r#"csv.encode([{"a": 1, "b": "x,y"}, {"b": None, "c": 2.5}])"#, json!("a,b,c\n1,\"x,y\",\n,,2.5\n")),
        (r#"csv.encode([{"a": 1, "b": 2}], header = ["b"])"#, json!("b\n2\n")),
        (r#"csv.encode([{"a": 1}], header = False)"#, json!("1\n")),
        (
            r#"csv.encode([[1, "q\"q"], (2, "l\nl")], header = ["x", "y"], delimiter = "\t")"#,
            json!("x\ty\n1\t\"q\"\"q\"\n2\t\"l\nl\"\n"),
        ),
        (
            r#"[csv.encode([]), csv.encode([["a"]]), csv.encode([], header = ["a"])]"#,
            json!(["", "a\n", "a\n"]),
        ),
    ]);
    check_true(&[
        r#"csv.decode(csv.encode([{"a": "", "b": " x"}, {"a": "\n", "b": "\""}])) == [{"a": "", "b": " x"}, {"a": "\n", "b": "\""}]"#,
    ]);
    check_errors(&[
        (r#"csv.decode("a,b\n1,2\n3")"#, "csv.decode: line 3 has 1 fields, the lines before have 2"),
        (
            r#"csv.decode("a,a\n1,2")"#,
            "csv.decode: the header names `a` twice; use `header = False` to get lists",
        ),
        (
            r#"csv.decode("a", delimiter = "ab")"#,
            "csv.decode: delimiter must be one ASCII character, got: \"ab\"",
        ),
        (
            r#"csv.encode([], delimiter = "é")"#,
            "csv.encode: delimiter must be one ASCII character, got: \"é\"",
        ),
        (r#"csv.encode([{"a": 1}, 5])"#, "csv.encode: row 1 must be a dict or a list, got: int"),
        (r#"csv.encode([[1], [1, 2]])"#, "csv.encode: row 1 has 2 fields, expected 1"),
        (r#"csv.encode(5)"#, "csv.encode: rows must be a list, got: int"),
        (
            r#"csv.encode([], header = 5)"#,
            "csv.encode: header must be a list of column names or a bool, got: int",
        ),
    ]);
}

#[test]
fn random() {
    // The test host counts from 0, so what is drawn is known.
    check(&[
        ("[random.int(1, 6), random.int(5, 5), random.int(-3, 300)]", json!([4, 5, 259])),
        ("[random.hex(4), random.uuid()]", json!(["00010203", "00010203-0405-4607-8809-0a0b0c0d0e0f"])),
        ("[random.bytes(3) == b\"\\x00\\x01\\x02\", random.bytes(0) == b\"\"]", json!([true, true])),
        (
            "[sorted(random.shuffle([3, 1, 2])), random.shuffle([]), random.shuffle((1,))]",
            json!([[1, 2, 3], [], [1]]),
        ),
    ]);
    check_true(&[
        "0.0 <= random.float() and random.float() < 1.0",
        "all([random.choice(s) in s for s in [[1, 2, 3], (1, 2), \"äöü\", {\"a\": 1, \"b\": 2}, set([1, 2])]])",
        "random.choice(range(1000000000)) >= 0",
        "l = [1, 2, 3]\nrandom.shuffle(l)\nreturn l == [1, 2, 3]",
        "1 << 200 <= random.int(1 << 200, 1 << 300)",
        "len(random.shuffle(range(20000))) == 20000",
    ]);
    take_effects();
    run("random.shuffle(range(1000))").expect("shuffles");
    assert!(take_effects().len() <= 8, "asks for its bytes in bulk");
    check_errors(&[
        ("random.int(2, 1)", "random.int: low must not be above high"),
        (
            "random.int(0, 1.5)",
            "Type of parameter `high` doesn't match, expected `int`, actual `float (repr: 1.5)`",
        ),
        ("random.choice([])", "random.choice: the sequence is empty"),
        ("random.choice(5)", "random.choice: seq must be a sequence, got: int"),
        ("random.shuffle(\"ab\")", "random.shuffle: items must be a list, got: string"),
        ("random.bytes(1000000000)", "random.bytes: n must be from 0 to 1048576, got: 1000000000"),
        ("random.hex(-1)", "random.hex: n must be from 0 to 1048576, got: -1"),
    ]);
}

#[test]
fn assertions() {
    check(&[
        (
            "[testing.eq([1, {\"a\": 2}], [1, {\"a\": 2.0}]), testing.ne(1, 2), testing.is_true([0]), testing.is_false({})]",
            json!([null, null, null, null]),
        ),
        (
            "[testing.contains([1], 1), testing.contains(\"abc\", \"b\"), testing.contains({\"k\": 1}, \"k\"), testing.approx(0.3, 0.1 + 0.2)]",
            json!([null, null, null, null]),
        ),
        (
            "[testing.approx(100, 101, rel = 0.1), testing.approx(0, 1e-13), testing.approx(math.inf, math.inf)]",
            json!([null, null, null]),
        ),
        ("testing.raises(lambda a, b: fail(a, b), \"no\", b = 1)", json!("no 1")),
        (
            "testing.raises(lambda: 1 // 0, match = \"division\\\\b\")",
            json!("Floor division by zero: 1 // 0"),
        ),
        ("testing.raises(lambda: testing.eq(1, 2))", json!("Assertion failed: expected 1, got 2")),
        ("testing.raises(lambda: mcp_error(-32602, \"bad params\"))", json!("bad params")),
        ("attempt(lambda: testing.fail(\"no\")).error", json!("no")),
        (
            "seen = []\ntesting.table([{\"a\": 1, \"name\": \"x\"}, (2,), [3]], lambda a: seen.append(a))\nreturn seen",
            json!([1, 2, [3]]),
        ),
        (
            "seen = []\ntesting.table([{\"a\": 1, \"name\": \"x\"}], lambda a, name: seen.append(name))\nreturn seen",
            json!(["x"]),
        ),
    ]);
    check_errors(&[
        ("testing.eq(1, \"1\")", "Assertion failed: expected 1, got \"1\""),
        ("testing.eq(1, 2, \"mine\")", "mine"),
        ("testing.ne([1], [1])", "Assertion failed: expected values to be different, but both are [1]"),
        ("testing.is_true(\"\")", "Assertion failed: expected truthy value, got \"\""),
        ("testing.is_false([0], message = \"m\")", "m"),
        ("testing.contains([1, 2], 3)", "Assertion failed: 3 not in [1, 2]"),
        ("testing.contains(5, 3)", "Error checking containment: …"),
        ("testing.fail(\"because\")", "because"),
        (
            "testing.approx(1, 2)",
            "Assertion failed: expected about 1, got 2: they differ by 1, more than 0.000002",
        ),
        ("testing.approx(math.nan, math.nan, message = \"m\")", "m"),
        ("testing.approx(1, 1, rel = -1)", "testing.approx: rel must be a number that is not negative"),
        ("testing.raises(lambda: 5)", "Assertion failed: expected an error, but the call returned 5"),
        (
            "testing.raises(lambda: fail(\"a\"), match = \"b\")",
            "Assertion failed: the error \"a\" does not match \"b\"",
        ),
        (
            "testing.raises(lambda: fail(\"a\"), match = \"(\")",
            "testing.raises: bad pattern `(`: unclosed group",
        ),
        ("testing.table(5, lambda: 1)", "testing.table: cases must be a list, got: int"),
        ("testing.mock_exec(\"ls\", args = 5)", "testing.mock_exec: args must be a list, got: int"),
        ("testing.mock_http(\"u\", status = 5)", "testing.mock_http: status must be from 100 to 999, got: 5"),
        ("testing.mock_http(\"u\", times = 0)", "testing.mock_http: times must be positive, got: 0"),
        ("testing.mock_env([1])", "testing.mock_env: vars must be a dict, got: list"),
        ("testing.mock_time(\"now\")", "testing.mock_time: seconds must be a number, got: string"),
        ("testing.call(\"t\", [1])", "testing.call: args must be a dict, got: list"),
    ]);
    for (body, kind) in [
        ("testing.eq(1, 2)", ErrorKind::Assertion),
        ("testing.eq(1, 2, \"mine\")", ErrorKind::Assertion),
        ("testing.fail(\"x\")", ErrorKind::Assertion),
        ("testing.table([(1,)], lambda a: 1 // 0)", ErrorKind::Assertion),
        ("1 // 0", ErrorKind::Runtime),
        ("testing.contains(5, 3)", ErrorKind::Runtime),
        ("testing.skip(\"later\")", ErrorKind::Skipped),
        ("attempt(lambda: testing.skip(\"later\"))", ErrorKind::Skipped),
        ("testing.raises(lambda: testing.skip(\"later\"))", ErrorKind::Skipped),
        ("testing.table([(1,)], lambda a: testing.skip(\"later\"))", ErrorKind::Skipped),
    ] {
        let error = run(body).expect_err(body);
        assert_eq!(error.kind, kind, "{body}");
        if kind == ErrorKind::Skipped {
            assert_eq!(error.message, "later");
        }
    }
    // Only a test file knows the word.
    let error = crate::support::call(&handler("testing.eq(1, 1)"), json!({})).expect_err("no testing");
    assert_eq!(error.kind, ErrorKind::Name);
}

#[test]
fn long_values_are_compared_line_by_line() {
    let message = |body: &str| run(body).expect_err(body).message;
    expect![[r#"
        Assertion failed: values differ (- expected, + actual)
          {
            "name": "a tool with a long name",
            "tags": [
        -     "one",
        +     "two",
            ],
            "empty": [],
        +   "more": (
        +     1,
        +   ),
          }"#]]
    .assert_eq(&message(
        r#"testing.eq({"name": "a tool with a long name", "tags": ["one"], "empty": []}, {"name": "a tool with a long name", "tags": ["two"], "empty": [], "more": (1,)})"#,
    ));
    expect![[r#"
        Assertion failed: values differ (- expected, + actual)
          first line of the text
        - second line of the text
        + second line of a text"#]]
    .assert_eq(&message(
        r#"testing.eq("first line of the text\nsecond line of the text", "first line of the text\nsecond line of a text")"#,
    ));
    expect![[r#"
        Assertion failed: values differ (- expected, + actual)
          … 48 equal lines
            47,
            48,
            49,
        -   50,
        +   -1,
            51,
            52,
            53,
          … 947 equal lines"#]]
    .assert_eq(&message("testing.eq(list(range(1000)), [-1 if x == 50 else x for x in range(1000)])"));
    expect![[r#"
        Assertion failed: 2 of 3 cases failed
          case 1 {"a": 2, "b": 2}: Assertion failed: expected 2, got 4 (x.star:3:9)
          case 2 (big): Floor division by zero: 10 // 0 (x.star:3:44)"#]]
    .assert_eq(&message(
        "def add(a, b):\n    testing.eq(b, a + a if a < 10 else a // 0)\n\
         return testing.table([{\"a\": 1, \"b\": 2}, {\"a\": 2, \"b\": 2}, {\"a\": 10, \"b\": 20, \"name\": \"big\"}], add)",
    ));
}

#[test]
fn what_tests_ask_of_their_runner() {
    let testing = |operation: &str, arguments: Json| {
        if arguments == json!({}) {
            return json!({"testing": {"operation": operation}});
        }
        json!({"testing": {"operation": operation, "arguments": arguments}})
    };
    check_effects(&[
        (r#"testing.call("t", {"a": 1})"#, testing("call", json!({"tool": "t", "args": {"a": 1}}))),
        (r#"testing.call("t")"#, testing("call", json!({"tool": "t"}))),
        (r#"testing.mock_http("u")"#, testing("mock_http", json!({"url": "u", "body": "", "status": 200}))),
        (
            r#"testing.mock_http("u", "b", 404, {"A": 1}, {"j": 1}, "post", 2)"#,
            testing(
                "mock_http",
                json!({
                    "url": "u", "body": "b", "status": 404, "headers": {"A": "1"}, "json": {"j": 1}, "method": "POST", "times": 2,
                }),
            ),
        ),
        (
            r#"testing.mock_exec("ls", "out", args = ["-l", 1], exit_code = 2)"#,
            testing(
                "mock_exec",
                json!({"command": "ls", "stdout": "out", "stderr": "", "exit_code": 2, "args": ["-l", "1"]}),
            ),
        ),
        (
            r#"testing.mock_env({"A": 1}, B = "x")"#,
            testing("mock_env", json!({"vars": {"A": "1", "B": "x"}})),
        ),
        (r#"testing.mock_time(1.5)"#, testing("mock_time", json!({"seconds": 1.5}))),
        ("testing.http_requests()", testing("http_requests", json!({}))),
        ("testing.exec_calls()", testing("exec_calls", json!({}))),
        ("testing.logs()", testing("logs", json!({}))),
    ]);
    check(&[("testing.logs()", json!({"did": "logs"}))]);
}
