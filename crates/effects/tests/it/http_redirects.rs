use starloom_effects::ServicesOptions;
use starloom_engine::{Effect, HttpBody, HttpRequest};

use crate::http::{get, pairs, request};
use crate::http_server::{Server, ok, reply, serve};
use crate::world::World;

const SHOWN: [&str; 4] = ["content-type", "authorization", "cookie", "x-a"];

/// `/to/STATUS/LOCATION` redirects, everything else is echoed.
fn server(world: &World) -> Server {
    serve(world, |received| match received.target.strip_prefix("/to/").and_then(|to| to.split_once('/')) {
        Some((status, location)) => reply(&format!("{status} Go"), &[("Location", location)], "gone"),
        None if received.target == "/nowhere" => reply("302 Found", &[], "no location"),
        None => ok(received.summary(&SHOWN)),
    })
}

fn post(url: String) -> HttpRequest {
    HttpRequest {
        body: HttpBody::Text("body".to_owned()),
        headers: pairs(&[("content-type", "text/x"), ("x-a", "1"), ("cookie", "c=1")]),
        auth: Some(("u".to_owned(), "p".to_owned())),
        ..request("POST", url)
    }
}

#[test]
fn methods() {
    let world = World::new();
    let server = server(&world);
    let kept = "content-type=text/x authorization=Basic dTpw cookie=c=1 x-a=1 body";
    let dropped = "content-type=- authorization=Basic dTpw cookie=c=1 x-a=1 ";
    for (method, status, expected) in [
        ("POST", 301, format!("GET /end {dropped}")),
        ("POST", 302, format!("GET /end {dropped}")),
        ("POST", 303, format!("GET /end {dropped}")),
        ("PUT", 303, format!("GET /end {dropped}")),
        ("PUT", 302, format!("PUT /end {kept}")),
        ("POST", 307, format!("POST /end {kept}")),
        ("POST", 308, format!("POST /end {kept}")),
    ] {
        let url = server.url(&format!("/to/{status}//end"));
        let answer = world.ok(Effect::Http(HttpRequest { method: method.to_owned(), ..post(url) }));
        assert_eq!(answer["body"], expected, "{method} {status}");
        assert_eq!(answer["url"], server.url("/end"));
    }
}

#[test]
fn locations() {
    let world = World::new();
    let server = serve(&world, |received| {
        let location = match received.target.as_str() {
            "/a/relative" => "end?x=1",
            "/a/b/up" => "../end",
            "/query" => "?q=1",
            "/absolute" => "/x/../end#f",
            "/nowhere" => return reply("302 Found", &[], "no location"),
            "/choices" => return reply("300 Multiple Choices", &[("Location", "/end")], "choose"),
            _ => return ok(received.target),
        };
        reply("302 Found", &[("Location", location)], "")
    });
    for (path, status, body) in [
        ("/a/relative", 200, "/a/end?x=1"),
        ("/a/b/up", 200, "/a/end"),
        ("/query", 200, "/query?q=1"),
        ("/absolute", 200, "/end"),
        ("/nowhere", 302, "no location"),
        ("/choices", 300, "choose"),
    ] {
        let answer = world.ok(get(server.url(path)));
        assert_eq!((&answer["status"], &answer["body"]), (&status.into(), &body.into()), "{path}");
    }
}

#[test]
fn limits() {
    let world = World::new();
    let looping = serve(&world, |received| reply("302 Found", &[("Location", &received.target)], ""));
    let url = looping.url("/loop");
    let with = |max_redirects| Effect::Http(HttpRequest { max_redirects, ..request("GET", &url) });
    let message = |limit: u32| format!("Request failed: GET {url}: more than {limit} redirects");
    assert_eq!(world.error(with(None)), message(10));
    assert_eq!(world.error(with(Some(2))), message(2));
    assert_eq!(world.ok(with(Some(0)))["status"], 302);
}

/// What proves who we are is for the host it was given for.
#[test]
fn credentials_stay_with_their_host() {
    let world = World::new();
    let (first, second) = (server(&world), server(&world));
    let answer = world.ok(Effect::Http(post(first.url(&format!("/to/307/{}", second.url("/end"))))));
    assert_eq!(answer["body"], "POST /end content-type=text/x authorization=- cookie=- x-a=1 body");
    let target = second.url("/end").replace("http://", "http://other:pw@");
    let answer = world.ok(Effect::Http(post(first.url(&format!("/to/307/{target}")))));
    assert_eq!(
        answer["body"],
        "POST /end content-type=text/x authorization=Basic b3RoZXI6cHc= cookie=- x-a=1 body"
    );
    assert_eq!(answer["url"], second.url("/end"));
}

#[test]
fn every_hop_is_checked() {
    let resolve = [("meta.test".to_owned(), vec!["169.254.169.254".parse().unwrap()])];
    let mut world = World::with(ServicesOptions { resolve: resolve.into(), ..Default::default() });
    let server = server(&world);
    for (location, message) in [
        (
            "http://169.254.169.254/latest/meta-data",
            "Host '169.254.169.254' is a link-local or cloud metadata address: refused unless allowed_hosts names it",
        ),
        (
            "http://[fe80::1]/",
            "Host 'fe80::1' is a link-local or cloud metadata address: refused unless allowed_hosts names it",
        ),
        (
            "http://meta.test/latest",
            "Request failed: GET http://meta.test/latest: 'meta.test' resolves to the link-local or cloud metadata address 169.254.169.254: refused unless allowed_hosts names it",
        ),
    ] {
        assert_eq!(world.error(get(server.url(&format!("/to/302/{location}")))), message);
    }
    for (location, reason) in [
        ("file:///etc/passwd", "only http and https are possible, not file"),
        ("http://[", "invalid IPv6 address"),
    ] {
        let url = server.url(&format!("/to/302/{location}"));
        let error = world.error(get(&url));
        assert!(error.ends_with(&format!("redirected to an invalid URL: {reason}")), "{error}");
    }
    world.grants.capabilities.hosts = Some(vec!["127.0.0.1".to_owned()]);
    assert_eq!(
        world.error(get(server.url("/to/302/http://localhost/"))),
        "Host 'localhost' is not in allowed_hosts. Allowed hosts: [\"127.0.0.1\"]"
    );
}
