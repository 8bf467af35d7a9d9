use serde_json::json;
use starloom_effects::{ServicesOptions, StoreLocation};
use starloom_engine::{Effect, Json, StoreOperation};

use crate::world::{Folder, World, eventually};

fn get(key: &str) -> Effect {
    Effect::Store(StoreOperation::Get { key: key.to_owned() })
}

fn set(key: &str, value: Json, ttl: Option<f64>) -> Effect {
    Effect::Store(StoreOperation::Set { key: key.to_owned(), value, ttl })
}

fn delete(key: &str) -> Effect {
    Effect::Store(StoreOperation::Delete { key: key.to_owned() })
}

fn keys(prefix: &str) -> Effect {
    Effect::Store(StoreOperation::Keys { prefix: prefix.to_owned() })
}

fn increment(key: &str, by: i64, ttl: Option<f64>) -> Effect {
    Effect::Store(StoreOperation::Increment { key: key.to_owned(), by, ttl })
}

fn compare_and_set(key: &str, expected: Json, value: Json) -> Effect {
    Effect::Store(StoreOperation::CompareAndSet { key: key.to_owned(), expected, value })
}

fn world_at(store: StoreLocation) -> World {
    World::with(ServicesOptions { store, ..Default::default() })
}

/// Both kinds of store, which must not differ. The file lies in folders that do not exist yet.
fn each(check: impl Fn(World)) {
    check(world_at(StoreLocation::Memory));
    let folder = Folder::new();
    check(world_at(StoreLocation::File(folder.path().join("a/b/store.db"))));
}

#[test]
fn operations() {
    each(|world| {
        let big: Json = serde_json::from_str(r#"{"z": 1.10, "a": [1180591620717411303424, null]}"#).unwrap();
        for (effect, expected) in [
            (get("k"), Json::Null),
            (set("k", big.clone(), None), Json::Null),
            (get("k"), big.clone()),
            (set("k", json!("ä\u{0}"), None), Json::Null),
            (get("k"), json!("ä\u{0}")),
            (delete("k"), json!(true)),
            (delete("k"), json!(false)),
            (get("k"), Json::Null),
            (increment("n", 2, None), json!(2)),
            (increment("n", -5, None), json!(-3)),
            (get("n"), json!(-3)),
            (compare_and_set("n", json!(0), json!("no")), json!(false)),
            (compare_and_set("n", json!(-3), json!({"x": 1, "y": 2})), json!(true)),
            (compare_and_set("n", json!({"y": 2, "x": 1}), Json::Null), json!(true)),
            (compare_and_set("n", Json::Null, json!("again")), json!(true)),
            (compare_and_set("absent", json!(1), json!(2)), json!(false)),
            (compare_and_set("absent", Json::Null, json!(2)), json!(true)),
            (get("absent"), json!(2)),
        ] {
            assert_eq!(world.ok(effect.clone()), expected, "{effect:?}");
        }
    });
}

#[test]
fn keys_in_order() {
    each(|world| {
        for key in ["b", "a/2", "a/10", "A", "a%", "ä", "a_", "", "a"] {
            world.ok(set(key, json!(1), None));
        }
        for (prefix, expected) in [
            ("", json!(["", "A", "a", "a%", "a/10", "a/2", "a_", "b", "ä"])),
            ("a", json!(["a", "a%", "a/10", "a/2", "a_"])),
            ("a/", json!(["a/10", "a/2"])),
            ("a%", json!(["a%"])),
            ("ä", json!(["ä"])),
            ("zzz", json!([])),
        ] {
            assert_eq!(world.ok(keys(prefix)), expected, "{prefix}");
        }
    });
}

#[test]
fn sources_do_not_meet() {
    each(|world| {
        let other = starloom_effects::Grants { source: "other".to_owned(), ..world.grants.clone() };
        world.ok(set("k", json!("mine"), None));
        assert_eq!(world.perform_for(&other, get("k")).unwrap(), Json::Null);
        assert_eq!(world.perform_for(&other, delete("k")).unwrap(), json!(false));
        assert_eq!(world.perform_for(&other, keys("")).unwrap(), json!([]));
        assert_eq!(world.ok(get("k")), json!("mine"));
    });
}

#[test]
fn values_expire() {
    each(|world| {
        world.ok(set("short", json!(1), Some(0.05)));
        world.ok(set("long", json!(1), Some(1e300)));
        world.ok(increment("window", 1, Some(0.05)));
        world.ok(increment("window", 1, Some(1000.0)));
        world.ok(compare_and_set("short", json!(1), json!(2)));
        eventually("it has expired", || world.ok(get("short")).is_null());
        eventually("the window of the first increment is over", || world.ok(get("window")).is_null());
        assert_eq!(world.ok(keys("")), json!(["long"]));
        assert_eq!(world.ok(delete("short")), json!(false));
        assert_eq!(world.ok(increment("window", 1, None)), json!(1));
        assert_eq!(world.ok(compare_and_set("short", Json::Null, json!(3))), json!(true));
        // Set anew, a value has no end.
        world.ok(set("short", json!(4), None));
        assert_eq!(world.ok(keys("")), json!(["long", "short", "window"]));
    });
}

#[test]
fn limits() {
    each(|world| {
        let (key, value) = ("k".repeat(1024), "v".repeat((1 << 20) - 2));
        world.ok(set(&key, json!(value), None));
        assert_eq!(world.ok(get(&key)), json!(value));
        world.ok(set("text", json!("x"), None));
        world.ok(set("max", json!(i64::MAX), None));
        for (effect, message) in [
            (get(&"k".repeat(1025)), "store: a key has at most 1024 bytes, this one has 1025"),
            (
                set("k", json!("v".repeat((1 << 20) - 1)), None),
                "store: a value has at most 1048576 bytes as JSON, the one for `k` has 1048577",
            ),
            (
                compare_and_set("k", Json::Null, json!("v".repeat(1 << 20))),
                "store: a value has at most 1048576 bytes as JSON, the one for `k` has 1048578",
            ),
            (set("k", json!(1), Some(0.0)), "store: `ttl` must be a positive number of seconds, not 0"),
            (increment("k", 1, Some(f64::NAN)), "store: `ttl` must be a positive number of seconds, not NaN"),
            (increment("text", 1, None), "store: the value of `text` is not an integer"),
            (increment("max", 1, None), "store: the value of `max` would leave the 64-bit integers"),
        ] {
            assert_eq!(world.error(effect), message);
        }
        assert_eq!(world.ok(get("max")), json!(i64::MAX));
    });
}

#[test]
fn many_at_once() {
    each(|world| {
        std::thread::scope(|scope| {
            for _ in 0..16 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        world.ok(increment("n", 1, None));
                    }
                });
            }
        });
        assert_eq!(world.ok(get("n")), json!(800));
    });
}

#[test]
fn a_file_outlives_the_process() {
    let folder = Folder::new();
    let path = folder.path().join("store.db");
    world_at(StoreLocation::File(path.clone())).ok(set("k", json!([1.5]), None));
    let world = world_at(StoreLocation::File(path.clone()));
    assert_eq!(world.ok(get("k")), json!([1.5]));
    use std::os::unix::fs::PermissionsExt;
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    // It may be taken away while it is in use: then there is a new one.
    for file in std::fs::read_dir(folder.path()).unwrap() {
        std::fs::remove_file(file.unwrap().path()).unwrap();
    }
    assert_eq!(world.ok(get("k")), Json::Null);
    world.ok(set("k", json!(2), None));
    assert!(path.exists());
}

#[test]
fn two_processes_share_a_file() {
    let folder = Folder::new();
    let at = || world_at(StoreLocation::File(folder.path().join("store.db")));
    let (one, two) = (at(), at());
    std::thread::scope(|scope| {
        for world in [&one, &two, &one, &two] {
            scope.spawn(|| {
                for _ in 0..100 {
                    world.ok(increment("n", 1, None));
                }
            });
        }
    });
    assert_eq!(two.ok(get("n")), json!(400));
}

#[test]
fn damaged_files() {
    let folder = Folder::new();
    let garbage = folder.write("garbage.db", "this is not a database".repeat(100));
    let newer = folder.file("newer.db");
    rusqlite::Connection::open(&newer).unwrap().execute_batch("PRAGMA user_version = 7").unwrap();
    let damaged = folder.file("damaged.db");
    world_at(StoreLocation::File(damaged.clone().into())).ok(set("k", json!("x".repeat(100_000)), None));
    let mut bytes = std::fs::read(&damaged).unwrap();
    let _ = std::fs::remove_file(format!("{damaged}-wal"));
    bytes[100..4096].fill(0x5a);
    std::fs::write(&damaged, bytes).unwrap();
    let blocked = format!("{garbage}/store.db");
    for (path, message) in [
        (garbage.clone(), "file is not a database"),
        (newer, "it has version 7, and this program knows 1"),
        (damaged, "database disk image is malformed"),
        (blocked, "File exists (os error 17)"),
        (folder.path().to_str().unwrap().to_owned(), "is not a regular file"),
    ] {
        let world = world_at(StoreLocation::File(path.clone().into()));
        for effect in [get("k"), set("k", json!(1), None), increment("n", 1, None)] {
            let error = world.error(effect);
            assert!(error.starts_with(&format!("store: {path}: ")) && error.contains(message), "{error}");
        }
    }
}

#[test]
fn stopped_while_it_waits() {
    let folder = Folder::new();
    let path = folder.path().join("store.db");
    let mut world = world_at(StoreLocation::File(path.clone()));
    world.ok(set("k", json!(1), None));
    let other = rusqlite::Connection::open(&path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    world.stopped_at_deadline(set("k", json!(2), None));
}
