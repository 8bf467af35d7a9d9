use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::json;
use starloom_effects::ServicesOptions;
use starloom_engine::{Effect, Json, SqlOperation, SqlParams};

use crate::sqlite::{none, to_params};
use crate::world::{World, eventually};

/// Where the tests' server is.
pub fn connection() -> String {
    variable("STARLOOM_TEST_POSTGRES")
}

pub fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| {
        panic!("{name} is not set: run the tests with `cargo xtask test`, which starts a PostgreSQL")
    })
}

pub fn query_at(connection: &str, sql: &str, params: Json) -> Effect {
    let operation = SqlOperation::Query { sql: sql.to_owned(), params: to_params(params) };
    Effect::Postgres { connection: connection.to_owned(), operation, timeout: None }
}

pub fn query(sql: &str, params: Json) -> Effect {
    query_at(&connection(), sql, params)
}

pub fn execute(sql: &str, params: Json) -> Effect {
    let operation = SqlOperation::Execute { sql: sql.to_owned(), params: to_params(params) };
    Effect::Postgres { connection: connection(), operation, timeout: None }
}

/// What every error starts with, however the server is reached.
pub fn prefix() -> String {
    let config: tokio_postgres::Config = connection().parse().unwrap();
    let hosts = config.get_hosts().iter().map(|host| match host {
        tokio_postgres::config::Host::Tcp(name) => name.clone(),
        tokio_postgres::config::Host::Unix(path) => path.display().to_string(),
    });
    let database = config.get_dbname().or(config.get_user()).unwrap();
    format!("PostgreSQL operation failed ({}/{database}): ", hosts.collect::<Vec<_>>().join(","))
}

/// A schema of its own, dropped at the end.
pub struct Schema {
    pub world: World,
    pub name: String,
}

impl Schema {
    pub fn new() -> Schema {
        Schema::with(ServicesOptions::default())
    }

    pub fn with(options: ServicesOptions) -> Schema {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("s{}_{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let world = World::with(options);
        world.ok(execute(&format!("CREATE SCHEMA {name}"), none()));
        Schema { world, name }
    }

    /// `@` stands for the schema.
    #[track_caller]
    pub fn execute(&self, sql: &str, params: Json) -> Json {
        self.world.ok(execute(&sql.replace('@', &self.name), params))
    }

    #[track_caller]
    pub fn query(&self, sql: &str, params: Json) -> Json {
        self.world.ok(query(&sql.replace('@', &self.name), params))
    }
}

impl Drop for Schema {
    fn drop(&mut self) {
        let _ = self.world.perform(execute(&format!("DROP SCHEMA {} CASCADE", self.name), none()));
    }
}

#[test]
fn operations() {
    let schema = Schema::new();
    for (sql, params, changed) in [
        ("CREATE TABLE @.t(id int8 PRIMARY KEY, name varchar(9) NOT NULL DEFAULT 'd', n numeric)", none(), 0),
        ("INSERT INTO @.t(id, name) VALUES ($1, $2), ($3, 'b')", json!([1, "a", 9_000_000_000_i64]), 2),
        ("UPDATE @.t SET n = $1", json!([1.5]), 2),
        ("UPDATE @.t SET n = 1 WHERE id = $1", json!([-1]), 0),
        ("DELETE FROM @.t WHERE id = $1", json!([1]), 1),
        ("INSERT INTO @.t(id) VALUES (5) RETURNING id", none(), 1),
        ("CREATE VIEW @.v AS SELECT 1 AS x", none(), 0),
        ("CREATE TABLE @.\"o'dd\"(\"x y\" text)", none(), 0),
    ] {
        assert_eq!(schema.execute(sql, params), json!(changed), "{sql}");
    }
    assert_eq!(
        schema.query("SELECT name, id, n FROM @.t ORDER BY id", none()).to_string(),
        r#"[{"name":"d","id":5,"n":null},{"name":"b","id":9000000000,"n":1.5}]"#
    );
    assert_eq!(
        schema.query("INSERT INTO @.t(id, n) VALUES ($1, 2.50) RETURNING n, id", json!([6])).to_string(),
        r#"[{"n":2.50,"id":6}]"#
    );
    assert_eq!(schema.query("SELECT id FROM @.t WHERE false", none()), json!([]));
    let list = |schema: &str| Effect::Postgres {
        connection: connection(),
        operation: SqlOperation::ListTables { schema: Some(schema.to_owned()) },
        timeout: None,
    };
    assert_eq!(schema.world.ok(list(&schema.name)), json!([{"tablename": "o'dd"}, {"tablename": "t"}]));
    assert_eq!(schema.world.ok(list("no such schema")), json!([]));
    let describe = |table: &str, name: Option<&str>| Effect::Postgres {
        connection: connection(),
        operation: SqlOperation::DescribeTable { table: table.to_owned(), schema: name.map(str::to_owned) },
        timeout: None,
    };
    assert_eq!(
        schema.world.ok(describe("t", Some(&schema.name))).to_string(),
        concat!(
            r#"[{"column_name":"id","data_type":"bigint","is_nullable":"NO","column_default":null,"character_maximum_length":null},"#,
            r#"{"column_name":"name","data_type":"character varying","is_nullable":"NO","column_default":"'d'::character varying","character_maximum_length":9},"#,
            r#"{"column_name":"n","data_type":"numeric","is_nullable":"YES","column_default":null,"character_maximum_length":null}]"#
        )
    );
    assert_eq!(schema.world.ok(describe("o'dd", Some(&schema.name)))[0]["column_name"], "x y");
    assert_eq!(schema.world.ok(describe("t", None)), json!([]));
}

#[test]
fn statement_errors() {
    let schema = Schema::new();
    schema.execute("CREATE TABLE @.t(id int PRIMARY KEY, CHECK (id < 100))", none());
    schema.execute("INSERT INTO @.t VALUES (1)", none());
    let table = format!("{}.t", schema.name);
    for (effect, message) in [
        (
            query("SELECT * FROM no_such_table", none()),
            "Query execution failed: relation \"no_such_table\" does not exist (SQLSTATE 42P01)".to_owned(),
        ),
        (
            execute("SELEC 1", none()),
            "Statement execution failed: syntax error at or near \"SELEC\" (SQLSTATE 42601)".to_owned(),
        ),
        (
            execute(&format!("INSERT INTO {table} VALUES ($1)"), json!([1])),
            "Statement execution failed: duplicate key value violates unique constraint \"t_pkey\" (SQLSTATE 23505); detail: Key (id)=(1) already exists.".to_owned(),
        ),
        (
            query("SELECT 1; SELECT 2", none()),
            "Query execution failed: cannot insert multiple commands into a prepared statement (SQLSTATE 42601)".to_owned(),
        ),
        (
            query("SELECT lower(1.5)", none()),
            "Query execution failed: function lower(numeric) does not exist (SQLSTATE 42883); hint: No function matches the given name and argument types. You might need to add explicit type casts.".to_owned(),
        ),
        (query("SELECT 1 / $1::int", json!([0])), "Query execution failed: division by zero (SQLSTATE 22012)".to_owned()),
        (query("SELECT 'a\0b'", none()), "Query execution failed: string contains embedded null".to_owned()),
    ] {
        assert_eq!(schema.world.error(effect), prefix() + &message);
    }
    for sql in ["COPY @.t FROM STDIN", "COPY @.t TO STDOUT", "/* all */ copy (SELECT 1) to stdout"] {
        let error = schema.world.error(execute(&sql.replace('@', &schema.name), none()));
        let message = "Statement execution failed: COPY can only read and write files of the server here";
        assert_eq!(error, prefix() + message, "{sql}");
    }
    assert_eq!(schema.query("", none()), json!([]));
    assert_eq!(schema.execute(" -- nothing", none()), json!(0));
    assert_eq!(schema.query("SELECT id FROM @.t", none()), json!([{"id": 1}]));
}

#[test]
fn parameter_errors() {
    let world = World::new();
    let big: Json = serde_json::from_str("9223372036854775808").unwrap();
    for (sql, params, message) in [
        ("SELECT $1::int4", json!([]), "the statement has 1 parameters, and 0 values were given"),
        ("SELECT 1", json!([1, 2]), "the statement has 0 parameters, and 2 values were given"),
        (
            "SELECT $1::int4",
            json!({"a": 1}),
            "PostgreSQL parameters are positional: write $1, $2, … and give the values as a list",
        ),
        ("SELECT $1::int4, $2::int4", json!([1, "2"]), "$2 needs int4: a string does not fit"),
        ("SELECT $1::int4", json!([3_000_000_000_i64]), "$1 needs int4: the number 3000000000 does not fit"),
        ("SELECT $1::int2", json!([-32769]), "$1 needs int2: the number -32769 does not fit"),
        ("SELECT $1::int8", json!([big]), "$1 needs int8: the number 9223372036854775808 does not fit"),
        ("SELECT $1::int8", json!([1.5]), "$1 needs int8: the number 1.5 does not fit"),
        ("SELECT $1::oid", json!([-1]), "$1 needs oid: the number -1 does not fit"),
        ("SELECT $1::bool", json!([1]), "$1 needs bool: the number 1 does not fit"),
        ("SELECT $1::int4", json!([true]), "$1 needs int4: the bool true does not fit"),
        ("SELECT $1::text", json!([[1]]), "$1 needs text: a list does not fit"),
        ("SELECT $1::text", json!([true]), "$1 needs text: the bool true does not fit"),
        ("SELECT $1::date", json!([5]), "$1 needs date: the number 5 does not fit"),
        ("SELECT $1::numeric", json!([{}]), "$1 needs numeric: a dict does not fit"),
        ("SELECT $1::int4[]", json!([5]), "$1 needs int4[]: the number 5 does not fit"),
        ("SELECT $1::int4[]", json!([[1, null, "x"]]), "$1[2] needs int4[]: a string does not fit"),
        ("SELECT $1::int4[]", json!([[[1], [true]]]), "$1[1][0] needs int4[]: the bool true does not fit"),
        (
            "SELECT $1::bytea",
            json!(["!"]),
            "$1 needs bytea: the text is not base64: Invalid symbol 33, offset 0.",
        ),
        (
            "SELECT $1::int4, $2::uuid",
            json!([1, "nonsense"]),
            "$2 needs uuid: Query execution failed: invalid input syntax for type uuid: \"nonsense\" (SQLSTATE 22P02)",
        ),
        (
            "SELECT $1::timestamptz",
            json!(["2024-99-01"]),
            "$1 needs timestamptz: Query execution failed: date/time field value out of range: \"2024-99-01\" (SQLSTATE 22008); hint: Perhaps you need a different \"datestyle\" setting.",
        ),
        (
            "SELECT $1::jsonb",
            json!(["{"]),
            "$1 needs jsonb: Query execution failed: invalid input syntax for type json (SQLSTATE 22P02); detail: The input string ended unexpectedly.",
        ),
    ] {
        assert_eq!(world.error(query(sql, params)), format!("{}{message}", prefix()), "{sql}");
    }
    // An empty dict is what no parameters look like to some.
    let effect = Effect::Postgres {
        connection: connection(),
        operation: SqlOperation::Query {
            sql: "SELECT 1 AS x".into(),
            params: SqlParams::Named(Default::default()),
        },
        timeout: None,
    };
    assert_eq!(world.ok(effect), json!([{"x": 1}]));
}

#[test]
fn column_names() {
    let world = World::new();
    assert_eq!(
        world.ok(query("SELECT 1 AS a, 2 AS a, 3 AS a_2, 4", none())).to_string(),
        r#"[{"a":1,"a_3":2,"a_2":3,"?column?":4}]"#
    );
}

#[test]
fn results_are_capped() {
    let world =
        World::with(ServicesOptions { max_rows: 1000, max_result_bytes: 1 << 20, ..Default::default() });
    let rows = world.ok(query("SELECT generate_series(1, 1000) AS n", none()));
    assert_eq!(rows.as_array().unwrap().len(), 1000);
    assert_eq!(
        world.error(query("SELECT generate_series(1, 100000000) AS n", none())),
        prefix() + "the query gives more than 1000 rows"
    );
    assert_eq!(
        world.error(query("SELECT repeat('x', 2000000) AS n", none())),
        prefix() + "the query gives more than 1048576 bytes"
    );
    assert_eq!(world.ok(query("SELECT 1 AS n", none())), json!([{"n": 1}]));
}

/// A connection that is used again is like a new one, and used again it is.
#[test]
fn nothing_is_left_behind() {
    let schema = Schema::new();
    let backend = || schema.query("SELECT pg_backend_pid() AS pid", none())[0]["pid"].clone();
    let before = backend();
    for sql in [
        "SET search_path = @",
        "SET statement_timeout = 54321",
        "SELECT set_config('application_name', 'left', false)",
        "CREATE TEMP TABLE left_behind(x int)",
        "SELECT pg_advisory_lock(42)",
        "LISTEN left_behind",
        "SET SESSION AUTHORIZATION DEFAULT",
    ] {
        schema.query(sql, none());
        assert_eq!(backend(), before, "{sql}");
    }
    let state = "SELECT current_setting('search_path') AS path, current_setting('application_name') AS name, \
                 to_regclass('left_behind') IS NULL AS gone, \
                 (SELECT count(*) FROM pg_listening_channels()) AS listening, \
                 (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()) AS locks";
    assert_eq!(
        schema.query(state, none()),
        json!([{"path": "\"$user\", public", "name": "starloom", "gone": true, "listening": 0, "locks": 0}])
    );
    // An open transaction cannot be left to anyone.
    schema.execute("CREATE TABLE @.t(x int)", none());
    for begin in ["BEGIN", "/* c */ start transaction", "PREPARE p AS SELECT 1"] {
        let before = backend();
        schema.execute(begin, none());
        assert_ne!(backend(), before, "{begin}");
        schema.execute("INSERT INTO @.t VALUES (1)", none());
    }
    let elsewhere = World::new();
    let count = format!("SELECT count(*) AS n FROM {}.t", schema.name);
    assert_eq!(elsewhere.ok(query(&count, none())), json!([{"n": 3}]));
}

#[test]
fn many_at_once() {
    let world = World::new();
    std::thread::scope(|scope| {
        for number in 0..40 {
            let world = &world;
            scope.spawn(move || {
                let rows = world.ok(query("SELECT $1::int AS n, pg_sleep(0.01)", json!([number])));
                assert_eq!(rows, json!([{"n": number, "pg_sleep": null}]));
            });
        }
    });
    let sql = "SELECT count(*) AS n FROM pg_stat_activity WHERE application_name = $1";
    let name = format!("many-{}", std::process::id());
    let connection = with_option(&connection(), "application_name", &name);
    std::thread::scope(|scope| {
        for _ in 0..20 {
            scope.spawn(|| world.ok(query_at(&connection, "SELECT pg_sleep(0.02)", none())));
        }
    });
    eventually("at most eight are open", || {
        world.ok(query(sql, json!([name])))[0]["n"].as_u64().is_some_and(|n| (1..=8).contains(&n))
    });
}

pub fn with_option(connection: &str, name: &str, value: &str) -> String {
    if connection.contains("://") {
        let separator = if connection.contains('?') { '&' } else { '?' };
        format!("{connection}{separator}{name}={value}")
    } else {
        format!("{connection} {name}='{value}'")
    }
}
