use serde_json::json;
use starloom_engine::Effect;

use crate::world::{Folder, World};

fn read(path: &str) -> Effect {
    Effect::ReadData { path: path.to_owned() }
}

#[test]
fn reads_text_below_the_root() {
    let world = World::new();
    let absolute = world.folder.write("sub/a..b.json", "{\"ä\": 1}");
    world.folder.write("empty.txt", "");
    assert_eq!(world.ok(read("sub/a..b.json")), json!({"text": "{\"ä\": 1}"}));
    assert_eq!(world.ok(read("./sub/a..b.json")), json!({"text": "{\"ä\": 1}"}));
    assert_eq!(world.ok(read(&absolute)), json!({"text": "{\"ä\": 1}"}));
    assert_eq!(world.ok(read("empty.txt")), json!({"text": ""}));
}

#[test]
fn refuses_the_rest() {
    let world = World::new();
    let outside = Folder::new();
    let secret = outside.write("secret.txt", "s");
    world.folder.write("bytes.bin", [b'o', b'k', 0xff]);
    std::os::unix::fs::symlink(&secret, world.folder.path().join("link.txt")).unwrap();
    std::os::unix::fs::symlink(outside.path(), world.folder.path().join("linked")).unwrap();
    let pipe = std::process::Command::new("mkfifo").arg(world.folder.file("pipe")).status().unwrap();
    assert!(pipe.success());
    for (path, message) in [
        ("../x.json", "path traversal not allowed: ../x.json"),
        ("a/../../x", "path traversal not allowed: a/../../x"),
        ("none.json", "failed to resolve file path 'none.json': No such file or directory (os error 2)"),
        ("/etc/passwd", "path must be within extensions directory"),
        (&secret, "path must be within extensions directory"),
        ("link.txt", "path must be within extensions directory"),
        ("linked/secret.txt", "path must be within extensions directory"),
        (".", "failed to read file '.': it is not a regular file"),
        ("pipe", "failed to read file 'pipe': it is not a regular file"),
        ("bytes.bin", "failed to read file 'bytes.bin': it is not UTF-8 (first at byte 2)"),
    ] {
        assert_eq!(world.error(read(path)), message);
    }
}

#[test]
fn refuses_huge_files() {
    let world = World::new();
    let path = world.folder.write("huge.txt", "");
    // Sparse: it takes no space.
    let file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
    file.set_len((64 << 20) + 1).unwrap();
    assert_eq!(
        world.error(read("huge.txt")),
        "failed to read file 'huge.txt': it is larger than 67108864 bytes"
    );
    file.set_len(64 << 20).unwrap();
    assert_eq!(world.ok(read("huge.txt"))["text"].as_str().unwrap().len(), 64 << 20);
}
