//! `tests/lang/*.star`: chunks split by `---`; a line that must fail ends with `### "message"`.

use std::path::Path;

use crate::support::{call, handler, load};
use serde_json::json;

/// A chunk must fail on the line that says so, with a message that contains the text, and nowhere else.
fn check_chunk(file: &str, chunk: &str) {
    let expected: Vec<(usize, &str)> = chunk
        .lines()
        .enumerate()
        .filter_map(|(index, line)| {
            let (_, expectation) = line.split_once("### ")?;
            Some((index + 1, expectation.trim().trim_matches('"')))
        })
        .collect();
    match (load(chunk), expected.first()) {
        (Ok(_), None) => {}
        (Ok(_), Some((line, message))) => panic!("{file}:{line}: expected an error `{message}`, found none"),
        (Err(errors), None) => panic!("{file}: unexpected error\n{}", errors[0].render()),
        (Err(errors), Some(_)) => {
            for (line, message) in &expected {
                let found = errors.iter().any(|error| {
                    error.location.as_ref().is_some_and(|location| location.line == *line)
                        && (error.message.contains(message) || error.message_with_hint().contains(message))
                });
                let all: String = errors.iter().map(|error| error.render()).collect();
                assert!(found, "{file}:{line}: expected `{message}`, found\n{all}");
            }
        }
    }
}

#[test]
fn language_files() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/lang");
    let mut checked = 0;
    for entry in std::fs::read_dir(&folder).expect("tests/lang") {
        let path = entry.expect("entry").path();
        let text = std::fs::read_to_string(&path).expect("text");
        let mut line = 0;
        for chunk in text.split("\n---\n") {
            // Padded, so that the lines of a chunk are the lines of its file.
            let padded = format!("{}{chunk}", "\n".repeat(line));
            check_chunk(&path.file_name().expect("name").to_string_lossy(), &padded);
            line += chunk.lines().count() + 1 + usize::from(chunk.ends_with('\n'));
            checked += 1;
        }
    }
    assert!(checked > 10, "only {checked} chunks found");
}

#[test]
fn numbers_are_exact_both_ways() {
    let echo = handler("params[\"x\"]");
    for number in [
        "0",
        "-1",
        "2147483648",
        "-2147483649",
        "9007199254740993",
        "9223372036854775807",
        "-9223372036854775808",
        "18446744073709551615",
        "123456789012345678901234567890",
        "-123456789012345678901234567890",
        "0.1",
        "123456789.12345679",
        "1.23456789e-10",
        "1e300",
        "1.5",
    ] {
        let arguments: serde_json::Value =
            serde_json::from_str(&format!("{{\"x\": {number}}}")).expect("json");
        let result = call(&echo, arguments).unwrap_or_else(|error| panic!("{number}: {}", error.render()));
        let (expected, found): (f64, f64) =
            (number.parse().expect("f64"), result.to_string().parse().expect("f64"));
        assert_eq!(expected.to_bits(), found.to_bits(), "{number} came back as {result}");
        if !number.contains(['.', 'e']) {
            assert_eq!(result.to_string(), number);
        }
    }
}

#[test]
fn values_json_cannot_hold_are_refused_with_their_path() {
    for (body, expected) in [
        ("{\"a\": [1, float(\"nan\")]}", "the result at $.a[1]: JSON has no `nan`"),
        ("[float(\"inf\")]", "the result at $[0]: JSON has no `+inf`"),
        ("{\"f\": len}", "the result at $.f: a `function` cannot be represented in JSON"),
        ("{(1, 2): 3}", "the result at $: keys must be strings, found a `tuple`"),
    ] {
        let error = call(&handler(body), json!({})).expect_err(body);
        assert_eq!(error.message, expected);
    }
    let error = call(&handler("params[\"x\"]"), serde_json::from_str("{\"x\": [1e999]}").expect("json"))
        .expect_err("too large");
    assert_eq!(error.message, "argument at $.x[0]: the number 1e+999 is too large for a float");
}

#[test]
fn expressions() {
    for (body, expected) in [
        ("json.decode('{\"b\": 1, \"a\": 12345678901234567890123}')", json!({"b": 1, "a": 0})),
        ("json.encode({\"b\": 1, \"a\": [1.0, 2]})", json!("{\"b\":1,\"a\":[1.0,2]}")),
        ("json.decode(\"nope\", default = 7)", json!(7)),
        ("[attempt(lambda: fail(\"no\", 1)).error, attempt(lambda x: x + 1, 2).value]", json!(["no 1", 3])),
        ("[x for x in range(3)] + list(range(5, 0, -2))", json!([0, 1, 2, 5, 3, 1])),
        ("struct(a = 1, b = (2, 3))", json!({"a": 1, "b": [2, 3]})),
        ("f\"{1 + 1} and {[1]}\"", json!("2 and [1]")),
        ("\"%s-%d\" % (\"a\", 3)", json!("a-3")),
        ("time.now()", json!(1_700_000_000)),
        ("type(Extension(name = \"a\", version = \"1\", description = \"\", tools = []))", json!("dict")),
        (
            "ToolParameter(\"a\", \"string\", True, None, \"d\")",
            json!({
                "name": "a", "type": "string", "required": true, "default": null, "description": "d",
            }),
        ),
    ] {
        let mut expected = expected;
        if body.contains("12345678901234567890123") {
            expected["a"] = serde_json::from_str("12345678901234567890123").expect("big");
        }
        let found =
            call(&handler(body), json!({})).unwrap_or_else(|error| panic!("{body}: {}", error.render()));
        assert_eq!(found.to_string(), expected.to_string(), "{body}");
    }
}

#[test]
fn errors_point_at_the_authors_line() {
    let source = "def _grow(s):\n    s += s + undefined_or_not(1)\n    return s\n\ndef undefined_or_not(x):\n    \
                  y = x - 1\n    return x // y\n\ndef run(x: str) -> str:\n    \"\"\"Runs.\"\"\"\n    return _grow(x)\n";
    let error = call(source, json!({"x": "a"})).expect_err("division");
    expect_test::expect![[r#"
        error: Floor division by zero: 1 // 0
          --> x.star:7:12
           |
         7 |     return x // y
           |            ^^^^^^
          called from x.star:2:14 (`undefined_or_not`)
          called from x.star:11:12 (`_grow`)
    "#]]
    .assert_eq(&error.render());
}

#[test]
fn plain_functions_take_what_their_annotations_say() {
    let source = r#"
Unit = enum("kg", "lb")
Point = record(x = int, y = int)

def run(unit: Unit, weights: list[float], names: dict[str, float] = {}, other: Unit | None = None) -> str:
    """Runs."""
    return f"{unit.value} {weights} {names} {other}"
"#;
    let loaded = load(source).unwrap_or_else(|errors| panic!("{}", errors[0].render()));
    let schema = serde_json::to_string(&loaded.extension.tools[0].input_schema["properties"]).expect("json");
    expect_test::expect![[r#"{"unit":{"type":"string","enum":["kg","lb"]},"weights":{"type":"array","items":{"type":"number"}},"names":{"type":"object","additionalProperties":{"type":"number"},"default":{}},"other":{"enum":["kg","lb",null],"default":null}}"#]]
    .assert_eq(&schema);
    let result = call(source, json!({"unit": "lb", "weights": [1, 2.5], "names": {"a": 3}, "other": null}));
    assert_eq!(result.expect("runs"), json!("lb [1.0, 2.5] {\"a\": 3.0} None"));
    let errors = load("Point = record(x = int)\ndef run(p: Point):\n    \"\"\"R.\"\"\"\n    return 1\n")
        .expect_err("a record");
    assert_eq!(errors[0].one_line(), "x.star:2:5: `run`: JSON cannot carry a `Point`, so `p` cannot be one");
}
