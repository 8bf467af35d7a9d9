use serde_json::json;
use starloom_engine::Json;

use crate::postgres::{Schema, query};
use crate::sqlite::none;
use crate::world::World;

/// Type, how the server is told the value, and what comes out as JSON.
const VALUES: &[(&str, &str, &str)] = &[
    ("bool", "t", "true"),
    ("bool", "f", "false"),
    ("int2", "-32768", "-32768"),
    ("int4", "2147483647", "2147483647"),
    ("int8", "9223372036854775807", "9223372036854775807"),
    ("int8", "-9223372036854775808", "-9223372036854775808"),
    ("oid", "4294967295", "4294967295"),
    ("float4", "0.1", "0.1"),
    ("float4", "1e30", "1e+30"),
    ("float4", "-0.0", "-0.0"),
    ("float8", "0.1", "0.1"),
    ("float8", "3", "3.0"),
    ("float8", "123456789.12345679", "123456789.12345679"),
    ("float8", "5e-324", "5e-324"),
    ("float8", "NaN", "\"NaN\""),
    ("float8", "Infinity", "\"Infinity\""),
    ("float4", "-Infinity", "\"-Infinity\""),
    ("numeric", "0", "0"),
    ("numeric", "1.10", "1.10"),
    ("numeric", "-0.00001", "-0.00001"),
    ("numeric", "10000", "10000"),
    ("numeric", "100000000.00010000", "100000000.00010000"),
    ("numeric", "1180591620717411303424", "1180591620717411303424"),
    (
        "numeric",
        "0.000000000000000000000000000000000000000001",
        "0.000000000000000000000000000000000000000001",
    ),
    ("numeric", "NaN", "\"NaN\""),
    ("numeric", "Infinity", "\"Infinity\""),
    ("numeric", "-Infinity", "\"-Infinity\""),
    ("numeric(10,2)", "5", "5.00"),
    ("text", "ä\"\\{},;NULL", r#""ä\"\\{},;NULL""#),
    ("text", "", "\"\""),
    ("varchar(5)", "abc", "\"abc\""),
    ("char(5)", "abc", "\"abc  \""),
    ("\"char\"", "x", "\"x\""),
    ("name", "abc", "\"abc\""),
    ("uuid", "A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11", "\"a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11\""),
    ("date", "2024-02-29", "\"2024-02-29\""),
    ("date", "1969-12-31", "\"1969-12-31\""),
    ("date", "0044-03-15 BC", "\"0044-03-15 BC\""),
    ("date", "0001-01-01", "\"0001-01-01\""),
    ("date", "4714-11-24 BC", "\"4714-11-24 BC\""),
    ("date", "12345-06-07", "\"12345-06-07\""),
    ("date", "infinity", "\"infinity\""),
    ("date", "-infinity", "\"-infinity\""),
    ("time", "04:05:06.789", "\"04:05:06.789\""),
    ("time", "24:00:00", "\"24:00:00\""),
    ("timetz", "04:05:06+02", "\"04:05:06+02:00\""),
    ("timetz", "04:05:06.5-03:30", "\"04:05:06.5-03:30\""),
    ("timestamp", "2024-01-02 03:04:05", "\"2024-01-02T03:04:05\""),
    ("timestamp", "1999-12-31 23:59:59.999999", "\"1999-12-31T23:59:59.999999\""),
    ("timestamp", "0044-03-15 12:00:00 BC", "\"0044-03-15T12:00:00 BC\""),
    ("timestamp", "12345-01-01 00:00:00", "\"12345-01-01T00:00:00\""),
    ("timestamp", "infinity", "\"infinity\""),
    ("timestamptz", "2024-01-02 03:04:05.1+02", "\"2024-01-02T01:04:05.1Z\""),
    ("timestamptz", "1960-01-01 00:00:00.000001+00", "\"1960-01-01T00:00:00.000001Z\""),
    ("timestamptz", "-infinity", "\"-infinity\""),
    ("interval", "1 year 2 mons 3 days 04:05:06.7", "\"1 year 2 mons 3 days 04:05:06.7\""),
    (
        "json",
        "{\"b\": 1.10, \"a\": [1180591620717411303424, null]}",
        r#"{"b":1.10,"a":[1180591620717411303424,null]}"#,
    ),
    ("jsonb", "[true, \"x\", {}]", r#"[true,"x",{}]"#),
    ("jsonb", "null", "null"),
    ("bytea", "\\x00ff10", "\"AP8Q\""),
    ("bytea", "", "\"\""),
    ("inet", "192.168.0.1", "\"192.168.0.1\""),
    ("inet", "192.168.0.1/24", "\"192.168.0.1/24\""),
    ("inet", "2001:db8::1", "\"2001:db8::1\""),
    ("cidr", "192.168.0.0/16", "\"192.168.0.0/16\""),
    ("cidr", "10.1.2.3", "\"10.1.2.3/32\""),
    ("macaddr", "08:00:2b:01:02:03", "\"08:00:2b:01:02:03\""),
    ("macaddr8", "08:00:2b:01:02:03:04:05", "\"08:00:2b:01:02:03:04:05\""),
    // From here on as the server itself writes them.
    ("money", "12.34", "\"$12.34\""),
    ("bit(4)", "1010", "\"1010\""),
    ("varbit", "101", "\"101\""),
    ("int4range", "[1,5)", "\"[1,5)\""),
    ("numrange", "(1.5,)", "\"(1.5,)\""),
    ("tstzrange", "empty", "\"empty\""),
    ("int4multirange", "{[1,3),[5,7)}", "\"{[1,3),[5,7)}\""),
    ("point", "(1,2)", "\"(1,2)\""),
    ("box", "(3,4),(1,2)", "\"(3,4),(1,2)\""),
    ("polygon", "((0,0),(1,1))", "\"((0,0),(1,1))\""),
    ("tsvector", "'a' 'b':2", "\"'a' 'b':2\""),
    ("pg_lsn", "16/B374D848", "\"16/B374D848\""),
    ("regclass", "pg_class", "\"pg_class\""),
    ("xid", "7", "\"7\""),
    ("jsonpath", "$.\"a\"", "\"$.\\\"a\\\"\""),
];

fn json(text: &str) -> Json {
    serde_json::from_str(text).unwrap()
}

/// One query with the value, NULL, and arrays of them; then the way back.
#[track_caller]
fn check(world: &World, kind: &str, literal: &str, expected: &str) {
    let literal = literal.replace('\'', "''");
    let sql = format!(
        "SELECT '{literal}'::{kind} AS v, NULL::{kind} AS n, ARRAY['{literal}'::{kind}, NULL] AS a, \
         ARRAY[ARRAY['{literal}'::{kind}], ARRAY[NULL::{kind}]] AS m, ARRAY[]::{kind}[] AS e, NULL::{kind}[] AS na"
    );
    let found = world.ok(query(&sql, none()));
    let wanted = format!(
        "[{{\"v\":{expected},\"n\":null,\"a\":[{expected},null],\"m\":[[{expected}],[null]],\"e\":[],\"na\":null}}]"
    );
    assert_eq!(found.to_string(), wanted, "{kind} {literal}");
    if kind == "jsonb" && expected == "null" {
        return; // None is NULL of any type, also of this one.
    }
    let same = format!(
        "SELECT $1::{kind}::text = '{literal}'::{kind}::text AS value, \
         ($2::{kind}[])[1]::text = '{literal}'::{kind}::text AS element, $3::{kind} IS NULL AS nothing, \
         ($4::{kind}[][])[1][1]::text = '{literal}'::{kind}::text AS inner"
    );
    let value = json(expected);
    let is_json = ["json", "jsonb"].contains(&kind);
    // In an array of JSON a list is one of the values: there, text leaves no doubt.
    let element = if is_json { json!(expected) } else { value.clone() };
    let found = world.ok(query(&same, json!([value, [element, null], null, [[element]]])));
    let inner = if is_json { Json::Null } else { json!(true) };
    let wanted = json!([{"value": true, "element": true, "nothing": true, "inner": inner}]);
    // The type json keeps the white space of its text.
    if kind != "json" {
        assert_eq!(found, wanted, "{kind} {literal}");
    }
}

#[test]
fn every_type() {
    let world = World::new();
    for (kind, literal, expected) in VALUES {
        check(&world, kind, literal, expected);
    }
}

#[test]
fn types_of_ones_own() {
    let schema = Schema::new();
    schema.execute("CREATE TYPE @.mood AS ENUM ('sad', 'ok', 'ha\"ppy')", none());
    schema.execute("CREATE DOMAIN @.positive AS int8 CHECK (VALUE > 0)", none());
    schema.execute("CREATE DOMAIN @.moody AS @.mood", none());
    schema.execute("CREATE TYPE @.pair AS (a int, b text)", none());
    schema.execute("CREATE TYPE @.floats AS RANGE (subtype = float8)", none());
    for (kind, literal, expected) in [
        ("mood", "ha\"ppy", r#""ha\"ppy""#),
        ("positive", "9000000000", "9000000000"),
        ("moody", "ok", "\"ok\""),
        ("pair", "(1,\"a b\")", r#""(1,\"a b\")""#),
        ("floats", "[1.5,2)", "\"[1.5,2)\""),
    ] {
        check(&schema.world, &format!("{}.{kind}", schema.name), literal, expected);
    }
    let error = schema.world.error(query(&format!("SELECT $1::{}.mood", schema.name), json!(["angry"])));
    assert!(error.contains("invalid input value for enum") && error.contains("$1 needs mood"), "{error}");
    let error = schema.world.error(query(&format!("SELECT $1::{}.positive", schema.name), json!(["1"])));
    assert!(error.ends_with("$1 needs positive: a string does not fit"), "{error}");
}

/// The same text as the server's, whatever signs the parts have.
#[test]
fn intervals() {
    let world = World::new();
    for literal in [
        "0",
        "1 year",
        "-1 year",
        "2 years 1 mon",
        "-1 mon 5 days",
        "1 mon -5 days",
        "-3 days 04:05:06",
        "3 days -04:05:06.000001",
        "100:00:00",
        "-00:00:01",
        "1 day",
        "-1 years -2 mons +3 days -04:05:06",
        "178000000 years",
        "14 mons",
    ] {
        let row = world.ok(query(
            &format!("SELECT i, i::text AS t FROM (SELECT '{literal}'::interval AS i) AS x"),
            none(),
        ));
        assert_eq!(row[0]["i"], row[0]["t"], "{literal}");
    }
}

#[test]
fn numbers_have_all_their_digits() {
    let world = World::new();
    let sql = "SELECT n, n::text AS t FROM (SELECT ($1::numeric * power(10::numeric, e))::numeric AS n \
               FROM generate_series(-30, 30) AS e) AS x";
    for digits in ["1", "-9999", "10001", "123456789.987654321", "99999999.9999"] {
        let rows = world.ok(query(sql, json!([json(digits)])));
        for row in rows.as_array().unwrap() {
            assert_eq!(row["n"].to_string(), row["t"].as_str().unwrap());
        }
    }
}

#[test]
fn days_over_the_whole_calendar() {
    let world = World::new();
    let sql = "SELECT d, d::text AS t FROM (SELECT ('2000-01-01'::date + n)::date AS d \
               FROM generate_series(-2451545, 2000000, 977) AS n) AS x";
    let rows = world.ok(query(sql, none()));
    for row in rows.as_array().unwrap() {
        assert_eq!(row["d"], row["t"]);
    }
}

#[test]
fn arrays() {
    let world = World::new();
    for (sql, expected) in [
        ("SELECT '{{1,2},{3,NULL}}'::int[] AS a", "[[1,2],[3,null]]"),
        ("SELECT '[0:1]={5,6}'::int[] AS a", "[5,6]"),
        ("SELECT '{{{{{{1}}}}}}'::int[] AS a", "[[[[[[1]]]]]]"),
        ("SELECT ARRAY['{\"a\": [1]}'::jsonb] AS a", "[{\"a\":[1]}]"),
        ("SELECT '1 2'::int2vector AS a", "[1,2]"),
        ("SELECT ARRAY[int4range(1, 2), NULL] AS a", "[\"[1,2)\",null]"),
    ] {
        assert_eq!(world.ok(query(sql, none()))[0]["a"].to_string(), expected, "{sql}");
    }
    for (sql, param, expected) in [
        ("SELECT $1::int[] AS a", json!([[1, 2], [3, null]]), "[[1,2],[3,null]]"),
        (
            "SELECT $1::text[] AS a",
            json!(["a,b", "\"", "\\", "{}", "NULL", null, ""]),
            r#"["a,b","\"","\\","{}","NULL",null,""]"#,
        ),
        ("SELECT $1::jsonb[] AS a", json!([{"a": 1}, [1], "[2]", null]), "[{\"a\":1},[1],[2],null]"),
        ("SELECT $1::jsonb AS a", json!([1, [2]]), "[1,[2]]"),
        ("SELECT $1::jsonb AS a", json!({"a": {"b": null}}), "{\"a\":{\"b\":null}}"),
        ("SELECT $1::int[] AS a", json!("{7,8}"), "[7,8]"),
        ("SELECT $1::int[] AS a", json!([]), "[]"),
        ("SELECT $1::box[] AS a", json!(["(3,4),(1,2)", "(1,1),(0,0)"]), "[\"(3,4),(1,2)\",\"(1,1),(0,0)\"]"),
    ] {
        assert_eq!(world.ok(query(sql, json!([param])))[0]["a"].to_string(), expected, "{sql}");
    }
}

#[test]
fn parameters() {
    let world = World::new();
    let exact = json("123456789012345678901234567890.123456789");
    for (kind, param, expected) in [
        ("numeric", exact.clone(), "123456789012345678901234567890.123456789"),
        ("numeric", json!("1.10"), "1.10"),
        ("numeric", json!(7), "7"),
        ("float8", json!(1), "1"),
        ("float8", json!(0.1), "0.1"),
        ("text", json!(5), "5"),
        ("text", json!(1.5), "1.5"),
        ("varchar", json!("ä"), "ä"),
        ("bool", json!(true), "true"),
        ("jsonb", json!("{\"a\": 1}"), "{\"a\": 1}"),
        ("jsonb", json!(5), "5"),
        ("jsonb", json!(false), "false"),
        ("bytea", json!("AP8="), "\\x00ff"),
        ("bytea", json!("\\x01"), "\\x01"),
        ("timestamptz", json!("2024-01-02T03:04:05Z"), "2024-01-02 03:04:05+00"),
        ("interval", json!("90 minutes"), "01:30:00"),
        ("money", json!(1.5), "$1.50"),
    ] {
        let sql = format!("SELECT $1::{kind}::text AS t");
        let connection =
            crate::postgres::with_option(&crate::postgres::connection(), "options", "-ctimezone%3DUTC");
        let connection = if connection.contains("://") { connection } else { connection.replace("%3D", "=") };
        let found = world.ok(crate::postgres::query_at(&connection, &sql, json!([param])));
        assert_eq!(found[0]["t"], expected, "{kind} {param}");
    }
    // The type is the statement's, not the value's.
    assert_eq!(
        world.ok(query("SELECT 1 AS x WHERE 5::int8 = $1 AND 2::int2 = $2", json!([5, 2]))),
        json!([{"x": 1}])
    );
    assert_eq!(
        world.ok(query("SELECT $1::int8 IS NULL AND $2::uuid IS NULL AS x", json!([null, null]))),
        json!([{"x": true}])
    );
}

/// Columns the server has to turn into text, in statements of all kinds.
#[test]
fn casts() {
    let schema = Schema::new();
    schema.execute("CREATE TABLE @.t(id int, p point)", none());
    for (sql, params, expected) in [
        (
            "SELECT $1::int AS a, '(1,2)'::point AS a, $2::text AS b;",
            json!([7, "x"]),
            r#"[{"a":7,"a_2":"(1,2)","b":"x"}]"#,
        ),
        ("SELECT '(1,2)'::point AS p -- a comment", none(), r#"[{"p":"(1,2)"}]"#),
        ("WITH x AS (SELECT '(1,2)'::point AS p) SELECT p FROM x", none(), r#"[{"p":"(1,2)"}]"#),
        (
            "INSERT INTO @.t VALUES (1, '(1,2)'), (2, NULL) RETURNING p, id",
            none(),
            r#"[{"p":"(1,2)","id":1},{"p":null,"id":2}]"#,
        ),
        ("SELECT p FROM @.t ORDER BY id DESC", none(), r#"[{"p":null},{"p":"(1,2)"}]"#),
        ("SELECT t FROM @.t AS t ORDER BY id LIMIT 1", none(), r#"[{"t":"(1,\"(1,2)\")"}]"#),
        ("SELECT row(1, 'a') AS r", none(), r#"[{"r":"(1,a)"}]"#),
        ("SELECT p FROM @.t WHERE id = 1 FOR UPDATE", none(), r#"[{"p":"(1,2)"}]"#),
        ("EXPLAIN SELECT 1", none(), r#"[{"QUERY PLAN":"Result  (cost=0.00..0.01 rows=1 width=4)"}]"#),
        ("SHOW server_encoding", none(), r#"[{"server_encoding":"UTF8"}]"#),
    ] {
        assert_eq!(schema.query(sql, params).to_string(), expected, "{sql}");
    }
    // Each ran once.
    assert_eq!(schema.query("SELECT count(*) AS n FROM @.t", none()), json!([{"n": 2}]));
    let sql = "WITH x AS (INSERT INTO @.t VALUES (3, '(3,3)') RETURNING p) SELECT p FROM x";
    let error = schema.world.error(query(&sql.replace('@', &schema.name), none()));
    assert!(
        error.ends_with(
            "column `p`: a value of type point cannot be read here: cast it to text in the statement"
        ),
        "{error}"
    );
    assert_eq!(schema.query("SELECT count(*) AS n FROM @.t", none()), json!([{"n": 2}]));
}
