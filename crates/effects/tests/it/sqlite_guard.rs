//! What a SQLite statement may touch, leaves behind, and how it ends.

use serde_json::json;
use starloom_effects::CapabilityMode;
use starloom_engine::EffectError;

use crate::sqlite::{execute, none, query};
use crate::world::{Folder, World, eventually};

const ENDLESS: &str =
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n, t";

/// A database that anyone may open, with a table `t` of one row.
fn database(folder: &Folder, name: &str) -> String {
    let path = folder.file(name);
    let connection = rusqlite::Connection::open(&path).unwrap();
    connection.execute_batch("CREATE TABLE t(x); INSERT INTO t VALUES (1)").unwrap();
    path
}

fn allow(world: &mut World, paths: &[&str]) {
    world.grants.capabilities.paths = Some(paths.iter().map(|path| path.to_string()).collect());
}

#[test]
fn paths() {
    let mut world = World::new();
    let outside = Folder::new();
    let secret = database(&outside, "secret.db");
    let inside = database(&world.folder, "a.db");
    std::fs::create_dir(world.folder.path().join("data")).unwrap();
    let below = database(&world.folder, "data/b.db");
    std::os::unix::fs::symlink(&secret, world.folder.path().join("data/link.db")).unwrap();
    std::os::unix::fs::symlink(outside.path(), world.folder.path().join("data/linked")).unwrap();
    std::os::unix::fs::symlink(outside.file("new.db"), world.folder.path().join("data/dangling.db")).unwrap();
    let file = |name: &str| world.folder.file(name);
    let cases = [
        (vec!["a.db"], inside.clone(), true),
        (vec!["a.db"], below.clone(), false),
        (vec!["data"], below.clone(), true),
        (vec!["data"], inside.clone(), false),
        (vec!["data"], file("data/new.db"), true),
        (vec!["data"], file("data/../a.db"), false),
        (vec!["data"], file("data/link.db"), false),
        (vec!["data"], file("data/linked/secret.db"), false),
        (vec!["data"], file("data/linked/new.db"), false),
        (vec!["data"], file("data/dangling.db"), false),
        (vec!["data", "no/such/folder"], secret.clone(), false),
        (vec!["dat"], below.clone(), false),
        (vec!["."], inside.clone(), true),
        (vec!["data/link.db"], secret.clone(), true),
        (vec![], ":memory:".to_owned(), true),
        (vec![], inside.clone(), false),
    ];
    for (allowed, path, possible) in cases {
        allow(&mut world, &allowed);
        let outcome = world.perform(execute(&path, "CREATE TABLE IF NOT EXISTS new(x)", none()));
        assert_eq!(outcome.is_ok(), possible, "{allowed:?} {path}: {outcome:?}");
    }
    assert!(!std::path::Path::new(&outside.file("new.db")).exists());
    allow(&mut world, &["data"]);
    assert_eq!(
        world.error(query(&secret, "SELECT 1", none())),
        format!(
            "Failed to open SQLite database: Path '{secret}' is not in allowed_paths. Allowed paths: [\"data\"]"
        )
    );
}

#[test]
fn modes() {
    let mut world = World::new();
    let db = database(&world.folder, "a.db");
    assert_eq!(world.ok(query(&db, "SELECT x FROM t", none())), json!([{"x": 1}]));
    world.grants.mode = CapabilityMode::Strict;
    assert_eq!(
        world.error(query(&db, "SELECT x FROM t", none())),
        format!(
            "Failed to open SQLite database: Path '{db}' cannot be opened: no allowed_paths configured for this extension and capabilities are strict. Add allowed_paths=['{db}'] to the Extension definition."
        )
    );
    assert_eq!(world.ok(query(":memory:", "SELECT 1 AS x", none())), json!([{"x": 1}]));
    allow(&mut world, &["a.db"]);
    assert_eq!(world.ok(query(&db, "SELECT x FROM t", none())), json!([{"x": 1}]));
}

/// The file that is opened is not the only one a statement can reach.
#[test]
fn statements_cannot_reach_other_files() {
    let mut world = World::new();
    let outside = Folder::new();
    let secret = database(&outside, "secret.db");
    let stolen = outside.file("stolen.db");
    let db = database(&world.folder, "a.db");
    let friend = database(&world.folder, "friend.db");
    allow(&mut world, &["."]);
    for sql in [
        format!("ATTACH '{secret}' AS s"),
        format!("ATTACH DATABASE \"{secret}\" AS s"),
        format!("ATTACH 'file:{secret}' AS s"),
        format!("ATTACH '{secret}' || '' AS s"),
        format!("VACUUM INTO '{stolen}'"),
        format!("VACUUM INTO 'file:{stolen}'"),
        format!("PRAGMA temp_store_directory = '{}'", outside.path().display()),
    ] {
        let error = world.error(execute(&db, &sql, none()));
        assert!(error.contains("allowed_paths") || error.contains("not authorized"), "{sql}: {error}");
    }
    let error = world.error(execute(&db, "ATTACH ? AS s", json!([secret])));
    assert!(error.contains("allowed_paths"), "{error}");
    assert!(!std::path::Path::new(&stolen).exists());
    for sql in [
        format!("ATTACH '{friend}' AS s"),
        "ATTACH ':memory:' AS s".to_owned(),
        format!("VACUUM INTO '{}'", world.folder.file("copy.db")),
        "VACUUM".to_owned(),
    ] {
        assert_eq!(world.ok(execute(&db, &sql, none())), json!(0), "{sql}");
    }
    assert!(
        world
            .error(query(&db, &format!("SELECT load_extension('{secret}')"), none()))
            .contains("not authorized")
    );
}

#[test]
fn without_a_list_files_can_be_attached() {
    let world = World::new();
    let (db, other) = (database(&world.folder, "a.db"), database(&world.folder, "b.db"));
    assert_eq!(world.ok(execute(&db, "ATTACH ? AS s", json!([other]))), json!(0));
}

/// A connection that is used again is like a new one.
#[test]
fn nothing_is_left_behind() {
    let world = World::new();
    let (db, other) = (database(&world.folder, "a.db"), database(&world.folder, "b.db"));
    for sql in [
        format!("ATTACH '{other}' AS s"),
        "CREATE TEMP TABLE left_behind(x)".to_owned(),
        "CREATE TEMP VIEW left_view AS SELECT 1".to_owned(),
        "PRAGMA foreign_keys = OFF".to_owned(),
        "BEGIN IMMEDIATE".to_owned(),
        "SAVEPOINT s".to_owned(),
    ] {
        world.ok(execute(&db, &sql, none()));
        assert_eq!(world.ok(execute(&db, "UPDATE t SET x = x", none())), json!(1), "{sql}");
        let sql = "SELECT (SELECT count(*) FROM pragma_database_list WHERE name != 'temp') AS files, \
                   (SELECT count(*) FROM sqlite_temp_master) AS temporary, \
                   (SELECT foreign_keys FROM pragma_foreign_keys) AS keys";
        let expected = json!([{"files": 1, "temporary": 0, "keys": 1}]);
        assert_eq!(world.ok(query(&db, sql, none())), expected);
        // Also through the kind of connection that wrote.
        world.ok(execute(
            &db,
            "CREATE TABLE seen AS SELECT count(*) AS n FROM pragma_database_list WHERE name != 'temp'",
            none(),
        ));
        assert_eq!(world.ok(query(&db, "SELECT n FROM seen", none())), json!([{"n": 1}]));
        world.ok(execute(&db, "DROP TABLE seen", none()));
    }
}

#[test]
fn a_replaced_file_is_seen() {
    let world = World::new();
    let db = database(&world.folder, "a.db");
    assert_eq!(world.ok(query(&db, "SELECT x FROM t", none())), json!([{"x": 1}]));
    let new = database(&world.folder, "new.db");
    rusqlite::Connection::open(&new).unwrap().execute("UPDATE t SET x = 2", []).unwrap();
    std::fs::rename(&new, &db).unwrap();
    assert_eq!(world.ok(query(&db, "SELECT x FROM t", none())), json!([{"x": 2}]));
    std::fs::remove_file(&db).unwrap();
    assert!(world.error(query(&db, "SELECT x FROM t", none())).starts_with("Failed to open SQLite database"));
}

#[test]
fn a_write_ahead_log_can_be_read() {
    let folder = Folder::new();
    let db = database(&folder, "a.db");
    let writer = World::new();
    writer.ok(execute(&db, "PRAGMA journal_mode = WAL", none()));
    writer.ok(execute(&db, "INSERT INTO t VALUES (2)", none()));
    let sum = || query(&db, "SELECT sum(x) AS s FROM t", none());
    assert_eq!(World::new().ok(sum()), json!([{"s": 3}]));
    drop(writer);
    // Nobody has it open now, and the log is gone.
    assert!(!folder.path().join("a.db-wal").exists());
    assert_eq!(World::new().ok(sum()), json!([{"s": 3}]));
}

#[test]
fn cancelled_while_it_computes() {
    let world = World::new();
    let db = database(&world.folder, "a.db");
    let other = rusqlite::Connection::open(&db).unwrap();
    other.busy_timeout(std::time::Duration::ZERO).unwrap();
    world.cancel_when(query(&db, ENDLESS, none()), || {
        // A running query keeps others from writing.
        eventually("the query runs", || match other.execute_batch("BEGIN EXCLUSIVE") {
            Ok(()) => {
                other.execute_batch("ROLLBACK").unwrap();
                false
            }
            Err(_) => true,
        });
    });
}

#[test]
fn stopped_while_it_computes() {
    let mut world = World::new();
    let db = database(&world.folder, "a.db");
    world.stopped_at_deadline(query(&db, ENDLESS, none()));
    // The connection serves the next call.
    world.stop = starloom_engine::Stop::after(std::time::Duration::from_secs(60));
    assert_eq!(world.ok(query(&db, "SELECT x FROM t", none())), json!([{"x": 1}]));
}

#[test]
fn stopped_while_it_waits_for_a_lock() {
    let mut world = World::new();
    let db = database(&world.folder, "a.db");
    let other = rusqlite::Connection::open(&db).unwrap();
    other.execute_batch("BEGIN EXCLUSIVE").unwrap();
    world.stopped_at_deadline(execute(&db, "INSERT INTO t VALUES (2)", none()));
}

#[test]
fn cancelled_while_it_waits_for_a_lock() {
    let world = World::new();
    let db = database(&world.folder, "a.db");
    let other = rusqlite::Connection::open(&db).unwrap();
    other.execute_batch("BEGIN EXCLUSIVE").unwrap();
    world.cancel_when(execute(&db, "INSERT INTO t VALUES (2)", none()), || {});
}

/// Writers wait for each other.
#[test]
fn many_writers() {
    let world = World::new();
    let db = database(&world.folder, "a.db");
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..25 {
                    world.ok(execute(&db, "INSERT INTO t VALUES (1)", none()));
                    world.ok(query(&db, "SELECT count(*) AS n FROM t", none()));
                }
            });
        }
    });
    assert_eq!(world.ok(query(&db, "SELECT count(*) AS n FROM t", none())), json!([{"n": 201}]));
}

#[test]
fn a_lock_that_is_never_given_up_is_an_error() {
    let world = World::new();
    let db = database(&world.folder, "a.db");
    let other = rusqlite::Connection::open(&db).unwrap();
    other.execute_batch("BEGIN EXCLUSIVE").unwrap();
    let started = std::time::Instant::now();
    match world.perform(execute(&db, "INSERT INTO t VALUES (2)", none())) {
        Err(EffectError::Failed(message)) => {
            assert_eq!(message, "Statement execution failed: database is locked");
        }
        other => panic!("{other:?}"),
    }
    assert!(started.elapsed() >= std::time::Duration::from_secs(5));
}
