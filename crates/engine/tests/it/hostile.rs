//! Scripts that mean harm, or do it by mistake: each ends in an error of its own call.

use std::time::{Duration, Instant};

use serde_json::json;
use starloom_engine::{ErrorKind, Limit, Limits};

use crate::support::{call_with, handler, load};

fn limits() -> Limits {
    Limits { wall_clock: Duration::from_secs(2), heap_bytes: 64 << 20, frames: 200, ticks: None }
}

/// On a thread with the stack evaluation threads have.
fn stopped_by(body: &str) -> ErrorKind {
    let source = handler(body);
    std::thread::Builder::new()
        .stack_size(64 << 20)
        .spawn(move || {
            let started = Instant::now();
            let error = call_with(&source, json!({}), &limits()).expect_err("must not succeed");
            assert!(started.elapsed() < Duration::from_secs(15), "took {:?}", started.elapsed());
            error.kind
        })
        .expect("thread")
        .join()
        .expect("no panic")
}

#[test]
fn memory_is_bounded() {
    for body in [
        "return [0] * 1000000000",
        "return len(\"x\" * 10000000000)",
        "s = \"ab\"\nfor _ in range(60):\n    s = s + s\nreturn len(s)",
        "s = \"ab\"\nfor _ in range(60):\n    s += s\nreturn len(s)",
        "l = [1]\nfor _ in range(60):\n    l = l + l\nreturn len(l)",
        "l = [1]\nfor _ in range(60):\n    l += l\nreturn len(l)",
        "l = [1]\nl *= 1000000000\nreturn len(l)",
        "d = {}\nfor i in range(1000000000):\n    d[i] = i\nreturn len(d)",
        "l = []\nfor i in range(1000000000):\n    l.append(\"x\" * 100)\nreturn len(l)",
        "return len(list(range(2000000000)))",
        "return len(sorted(range(2000000000)))",
        "return len([x for x in range(2000000000)])",
        "l = [1]\nfor _ in range(40):\n    l = [l, l]\nreturn l",
        "l = [1]\nfor _ in range(40):\n    l = [l, l]\nreturn json.encode(l)",
        "return str([\"x\" * 1000000] * 1000000)",
        "return json.encode([\"x\" * 1000000] * 1000000)",
        "l = [0] * 200000\nfor _ in range(150):\n    l = [l]\nreturn json.encode(l, indent = 16)",
        "l = [0] * 500000\nfor _ in range(150):\n    l = [l]\nreturn yaml.encode(l)",
        "return yaml.decode(\"- a\\n\" * 5000000)",
        "return re.sub(\"a\", \"b\" * 1000000, \"a\" * 1000000)",
        "return re.sub(\"a\", lambda m: \"b\" * 1000000, \"a\" * 1000000)",
        "return re.find_all(\"a\", \"a\" * 20000000)",
        "return re.split(\"(a)?\" * 100, \"a\" * 2000000)",
        "return csv.encode([{str(i): i} for i in range(20000)])",
        "return csv.decode(\"a,b\\n\" * 5000000)",
        "return url.parse_query(\"a&\" * 10000000)",
        "return url.encode_query({\"a\": [\"x\" * 1000000] * 1000000})",
        "return http.get(\"u\", headers = {\"a\": [\"x\" * 1000000] * 1000000})",
        "return exec.run(\"x\", [\"x\" * 1000000] * 1000000)",
        "return random.shuffle(range(2000000000))",
    ] {
        let kind = stopped_by(body);
        assert!(matches!(kind, ErrorKind::Limit(Limit::Memory(_) | Limit::WallClock(_))), "{body}: {kind:?}");
    }
}

#[test]
fn time_is_bounded() {
    for body in [
        "for _ in range(2000000000):\n    pass\nreturn 1",
        "def f():\n    for _ in range(2000000000):\n        for _ in range(2000000000):\n            pass\nf()\nreturn 1",
        "return max(range(2000000000))",
        "return all(range(1, 2000000000))",
        "return len([1 for _ in range(2000000000) if False])",
        "for _ in range(2000000000):\n    attempt(lambda: fail(\"x\"))\nreturn 1",
        "x = 12345678901234567891\ny = x\nfor _ in range(15):\n    x = x * x + 5\n    y = y * y + 7\nreturn math.gcd(x, y)",
        "return len(re.find_all(\".*?.*?.*?b|a\", \"a\" * 300000))",
        "return fuzzy.search(\"a\" * 1000, [\"a\" * 100000] * 10000)",
    ] {
        let kind = stopped_by(body);
        assert!(matches!(kind, ErrorKind::Limit(Limit::WallClock(_) | Limit::Memory(_))), "{body}: {kind:?}");
    }
}

#[test]
fn recursion_and_numbers_are_bounded() {
    for body in [
        "def f(n):\n    return f(n + 1)\nreturn f(0)",
        "def f(n):\n    return attempt(f, n + 1)\nreturn f(0)",
        "def f(n):\n    return sorted([1, 2], key = lambda x: f(n + 1))\nreturn f(0)",
    ] {
        let kind = stopped_by(body);
        assert!(matches!(kind, ErrorKind::Limit(Limit::Frames(_))), "{body}: {kind:?}");
    }
    for body in [
        "return 1 << 10000000000",
        "return 1 << 100000000",
        "x = 3\nfor _ in range(40):\n    x = x * x\nreturn x",
        "x = 3\nfor _ in range(40):\n    x *= x\nreturn x",
        "l = []\nfor _ in range(100000):\n    l = [l]\nreturn str(l)",
        "l = []\nfor _ in range(100000):\n    l = [l]\nreturn repr(l)",
        "l = []\nfor _ in range(100000):\n    l = [l]\nreturn \"%s\" % l",
        "l = []\nfor _ in range(100000):\n    l = [l]\nfail(l)\nreturn 1",
        "l = []\nfor _ in range(100000):\n    l = [l]\nreturn json.encode(l)",
        "l = []\nfor _ in range(100000):\n    l = [l]\nreturn yaml.encode(l)",
        "l = []\nfor _ in range(100000):\n    l = [l]\nreturn exec.run(\"x\", [l])",
        "l = []\nfor _ in range(100000):\n    l = [l]\nreturn csv.encode([[l]])",
        "l = []\nfor _ in range(100000):\n    l = [l]\nreturn http.post(\"u\", body = l)",
        "l = []\nfor _ in range(100000):\n    l = [l]\nreturn l",
        "return json.decode(\"[\" * 100000)",
        "return json.decode(\"1e999\")",
        "return json.decode(\"9\" * 1000000)",
    ] {
        let kind = stopped_by(body);
        assert!(matches!(kind, ErrorKind::Runtime | ErrorKind::Conversion), "{body}: {kind:?}");
    }
}

#[test]
fn limits_cannot_be_caught() {
    let kind = stopped_by("return attempt(lambda: [0] * 1000000000).error");
    assert!(matches!(kind, ErrorKind::Limit(Limit::Memory(_))), "{kind:?}");
}

#[test]
fn ticks_are_bounded() {
    let source = handler("for _ in range(1000000000):\n    pass\nreturn 1");
    let limits = Limits { ticks: Some(1_000_000), wall_clock: Duration::from_secs(30), ..limits() };
    let error = call_with(&source, json!({}), &limits).expect_err("ticks");
    assert_eq!(error.kind, ErrorKind::Limit(Limit::Ticks(1_000_000)));
    assert_eq!(error.message, "stopped: ran for more than 1000000 steps");
}

#[test]
fn deep_text_is_refused_before_it_is_parsed() {
    for source in [
        "x = ".to_owned() + &"[".repeat(100_000) + &"]".repeat(100_000),
        "x = ".to_owned() + &"-".repeat(100_000) + "1",
        "x = ".to_owned() + &"1 + ".repeat(100_000) + "1",
        "x = f".to_owned() + &"()".repeat(100_000),
        "x = ".to_owned() + &"lambda: ".repeat(100_000) + "1",
        "x = ".to_owned() + &"1 if 1 else ".repeat(100_000) + "1",
    ] {
        let errors = load(&source).expect_err("too deep");
        assert_eq!(errors[0].kind, ErrorKind::Syntax, "{}", errors[0].message);
    }
}

#[test]
fn a_spinning_call_is_cancelled_from_outside() {
    use starloom_engine::{Arguments, CallOptions, JsonObject, Stop};
    let loaded = load(&handler("for _ in range(2000000000):\n    pass\nreturn 1")).expect("loads");
    let limits = Limits { wall_clock: Duration::from_secs(60), ..limits() };
    let stop = Stop::after(limits.wall_clock);
    let canceller = stop.clone();
    let (started, wait) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || {
        started.send(()).expect("send");
        let options = CallOptions { host: &crate::support::TestHost, limits: &limits, stop: &stop };
        loaded.extension.tools[0].handler.call(Arguments::Object(&JsonObject::new()), &options)
    });
    wait.recv().expect("started");
    canceller.cancel();
    let error = thread.join().expect("no panic").expect_err("cancelled");
    assert_eq!(error.kind, ErrorKind::Cancelled);
}
