use std::io::Write;
use std::sync::mpsc;

use serde_json::json;
use starloom_effects::{CapabilityMode, ServicesOptions};
use starloom_engine::{Effect, HttpBody, HttpRequest, Json};

use crate::http_server::{Reply, Server, certificate, ok, reply, serve, serve_tls};
use crate::world::{Allowed, World};

pub fn request(method: &str, url: impl Into<String>) -> HttpRequest {
    HttpRequest {
        method: method.to_owned(),
        url: url.into(),
        params: Vec::new(),
        headers: Vec::new(),
        auth: None,
        body: HttpBody::None,
        timeout: None,
        max_bytes: None,
        max_redirects: None,
    }
}

pub fn get(url: impl Into<String>) -> Effect {
    Effect::Http(request("GET", url))
}

pub fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
}

const SHOWN: [&str; 3] = ["content-type", "authorization", "x-a"];

fn echo(world: &World) -> Server {
    serve(world, |received| ok(received.summary(&SHOWN)))
}

#[test]
fn requests() {
    let world = World::new();
    let server = echo(&world);
    let url = server.url("/p?q=1");
    let exact: Json = serde_json::from_str(r#"{"b":1.10,"a":[1180591620717411303424,null,"ä"]}"#).unwrap();
    let form = HttpBody::Form(pairs(&[("z", "1 2"), ("a", "ä&"), ("z", "3")]));
    for (request, expected) in [
        (request("get", &url), "GET /p?q=1 content-type=- authorization=- x-a=- "),
        (
            HttpRequest { params: pairs(&[("r", "ä &"), ("r", "2")]), ..request("DELETE", &url) },
            "DELETE /p?q=1&r=%C3%A4+%26&r=2 content-type=- authorization=- x-a=- ",
        ),
        (
            HttpRequest {
                headers: pairs(&[("X-A", "v"), ("Content-Length", "999")]),
                ..request("GET", &url)
            },
            "GET /p?q=1 content-type=- authorization=- x-a=v ",
        ),
        (
            HttpRequest { auth: Some(("u".into(), "p:w".into())), ..request("GET", &url) },
            "GET /p?q=1 content-type=- authorization=Basic dTpwOnc= x-a=- ",
        ),
        (
            request("GET", url.replace("http://", "http://u:p%3Aw@")),
            "GET /p?q=1 content-type=- authorization=Basic dTpwOnc= x-a=- ",
        ),
        (
            HttpRequest { body: HttpBody::Text("plain ä".into()), ..request("PUT", &url) },
            "PUT /p?q=1 content-type=- authorization=- x-a=- plain ä",
        ),
        (
            HttpRequest { body: HttpBody::Json(exact), ..request("POST", &url) },
            r#"POST /p?q=1 content-type=application/json authorization=- x-a=- {"b":1.10,"a":[1180591620717411303424,null,"ä"]}"#,
        ),
        (
            HttpRequest {
                body: HttpBody::Json(json!([])),
                headers: pairs(&[("content-type", "application/vnd.x+json")]),
                ..request("PATCH", &url)
            },
            "PATCH /p?q=1 content-type=application/vnd.x+json authorization=- x-a=- []",
        ),
        (
            HttpRequest { body: form, ..request("POST", &url) },
            "POST /p?q=1 content-type=application/x-www-form-urlencoded authorization=- x-a=- z=1+2&a=%C3%A4%26&z=3",
        ),
    ] {
        assert_eq!(world.ok(Effect::Http(request))["body"], expected);
    }
}

#[test]
fn answers() {
    let world = World::new();
    let server = serve(&world, |received| match received.target.as_str() {
        "/many" => reply("404 Not Found", &[("X-B", "1"), ("x-b", "2"), ("X-L", "\u{e9}")], "nö"),
        "/bytes" => reply("200 OK", &[], [b'a', 0xff]),
        _ => ok(received.header("user-agent").unwrap_or("none").to_owned()),
    });
    let url = server.url("/many");
    let expected = format!(
        r#"{{"status":404,"headers":{{"x-b":"1, 2","x-l":"é","content-length":"3"}},"body":"nö","url":"{url}"}}"#
    );
    assert_eq!(world.ok(get(&url)).to_string(), expected);
    let bytes = world.ok(get(server.url("/bytes")));
    assert_eq!((&bytes["body"], &bytes["body_base64"]), (&json!("a\u{fffd}"), &json!("Yf8=")));
    let head = world.ok(Effect::Http(request("HEAD", &url)));
    assert_eq!((&head["status"], &head["body"]), (&json!(404), &json!("")));
    assert!(world.ok(get(server.url("/")))["body"].as_str().unwrap().starts_with("starloom/"));
}

#[test]
fn connections_are_kept() {
    let world = World::new();
    let server = echo(&world);
    for _ in 0..20 {
        assert_eq!(world.ok(get(server.url("/")))["status"], 200);
    }
    // A connection goes back a moment after its answer was read, so now and then there is a second.
    assert!(server.connections() < 10, "{}", server.connections());
}

#[test]
fn compressed_answers() {
    let world = World::new();
    let small = gzip(b"hello");
    let bomb = gzip(&vec![0; 20 << 20]);
    let server = serve(&world, move |received| {
        let body = if received.target == "/bomb" { bomb.clone() } else { small.clone() };
        assert_eq!(received.header("accept-encoding"), Some("gzip"));
        reply("200 OK", &[("Content-Encoding", "gzip")], body)
    });
    assert_eq!(world.ok(get(server.url("/")))["body"], "hello");
    let url = server.url("/bomb");
    assert_eq!(
        world.error(get(&url)),
        format!("Failed to read response body: GET {url}: larger than 10485760 bytes")
    );
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    use std::process::{Command, Stdio};
    let mut child =
        Command::new("gzip").arg("-c").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(move || stdin.write_all(bytes).unwrap());
        child.wait_with_output().unwrap().stdout
    })
}

#[test]
fn large_answers() {
    let world = World::with(ServicesOptions { http_max_bytes: 1000, ..Default::default() });
    let server = serve(&world, |_| ok(vec![b'x'; 1000]));
    let url = server.url("/");
    let asking = |max_bytes| Effect::Http(HttpRequest { max_bytes, ..request("GET", &url) });
    assert_eq!(world.ok(asking(None))["body"].as_str().unwrap().len(), 1000);
    assert_eq!(world.ok(asking(Some(1_000_000)))["status"], 200);
    assert_eq!(
        world.error(asking(Some(999))),
        format!("Failed to read response body: GET {url}: larger than 999 bytes")
    );
    let larger = serve(&world, |_| ok(vec![b'x'; 1001]));
    let error = world
        .error(Effect::Http(HttpRequest { max_bytes: Some(1_000_000), ..request("GET", larger.url("/")) }));
    assert!(error.ends_with("larger than 1000 bytes"), "{error}");
}

#[test]
fn invalid_requests() {
    let world = World::new();
    let header = |name: &str, value: &str| {
        Effect::Http(HttpRequest { headers: pairs(&[(name, value)]), ..request("GET", "http://localhost") })
    };
    for (effect, message) in [
        (get("no url"), "Invalid URL: relative URL without a base"),
        (get("http://"), "Invalid URL: empty host"),
        (get("file:///etc/passwd"), "Invalid URL: only http and https are possible, not file"),
        (get("ftp://localhost/"), "Invalid URL: only http and https are possible, not ftp"),
        (Effect::Http(request("CONNECT", "http://localhost")), "Invalid method: \"CONNECT\""),
        (Effect::Http(request("A B", "http://localhost")), "Invalid method: \"A B\""),
        (header("a b", "secret"), "Invalid header: \"a b\""),
        (header("x", "secret\r\ny: z"), "Invalid header: \"x\""),
    ] {
        assert_eq!(world.error(effect), message);
    }
}

/// A port nobody listens on: taken and given back.
fn closed_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

#[test]
fn errors_keep_secrets() {
    let world = World::new();
    let port = closed_port();
    assert_eq!(
        world.error(get(format!("http://user:hunter2@127.0.0.1:{port}/path?token=hunter2#hunter2"))),
        format!("Request failed: GET http://127.0.0.1:{port}/path: Connection refused (os error 111)")
    );
    let error = world.error(get("http://no-such-name.invalid/?token=hunter2"));
    assert!(
        error.starts_with("Request failed: GET http://no-such-name.invalid/: could not resolve"),
        "{error}"
    );
}

#[test]
fn broken_answers() {
    let world = World::new();
    let server = serve(&world, |received| {
        Reply::Broken(match received.target.as_str() {
            "/body" => b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf".to_vec(),
            "/nonsense" => b"nonsense\r\n\r\n".to_vec(),
            _ => Vec::new(),
        })
    });
    for (path, message) in [
        ("/body", "Failed to read response body: GET "),
        ("/nonsense", "Request failed: GET "),
        ("/nothing", "Request failed: GET "),
    ] {
        let error = world.error(get(server.url(path)));
        assert!(error.starts_with(message), "{error}");
    }
}

#[test]
fn its_own_timeout() {
    let world = World::new();
    let server = serve(&world, |received| {
        Reply::Silence(match received.target.as_str() {
            "/body" => b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf".to_vec(),
            _ => Vec::new(),
        })
    });
    for path in ["/", "/body"] {
        let url = server.url(path);
        let effect = Effect::Http(HttpRequest { timeout: Some(0.1), ..request("GET", &url) });
        assert_eq!(world.error(effect), format!("Request failed: GET {url}: timed out after 0.1 s"));
    }
}

#[test]
fn cancelled_at_once() {
    let world = World::new();
    let (arrived, wait) = mpsc::channel();
    let server = serve(&world, move |_| {
        arrived.send(()).unwrap();
        Reply::Silence(Vec::new())
    });
    world.cancel_when(get(server.url("/")), || wait.recv().unwrap());
}

#[test]
fn stopped_at_the_deadline() {
    let mut world = World::new();
    let server = serve(&world, |_| Reply::Silence(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n".to_vec()));
    world.stopped_at_deadline(get(server.url("/")));
}

#[test]
fn allowed_hosts() {
    let resolve = [("api.example.test", "127.0.0.1"), ("meta.example.test", "169.254.0.1")];
    let resolve = resolve.map(|(name, address)| (name.to_owned(), vec![address.parse().unwrap()]));
    let mut world = World::with(ServicesOptions { resolve: resolve.into(), ..Default::default() });
    let server = echo(&world);
    let port = server.address.port();
    let exact_port = format!("127.0.0.1:{port}");
    let cases: [(CapabilityMode, Allowed, &str, Option<&str>); 16] = [
        (CapabilityMode::Declared, None, "127.0.0.1", None),
        (CapabilityMode::Declared, None, "api.example.test", None),
        (
            CapabilityMode::Strict,
            None,
            "127.0.0.1",
            Some(
                "Host '127.0.0.1' cannot be reached: no allowed_hosts configured for this extension and capabilities are strict. Add allowed_hosts=['127.0.0.1'] to the Extension definition.",
            ),
        ),
        (CapabilityMode::Strict, Some(&["127.0.0.1"]), "127.0.0.1", None),
        (CapabilityMode::Strict, Some(&[&exact_port]), "127.0.0.1", None),
        (CapabilityMode::Declared, Some(&["*.example.test"]), "api.example.test", None),
        (CapabilityMode::Declared, Some(&["*.example.test"]), "API.Example.Test.", None),
        (
            CapabilityMode::Declared,
            Some(&["a.b", "127.0.0.1:1"]),
            "127.0.0.1",
            Some("Host '127.0.0.1' is not in allowed_hosts. Allowed hosts: [\"a.b\", \"127.0.0.1:1\"]"),
        ),
        (
            CapabilityMode::Declared,
            Some(&[]),
            "127.0.0.1",
            Some("Host '127.0.0.1' is not in allowed_hosts. Allowed hosts: []"),
        ),
        (CapabilityMode::Declared, None, "169.254.169.254", Some(SPECIAL_V4)),
        (CapabilityMode::Declared, Some(&["*"]), "169.254.169.254", Some(SPECIAL_V4)),
        (CapabilityMode::Declared, None, "0xa9fea9fe", Some(SPECIAL_V4)),
        (
            CapabilityMode::Declared,
            None,
            "[::ffff:169.254.169.254]",
            Some(
                "Host '::ffff:169.254.169.254' is a link-local or cloud metadata address: refused unless allowed_hosts names it",
            ),
        ),
        (
            CapabilityMode::Declared,
            None,
            "metadata.google.internal",
            Some(
                "Host 'metadata.google.internal' is a link-local or cloud metadata address: refused unless allowed_hosts names it",
            ),
        ),
        (CapabilityMode::Declared, None, "meta.example.test", Some(SPECIAL_NAME)),
        (CapabilityMode::Declared, Some(&["*.example.test"]), "meta.example.test", Some(SPECIAL_NAME)),
    ];
    for (mode, allowed, host, expected) in cases {
        world.grants.mode = mode;
        world.grants.capabilities.hosts =
            allowed.map(|hosts| hosts.iter().map(|host| host.to_string()).collect());
        let effect = get(format!("http://{host}:{port}/"));
        match expected {
            None => assert_eq!(world.ok(effect)["status"], 200, "{mode:?} {allowed:?} {host}"),
            Some(message) => {
                let error = world.error(effect);
                assert!(error.ends_with(message), "{mode:?} {allowed:?} {host}: {error}");
            }
        }
    }
    // Named, it is tried. Nobody answers there, or somebody does: either way it was not refused.
    world.grants.capabilities.hosts = Some(vec!["meta.example.test".to_owned()]);
    let url = format!("http://meta.example.test:{port}/");
    match world.perform(Effect::Http(HttpRequest { timeout: Some(0.2), ..request("GET", url) })) {
        Ok(_) => {}
        Err(error) => assert!(!error.to_string().contains("allowed_hosts"), "{error}"),
    }
}

const SPECIAL_V4: &str =
    "Host '169.254.169.254' is a link-local or cloud metadata address: refused unless allowed_hosts names it";
const SPECIAL_NAME: &str = "'meta.example.test' resolves to the link-local or cloud metadata address 169.254.0.1: refused unless allowed_hosts names it";

#[test]
fn certificates() {
    let resolve = [("other.test".to_owned(), vec!["127.0.0.1".parse().unwrap()])];
    let options = || ServicesOptions { resolve: resolve.clone().into(), ..Default::default() };
    let trusting = World::with(ServicesOptions { extra_roots: vec![certificate("ca.pem")], ..options() });
    let server = serve_tls(&trusting, |_| ok("secure"));
    let url = |host: &str| format!("https://{host}:{}/", server.address.port());
    assert_eq!(trusting.ok(get(url("localhost")))["body"], "secure");
    let error = trusting.error(get(url("other.test")));
    assert!(error.contains("certificate not valid for name \"other.test\""), "{error}");
    let error = World::with(options()).error(get(url("localhost")));
    assert!(error.ends_with("invalid peer certificate: UnknownIssuer"), "{error}");
    let broken = World::with(ServicesOptions { extra_roots: vec!["/no/such.pem".into()], ..options() });
    let error = broken.error(get(url("localhost")));
    assert!(
        error
            .starts_with("Request failed: HTTP cannot be set up: cannot read certificates from /no/such.pem"),
        "{error}"
    );
}
