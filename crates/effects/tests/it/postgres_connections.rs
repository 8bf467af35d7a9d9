//! How a server is reached, and how a statement ends before its time.

use std::sync::Arc;

use serde_json::json;
use starloom_effects::{CapabilityMode, ServicesOptions};
use starloom_engine::{Effect, SqlOperation, SqlParams};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio_postgres::config::Host;

use crate::http_server::{acceptor, certificate};
use crate::postgres::{connection, execute, prefix, query, query_at, variable, with_option};
use crate::sqlite::none;
use crate::world::{Allowed, World, eventually};

/// What the tests' connection string says.
struct Parts {
    host: String,
    port: u16,
    user: String,
    password: String,
    database: String,
}

fn parts() -> Parts {
    let config: tokio_postgres::Config = connection().parse().unwrap();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let user = config.get_user().unwrap().to_owned();
    Parts {
        host: match &config.get_hosts()[0] {
            Host::Tcp(name) => name.clone(),
            Host::Unix(path) => path.to_str().unwrap().to_owned(),
        },
        port: config.get_ports().first().copied().unwrap_or(5432),
        password: config.get_password().map(text).unwrap_or_default(),
        database: config.get_dbname().unwrap_or(&user).to_owned(),
        user,
    }
}

trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

async fn dial(parts: &Parts) -> std::io::Result<Box<dyn Stream>> {
    if parts.host.starts_with('/') {
        let socket = format!("{}/.s.PGSQL.{}", parts.host, parts.port);
        Ok(Box::new(UnixStream::connect(socket).await?))
    } else {
        Ok(Box::new(TcpStream::connect((parts.host.as_str(), parts.port)).await?))
    }
}

/// Whether the proxy offers TLS, as a server would.
#[derive(Clone, Copy, PartialEq)]
enum Offer {
    Tls,
    Plain,
}

/// A way to the server by TCP. Returns the port.
fn proxy(world: &World, offer: Offer) -> u16 {
    let listener = world.runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
    let port = listener.local_addr().unwrap().port();
    let parts = Arc::new(parts());
    world.runtime.spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let parts = Arc::clone(&parts);
            tokio::spawn(async move { drop(pass(stream, &parts, offer).await) });
        }
    });
    port
}

async fn pass(mut stream: TcpStream, parts: &Parts, offer: Offer) -> std::io::Result<()> {
    const TLS_REQUEST: [u8; 8] = [0, 0, 0, 8, 4, 210, 22, 47];
    let mut first = [0; 8];
    stream.read_exact(&mut first).await?;
    let mut server = dial(parts).await?;
    if first != TLS_REQUEST {
        server.write_all(&first).await?;
        return copy_bidirectional(&mut stream, &mut server).await.map(drop);
    }
    match offer {
        Offer::Plain => {
            stream.write_all(b"N").await?;
            copy_bidirectional(&mut stream, &mut server).await.map(drop)
        }
        Offer::Tls => {
            stream.write_all(b"S").await?;
            let mut stream = acceptor().accept(stream).await?;
            copy_bidirectional(&mut stream, &mut server).await.map(drop)
        }
    }
}

fn by_pairs(host: &str, port: u16, rest: &str) -> String {
    let Parts { user, password, database, .. } = parts();
    format!("host={host} port={port} user='{user}' password='{password}' dbname='{database}' {rest}")
}

fn by_url(host: &str, port: u16, query: &str) -> String {
    let Parts { user, password, database, .. } = parts();
    let encode = |text: &str| url::form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
    format!("postgres://{}:{}@{host}:{port}/{}{query}", encode(&user), encode(&password), encode(&database))
}

fn one(connection: &str) -> Effect {
    query_at(connection, "SELECT 1 AS x", none())
}

#[test]
fn spellings() {
    let world = World::new();
    let port = proxy(&world, Offer::Plain);
    for connection in [
        by_url("127.0.0.1", port, ""),
        by_url("127.0.0.1", port, "").replace("postgres://", "postgresql://"),
        by_url("localhost", port, "?sslmode=disable&connect_timeout=3&application_name=a%20b"),
        by_url("localhost", port, "?sslmode=allow"),
        by_pairs("127.0.0.1", port, ""),
        by_pairs("localhost", port, "sslmode = 'prefer' application_name='it''s' ")
            .replace("it''s", "it\\'s"),
        by_pairs("some.name", port, "hostaddr=127.0.0.1"),
        format!("  {}  ", by_pairs("127.0.0.1", port, "")),
        connection(),
    ] {
        assert_eq!(world.ok(one(&connection)), json!([{"x": 1}]), "{connection}");
    }
}

#[test]
fn tls() {
    let resolve = [("other.test".to_owned(), vec!["127.0.0.1".parse().unwrap()])];
    let options = || ServicesOptions { resolve: resolve.clone().into(), ..Default::default() };
    let world = World::with(options());
    let trusting = World::with(ServicesOptions { extra_roots: vec![certificate("ca.pem")], ..options() });
    let (secure, plain) = (proxy(&world, Offer::Tls), proxy(&world, Offer::Plain));
    let root = format!("sslrootcert={}", certificate("ca.pem").display());
    let unknown = "Failed to connect to PostgreSQL: invalid peer certificate: UnknownIssuer";
    let name = "certificate not valid for name \"other.test\"";
    let refused = "Failed to connect to PostgreSQL: server does not support TLS";
    for (world, host, port, options, problem) in [
        (&world, "localhost", secure, "", None),
        (&world, "localhost", secure, "sslmode=disable", None),
        (&world, "localhost", secure, "sslmode=prefer", None),
        (&world, "localhost", secure, "sslmode=require", None),
        (&world, "other.test", secure, "sslmode=require", None),
        (&world, "127.0.0.1", secure, "sslmode=require", None),
        (&world, "localhost", secure, "sslmode=verify-ca", Some(unknown)),
        (&world, "localhost", secure, "sslmode=verify-full", Some(unknown)),
        (&trusting, "localhost", secure, "sslmode=verify-full", None),
        (&trusting, "localhost", secure, "sslmode=verify-full sslrootcert=system", None),
        (&trusting, "other.test", secure, "sslmode=verify-full", Some(name)),
        (&trusting, "other.test", secure, "sslmode=verify-ca", None),
        (&world, "localhost", secure, &format!("sslmode=verify-full {root}"), None),
        (&world, "other.test", secure, &format!("sslmode=verify-full {root}"), Some(name)),
        (&world, "other.test", secure, &format!("sslmode=verify-ca {root}"), None),
        (&world, "other.test", secure, &format!("sslmode=require {root}"), None),
        (
            &world,
            "localhost",
            secure,
            "sslmode=verify-full sslrootcert=/no/such.pem",
            Some("cannot read certificates from /no/such.pem"),
        ),
        (&world, "localhost", plain, "sslmode=prefer", None),
        (&world, "localhost", plain, "sslmode=require", Some(refused)),
        (&trusting, "localhost", plain, "sslmode=verify-full", Some(refused)),
    ] {
        for connection in
            [by_pairs(host, port, options), by_url(host, port, &format!("?{}", options.replace(' ', "&")))]
        {
            let outcome = world.perform(one(&connection));
            match (outcome, problem) {
                (Ok(_), None) => {}
                (Err(error), Some(problem)) if error.to_string().contains(problem) => {}
                (outcome, _) => panic!("{host} {options}: {outcome:?}"),
            }
        }
    }
}

/// Straight to the server, which then also ties the password to the connection.
#[test]
fn tls_of_the_server_itself() {
    let world = World::new();
    let encrypted = "SELECT ssl AS x FROM pg_stat_ssl WHERE pid = pg_backend_pid()";
    let certificate = variable("STARLOOM_TEST_POSTGRES_CA");
    let verified = with_option(&connection(), "sslmode", "verify-full");
    for (connection, is_encrypted) in [
        (connection(), true),
        (with_option(&connection(), "sslmode", "disable"), false),
        (with_option(&connection(), "sslmode", "require"), true),
        (with_option(&with_option(&connection(), "sslmode", "require"), "channel_binding", "require"), true),
        (with_option(&verified, "sslrootcert", &certificate), true),
    ] {
        let rows = world.ok(query_at(&connection, encrypted, none()));
        assert_eq!(rows, json!([{"x": is_encrypted}]), "{connection}");
    }
    let error = world.error(one(&verified));
    assert!(error.contains("invalid peer certificate: "), "{error}");
}

#[test]
fn a_cancelled_statement_ends_over_tls_too() {
    let world = World::new();
    let connection = by_pairs("localhost", proxy(&world, Offer::Tls), "sslmode=require");
    cancelled_on_the_server(world, connection);
}

#[test]
fn a_cancelled_statement_ends_on_the_server() {
    cancelled_on_the_server(World::new(), connection());
}

fn cancelled_on_the_server(world: World, connection: String) {
    let name = format!("cancelled-{}-{}", std::process::id(), connection.len());
    let watcher = World::new();
    let count = || {
        let sql =
            "SELECT count(*) AS n FROM pg_stat_activity WHERE application_name = $1 AND state = 'active'";
        watcher.ok(query(sql, json!([name])))[0]["n"].as_i64().unwrap()
    };
    let connection = with_option(&connection, "application_name", &name);
    world.cancel_when(query_at(&connection, "SELECT pg_sleep(1000)", none()), || {
        eventually("it runs", || count() == 1);
    });
    eventually("it has ended", || count() == 0);
}

#[test]
fn stopped_at_the_deadline() {
    World::new().stopped_at_deadline(query("SELECT pg_sleep(1000)", none()));
}

fn within(sql: &str, timeout: f64, connection: &str) -> Effect {
    Effect::Postgres {
        connection: connection.to_owned(),
        operation: SqlOperation::Query { sql: sql.to_owned(), params: SqlParams::Positional(Vec::new()) },
        timeout: Some(timeout),
    }
}

#[test]
fn its_own_timeout() {
    let world = World::new();
    assert_eq!(
        world.error(within("SELECT pg_sleep(1000)", 0.2, &connection())),
        prefix() + "timed out after 0.2 s"
    );
    assert_eq!(world.ok(within("SELECT 1 AS x", 5.0, &connection())), json!([{"x": 1}]));
    // The server knows the limit too, should our word to it get lost.
    let found = world.ok(within("SELECT current_setting('statement_timeout') AS t", 5.0, &connection()));
    assert_eq!(found, json!([{"t": "5500ms"}]));
    assert_eq!(
        world.error(within("SELECT 1", -1.0, "")),
        "`timeout` must be a positive number of seconds, not -1"
    );
}

/// Someone who accepts connections and never says a word.
#[test]
fn a_silent_server() {
    let mut world = World::new();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let silent = format!("postgres://u:hunter2@127.0.0.1:{port}/db");
    assert_eq!(
        world.error(within("SELECT 1", 0.1, &silent)),
        "PostgreSQL operation failed (127.0.0.1/db): timed out after 0.1 s"
    );
    world.stopped_at_deadline(one(&silent));
}

#[test]
fn a_lost_connection_is_replaced() {
    let world = World::new();
    let backend = || world.ok(query("SELECT pg_backend_pid() AS pid", none()))[0]["pid"].as_i64().unwrap();
    let first = backend();
    let killer = World::new();
    killer.ok(query("SELECT pg_terminate_backend($1)", json!([first])));
    assert_ne!(backend(), first);
    // In the middle of a statement it is an error: it may have done something.
    let error = world.error(execute("SELECT pg_terminate_backend(pg_backend_pid())", none()));
    assert!(error.starts_with(&prefix()), "{error}");
    assert_eq!(world.ok(query("SELECT 1 AS x", none())), json!([{"x": 1}]));
}

#[test]
fn errors_keep_secrets() {
    let world = World::new();
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let Parts { database, .. } = parts();
    let port = proxy(&world, Offer::Plain);
    let invalid = "PostgreSQL operation failed (invalid connection string): ";
    for (connection, message) in [
        (
            format!("postgres://u:hunter2@127.0.0.1:{closed}/db"),
            "PostgreSQL operation failed (127.0.0.1/db): Failed to connect to PostgreSQL: Connection refused (os error 111)".to_owned(),
        ),
        (
            format!("host=127.0.0.1 port={closed} user=u password=hunter2"),
            "PostgreSQL operation failed (127.0.0.1/u): Failed to connect to PostgreSQL: Connection refused (os error 111)".to_owned(),
        ),
        (
            format!("postgres://no_such_user:hunter2@127.0.0.1:{port}/{database}"),
            format!("PostgreSQL operation failed (127.0.0.1/{database}): Failed to connect to PostgreSQL: "),
        ),
        (
            "postgres://u:hunter2@no-such-name.invalid/db".to_owned(),
            "PostgreSQL operation failed (no-such-name.invalid/db): Failed to connect to PostgreSQL: could not resolve 'no-such-name.invalid': ".to_owned(),
        ),
        ("hunter2".to_owned(), format!("{invalid}it is neither a postgres:// URL nor a list of key=value pairs")),
        ("user=u pass word=hunter2".to_owned(), format!("{invalid}it is neither")),
        ("mysql://u:hunter2@h/db".to_owned(), format!("{invalid}it is neither")),
        ("host=h password='hunter2".to_owned(), format!("{invalid}it is neither")),
        ("host=h hunter2=x".to_owned(), format!("{invalid}it is neither")),
        ("host=h sslkey=hunter2".to_owned(), format!("{invalid}the option `sslkey` is not supported")),
        ("host=h port=hunter2".to_owned(), format!("{invalid}the value of `port` is not valid")),
        ("host=h sslmode=hunter2".to_owned(), format!("{invalid}`sslmode` is disable, prefer, require, verify-ca or verify-full")),
        ("user=u password=hunter2".to_owned(), format!("{invalid}it names no host")),
        ("host=a,b port=1,2,3 password=hunter2".to_owned(), format!("{invalid}it has 2 hosts and 3 ports")),
        ("".to_owned(), format!("{invalid}it names no host")),
    ] {
        let error = world.error(one(&connection));
        assert!(error.starts_with(&message), "{connection}: {error}");
        assert!(!error.contains("hunter2"), "{error}");
    }
}

#[test]
fn hosts() {
    let resolve = [("meta.test".to_owned(), vec!["169.254.169.254".parse().unwrap()])];
    let mut world = World::with(ServicesOptions { resolve: resolve.into(), ..Default::default() });
    let port = proxy(&world, Offer::Plain);
    let local = by_pairs("127.0.0.1", port, "");
    let special = "is a link-local or cloud metadata address: refused unless allowed_hosts names it";
    let cases: [(Allowed, CapabilityMode, &str, Option<String>); 10] = [
        (None, CapabilityMode::Declared, &local, None),
        (
            None,
            CapabilityMode::Strict,
            &local,
            Some("Host '127.0.0.1' cannot be reached: no allowed_hosts".into()),
        ),
        (Some(&["127.0.0.1"]), CapabilityMode::Strict, &local, None),
        (Some(&[&format!("127.0.0.1:{port}")]), CapabilityMode::Strict, &local, None),
        (
            Some(&["127.0.0.1:1"]),
            CapabilityMode::Declared,
            &local,
            Some("Host '127.0.0.1' is not in allowed_hosts. Allowed hosts: [\"127.0.0.1:1\"]".into()),
        ),
        (
            Some(&["127.0.0.1"]),
            CapabilityMode::Declared,
            "host=127.0.0.1,other.test user=u",
            Some("Host 'other.test' is not in allowed_hosts".into()),
        ),
        (
            Some(&["127.0.0.1"]),
            CapabilityMode::Declared,
            "host=/run/postgresql user=u",
            Some("Host '/run/postgresql' is not in allowed_hosts".into()),
        ),
        (
            None,
            CapabilityMode::Declared,
            "host=169.254.169.254 user=u",
            Some(format!("Host '169.254.169.254' {special}")),
        ),
        (
            None,
            CapabilityMode::Declared,
            "host=fine.test hostaddr=169.254.169.254 user=u",
            Some(format!("Host '169.254.169.254' {special}")),
        ),
        (
            None,
            CapabilityMode::Declared,
            "host=meta.test user=u",
            Some("Failed to connect to PostgreSQL: 'meta.test' resolves to the link-local".into()),
        ),
    ];
    for (allowed, mode, connection, problem) in cases {
        world.grants.mode = mode;
        world.grants.capabilities.hosts =
            allowed.map(|hosts| hosts.iter().map(|host| host.to_string()).collect());
        match (world.perform(one(connection)), problem) {
            (Ok(_), None) => {}
            (Err(error), Some(problem)) if error.to_string().contains(&problem) => {}
            (outcome, _) => panic!("{allowed:?} {connection}: {outcome:?}"),
        }
    }
}

/// The first host that answers is taken.
#[test]
fn several_hosts() {
    let world = World::new();
    let port = proxy(&world, Offer::Plain);
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let Parts { user, password, database, .. } = parts();
    let connection = format!(
        "host=no-such-name.invalid,127.0.0.1,127.0.0.1 port={closed},{closed},{port} user='{user}' password='{password}' dbname='{database}'"
    );
    assert_eq!(world.ok(one(&connection)), json!([{"x": 1}]));
}

/// More connection strings than pools are kept.
#[test]
fn many_connection_strings() {
    let world = World::new();
    let backend = |name: &str| {
        let connection = with_option(&connection(), "application_name", name);
        world.ok(query_at(&connection, "SELECT pg_backend_pid() AS pid", none()))
    };
    let first = backend("n0");
    assert_eq!(backend("n0"), first);
    for number in 1..=33 {
        backend(&format!("n{number}"));
    }
    assert_ne!(backend("n0"), first);
}
