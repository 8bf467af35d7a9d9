use serde_json::json;
use starloom_effects::ServicesOptions;
use starloom_engine::{Effect, Json, SqlOperation, SqlParams};

use crate::world::World;

pub fn query(path: &str, sql: &str, params: Json) -> Effect {
    Effect::Sqlite {
        path: path.to_owned(),
        operation: SqlOperation::Query { sql: sql.to_owned(), params: to_params(params) },
    }
}

pub fn execute(path: &str, sql: &str, params: Json) -> Effect {
    Effect::Sqlite {
        path: path.to_owned(),
        operation: SqlOperation::Execute { sql: sql.to_owned(), params: to_params(params) },
    }
}

pub fn to_params(params: Json) -> SqlParams {
    match params {
        Json::Array(values) => SqlParams::Positional(values),
        Json::Object(values) => SqlParams::Named(values),
        other => panic!("{other}"),
    }
}

pub fn none() -> Json {
    json!([])
}

fn tables(path: &str, schema: Option<&str>) -> Effect {
    let schema = schema.map(str::to_owned);
    Effect::Sqlite { path: path.to_owned(), operation: SqlOperation::ListTables { schema } }
}

fn describe(path: &str, table: &str) -> Effect {
    let operation = SqlOperation::DescribeTable { table: table.to_owned(), schema: None };
    Effect::Sqlite { path: path.to_owned(), operation }
}

fn json(text: &str) -> Json {
    serde_json::from_str(text).unwrap()
}

#[test]
fn values_survive_the_round_trip() {
    let world = World::new();
    for (value, kind, comes_back) in [
        ("null", "null", "null"),
        ("true", "integer", "1"),
        ("false", "integer", "0"),
        ("9223372036854775807", "integer", "9223372036854775807"),
        ("-9223372036854775808", "integer", "-9223372036854775808"),
        ("0.1", "real", "0.1"),
        ("1.0", "real", "1.0"),
        ("123456789.12345679", "real", "123456789.12345679"),
        ("1e300", "real", "1e+300"),
        ("5e-324", "real", "5e-324"),
        ("\"ä\\u0000b\"", "text", "\"ä\\u0000b\""),
        ("[1,\"a\"]", "text", "\"[1,\\\"a\\\"]\""),
        ("{\"k\":1.10}", "text", "\"{\\\"k\\\":1.10}\""),
    ] {
        let rows = world.ok(query(":memory:", "SELECT ?1 AS v, typeof(?1) AS t", json!([json(value)])));
        assert_eq!(rows.to_string(), format!("[{{\"v\":{comes_back},\"t\":\"{kind}\"}}]"), "{value}");
    }
}

#[test]
fn columns() {
    let world = World::new();
    let sql = "SELECT 1 AS b, x'00ff' AS a, 2 AS b, CAST(x'61ff' AS TEXT) AS c, 3 AS b";
    assert_eq!(
        world.ok(query(":memory:", sql, none())).to_string(),
        "[{\"b\":1,\"a\":\"AP8=\",\"b_2\":2,\"c\":\"a\u{fffd}\",\"b_3\":3}]"
    );
    assert_eq!(
        world.error(query(":memory:", "SELECT 1 AS fine, 9e999 AS big", none())),
        "Failed to fetch row: column `big`: inf has no JSON form"
    );
}

#[test]
fn parameters() {
    let world = World::new();
    let sql = "SELECT :a AS a, @b AS b, $c AS c, :a AS d";
    for params in [json!({"a": 1, "b": 2, "c": 3}), json!({":a": 1, "@b": 2, "$c": 3}), json!([1, 2, 3])] {
        assert_eq!(world.ok(query(":memory:", sql, params)), json!([{"a": 1, "b": 2, "c": 3, "d": 1}]));
    }
    for (sql, params, message) in [
        ("SELECT ?", json!([]), "the statement has 1 parameters, and 0 values were given"),
        ("SELECT 1", json!([1]), "the statement has 0 parameters, and 1 values were given"),
        ("SELECT :a", json!({}), "there is no value for parameter `:a`"),
        ("SELECT :a", json!({"a": 1, "b": 2}), "the statement has no parameter for the value `b`"),
        ("SELECT ?", json!({"a": 1}), "parameter 1 has no name: give the values as a list"),
        ("SELECT ?1", json!({"1": 1}), "parameter 1 has no name: give the values as a list"),
        (
            "SELECT ?, ?",
            json!([1, json("9223372036854775808")]),
            "parameter 2: 9223372036854775808 does not fit into SQLite's 64-bit integers",
        ),
        ("SELECT :a", json!({"a": json("1e999")}), "parameter `:a`: 1e+999 is too large for a float"),
    ] {
        let error = world.error(query(":memory:", sql, params));
        assert_eq!(error, format!("Query execution failed: {message}"), "{sql}");
    }
}

#[test]
fn execute_counts() {
    let world = World::new();
    let db = &world.folder.file("a.db");
    for (sql, params, changed) in [
        ("CREATE TABLE t(id INTEGER PRIMARY KEY, name TEXT)", none(), 0),
        ("INSERT INTO t(name) VALUES (?), (?), ('c')", json!(["a", "b"]), 3),
        ("CREATE INDEX i ON t(name)", none(), 0),
        ("UPDATE t SET name = 'x' WHERE id < 3", none(), 2),
        ("UPDATE t SET name = 'x' WHERE id > 99", none(), 0),
        ("ALTER TABLE t ADD COLUMN extra", none(), 0),
        ("INSERT INTO t(name) VALUES ('r') RETURNING id", none(), 1),
        ("PRAGMA journal_mode = WAL", none(), 0),
        ("DELETE FROM t", none(), 4),
        (" -- a comment\n DROP TABLE t ; -- another\n ;", none(), 0),
    ] {
        assert_eq!(world.ok(execute(db, sql, params)), json!(changed), "{sql}");
    }
}

#[test]
fn statement_errors() {
    let world = World::new();
    let db = &world.folder.file("a.db");
    world.ok(execute(db, "CREATE TABLE t(id INTEGER PRIMARY KEY)", none()));
    let more = "more than one statement: run them one by one";
    for (effect, message) in [
        (
            execute(db, "SELECT * FROM t", none()),
            "Statement execution failed: Execute returned results - did you mean to call query?".to_owned(),
        ),
        (
            execute(db, "INSERT INTO t VALUES (1); INSERT INTO t VALUES (2)", none()),
            format!("Statement execution failed: {more}"),
        ),
        (
            execute(db, "CREATE TABLE u(x); INSERT INTO u VALUES (1)", none()),
            format!("Statement execution failed: {more}"),
        ),
        (query(db, "SELECT 1; SELECT 2", none()), format!("Failed to prepare query: {more}")),
        (query(db, " ; -- nothing", none()), "Failed to prepare query: there is no statement".to_owned()),
        (query(db, "SELECT * FROM nope", none()), "Failed to prepare query: no such table: nope".to_owned()),
        (
            execute(db, "SELEC 1", none()),
            "Statement execution failed: near \"SELEC\": syntax error".to_owned(),
        ),
        (
            query(db, "INSERT INTO t VALUES (1)", none()),
            "Failed to fetch row: attempt to write a readonly database".to_owned(),
        ),
    ] {
        assert_eq!(world.error(effect), message);
    }
    world.ok(execute(db, "INSERT INTO t VALUES (1)", none()));
    let error = world.error(execute(db, "INSERT INTO t VALUES (1)", none()));
    assert_eq!(error, "Statement execution failed: UNIQUE constraint failed: t.id");
    assert_eq!(world.ok(tables(db, None)), json!([{"name": "t"}]), "nothing was done half-way");
    assert_eq!(world.ok(query(db, "SELECT * FROM t", none())), json!([{"id": 1}]));
}

#[test]
fn opening() {
    let world = World::new();
    let missing = world.folder.file("missing.db");
    let error = world.error(query(&missing, "SELECT 1", none()));
    assert!(error.starts_with("Failed to open SQLite database: "), "{error}");
    assert!(!std::path::Path::new(&missing).exists());
    let text = world.folder.write("text.db", "this is no database, but it is long enough to look like one");
    assert_eq!(
        world.error(query(&text, "SELECT * FROM t", none())),
        "Failed to prepare query: file is not a database"
    );
    let pipe = world.folder.file("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    for path in [&pipe, "/dev/zero", world.folder.path().to_str().unwrap()] {
        let error = world.error(query(path, "SELECT 1", none()));
        assert_eq!(error, format!("Failed to open SQLite database: {path} is not a regular file"));
    }
    assert_eq!(
        world.error(query("", "SELECT 1", none())),
        "Failed to open SQLite database: the path is empty"
    );
    let error = world.error(execute(&world.folder.file("no/such/folder.db"), "CREATE TABLE t(x)", none()));
    assert!(error.starts_with("Failed to open SQLite database: "), "{error}");
}

#[test]
fn memory_is_fresh_each_time() {
    let world = World::new();
    assert_eq!(world.ok(execute(":memory:", "CREATE TABLE t(x)", none())), json!(0));
    assert_eq!(world.ok(execute(":memory:", "CREATE TABLE t(x)", none())), json!(0));
}

#[test]
fn tables_and_their_columns() {
    let world = World::new();
    let db = &world.folder.file("a.db");
    world.ok(execute(
        db,
        "CREATE TABLE \"b\"\"x\" (id INTEGER PRIMARY KEY AUTOINCREMENT, \"na me\" TEXT NOT NULL DEFAULT 'd', r REAL)",
        none(),
    ));
    world.ok(execute(db, "CREATE TABLE sqliteX(y)", none()));
    world.ok(execute(db, "CREATE VIEW v AS SELECT 1", none()));
    // `sqlite_sequence` is not shown.
    assert_eq!(world.ok(tables(db, None)), json!([{"name": "b\"x"}, {"name": "sqliteX"}]));
    assert_eq!(
        world.ok(describe(db, "b\"x")).to_string(),
        concat!(
            r#"[{"cid":0,"name":"id","type":"INTEGER","notnull":0,"dflt_value":null,"pk":1},"#,
            r#"{"cid":1,"name":"na me","type":"TEXT","notnull":1,"dflt_value":"'d'","pk":0},"#,
            r#"{"cid":2,"name":"r","type":"REAL","notnull":0,"dflt_value":null,"pk":0}]"#
        )
    );
    assert_eq!(world.ok(describe(db, "t); DROP TABLE sqliteX; --")), json!([]));
    assert_eq!(world.ok(tables(db, None)).as_array().unwrap().len(), 2);
    assert_eq!(
        world.error(tables(db, Some("public"))),
        "Query execution failed: SQLite has no schema \"public\": leave `schema` out"
    );
}

#[test]
fn results_are_capped() {
    let world =
        World::with(ServicesOptions { max_rows: 1000, max_result_bytes: 1 << 20, ..Default::default() });
    let count = |rows: u32| {
        format!(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT {rows}) SELECT i FROM n"
        )
    };
    let rows = world.ok(query(":memory:", &count(1000), none()));
    assert_eq!(rows.as_array().unwrap().len(), 1000);
    assert_eq!(
        world.error(query(":memory:", &count(1001), none())),
        "Failed to fetch row: the query gives more than 1000 rows"
    );
    assert_eq!(
        world.error(query(":memory:", "SELECT zeroblob(2000000) AS z", none())),
        "Failed to fetch row: the query gives more than 1048576 bytes"
    );
    assert_eq!(
        world.error(query(":memory:", "SELECT length(zeroblob(1000000000))", none())),
        "Failed to fetch row: string or blob too big"
    );
}
