use std::io::Read;
use std::time::{Duration, Instant};

use serde_json::json;
use starloom_effects::{Phase, ServicesOptions};
use starloom_engine::{Effect, ExecRequest, Json};

use crate::world::{World, eventually};

fn request(command: &str, args: &[&str]) -> ExecRequest {
    ExecRequest {
        command: command.to_owned(),
        args: args.iter().map(|arg| arg.to_string()).collect(),
        cwd: None,
        env: Vec::new(),
        stdin: None,
        timeout: None,
    }
}

fn run(command: &str, args: &[&str]) -> Effect {
    Effect::Exec(request(command, args))
}

fn shell(script: &str) -> ExecRequest {
    request("sh", &["-c", script])
}

fn world() -> World {
    let mut world = World::new();
    world.grants.capabilities.exec =
        ["sh", "cat", "no-such-command", "starloom-fake"].map(String::from).to_vec();
    world
}

/// Ended, and collected if it was ours: orphans are collected by whoever runs the machine.
fn is_gone(pid: &str) -> bool {
    let Ok(state) = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())) else {
        return true;
    };
    let mine = std::process::id().to_string();
    let mut fields = state.rsplit_once(')').unwrap().1.split_whitespace();
    fields.next() == Some("Z") && fields.next() != Some(&mine)
}

#[test]
fn denials() {
    let mut world = World::new();
    assert_eq!(
        world.error(run("ls", &[])),
        "Command 'ls' cannot be executed: no exec whitelist configured for this extension. Add allowed_exec=['ls'] to the Extension definition."
    );
    world.grants.capabilities.exec = vec!["a".to_owned(), "b".to_owned()];
    assert_eq!(
        world.error(run("ls", &[])),
        "Command 'ls' is not in the allowed exec whitelist. Allowed commands: [\"a\", \"b\"]"
    );
    world.grants.capabilities.exec = vec!["ls".to_owned()];
    assert_eq!(
        world.error(run("/bin/ls", &[])),
        "Command '/bin/ls' is not in the allowed exec whitelist. Allowed commands: [\"ls\"]"
    );
    world.grants.phase = Phase::Loading;
    assert_eq!(
        world.error(run("ls", &[])),
        "Command 'ls' cannot be executed while the file is loading: exec works only during a call"
    );
}

#[test]
fn results() {
    let world = world();
    for (script, expected) in [
        (
            "echo out; echo err >&2",
            r#"{"stdout":"out\n","stderr":"err\n","exit_code":0,"success":true,"timed_out":false}"#,
        ),
        ("exit 3", r#"{"stdout":"","stderr":"","exit_code":3,"success":false,"timed_out":false}"#),
        ("kill -9 $$", r#"{"stdout":"","stderr":"","exit_code":-1,"success":false,"timed_out":false}"#),
        (
            r"printf 'a\377b'",
            r#"{"stdout":"a�b","stderr":"","exit_code":0,"success":true,"timed_out":false}"#,
        ),
        // What is written after the command itself has ended counts too.
        (
            "(read x < /dev/null; echo late) & exit 0",
            r#"{"stdout":"late\n","stderr":"","exit_code":0,"success":true,"timed_out":false}"#,
        ),
    ] {
        assert_eq!(world.ok(Effect::Exec(shell(script))).to_string(), expected, "{script}");
    }
}

#[test]
fn input() {
    let world = world();
    assert_eq!(world.ok(run("cat", &[]))["stdout"], "");
    // More than a pipe holds, both ways.
    let text = "0123456789abcde\n".repeat(640 << 10);
    let effect = Effect::Exec(ExecRequest { stdin: Some(text.clone()), ..request("cat", &[]) });
    assert_eq!(world.ok(effect)["stdout"], text);
    // Not reading it is no error.
    let effect = Effect::Exec(ExecRequest { stdin: Some(text), ..shell("exec 0<&-; exit 0") });
    assert_eq!(world.ok(effect)["success"], true);
}

#[test]
fn environment() {
    let mut world = world();
    world.set_env(&[("ONLY_FOR_SCRIPTS", "secret")]);
    let script = "echo \"$GIVEN|$ONLY_FOR_SCRIPTS|$PATH\"";
    let effect = Effect::Exec(ExecRequest { env: vec![("GIVEN".into(), "g i".into())], ..shell(script) });
    let path = std::env::var("PATH").unwrap();
    assert_eq!(world.ok(effect)["stdout"], format!("g i||{path}\n"));
    for name in ["", "A=B", "A\0"] {
        let effect = Effect::Exec(ExecRequest { env: vec![(name.into(), "v".into())], ..shell("") });
        assert!(world.error(effect).contains("is not a name for a variable"), "{name}");
    }
    let effect = Effect::Exec(ExecRequest { env: vec![("A".into(), "v\0".into())], ..shell("") });
    assert!(world.error(effect).starts_with("Failed to execute command 'sh': "));
}

/// An allowed name means the server's program, not one the script has put somewhere.
#[test]
fn the_request_does_not_decide_which_program_runs() {
    let world = world();
    let path = world.folder.write("starloom-fake", "#!/bin/sh\necho fake\n");
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    let folder = world.folder.path().to_str().unwrap().to_owned();
    let effect = Effect::Exec(ExecRequest {
        env: vec![("PATH".into(), folder.clone())],
        cwd: Some(folder),
        ..request("starloom-fake", &[])
    });
    assert_eq!(
        world.error(effect),
        "Failed to execute command 'starloom-fake': No such file or directory (os error 2)"
    );
}

#[test]
fn failures() {
    let mut world = world();
    let file = world.folder.write("plain.txt", "");
    world.grants.capabilities.exec.push(file.clone());
    let at = |cwd: &str| Effect::Exec(ExecRequest { cwd: Some(cwd.to_owned()), ..shell("pwd") });
    let timeout = |timeout: f64| Effect::Exec(ExecRequest { timeout: Some(timeout), ..shell("") });
    let folder = world.folder.path().to_str().unwrap();
    assert_eq!(world.ok(at(folder))["stdout"], format!("{folder}\n"));
    for (effect, message) in [
        (
            run("no-such-command", &[]),
            "Failed to execute command 'no-such-command': No such file or directory (os error 2)".to_owned(),
        ),
        (run(&file, &[]), format!("Failed to execute command '{file}': Permission denied (os error 13)")),
        (at("/no/such"), "Failed to execute command 'sh': the folder '/no/such' does not exist".to_owned()),
        (at(&file), format!("Failed to execute command 'sh': the folder '{file}' is a file")),
        (timeout(0.0), "`timeout` must be a positive number of seconds, not 0".to_owned()),
        (timeout(f64::NAN), "`timeout` must be a positive number of seconds, not NaN".to_owned()),
    ] {
        assert_eq!(world.error(effect), message);
    }
}

#[test]
fn output_is_capped() {
    let world = world();
    let limit = 10 << 20;
    let write = |bytes: usize, to: &str| Effect::Exec(shell(&format!("head -c {bytes} /dev/zero {to}")));
    assert_eq!(world.ok(write(limit, ""))["stdout"].as_str().unwrap().len(), limit);
    assert_eq!(
        world.error(write(limit + 1, "")),
        "Command 'sh' was ended: it wrote more than 10485760 bytes to stdout"
    );
    assert_eq!(
        world.error(write(limit + 1, ">&2")),
        "Command 'sh' was ended: it wrote more than 10485760 bytes to stderr"
    );
}

#[test]
fn endless_output_ends_the_whole_group() {
    let mut world = World::with(ServicesOptions { exec_max_output: 1 << 20, ..Default::default() });
    world.grants.capabilities.exec = vec!["sh".to_owned()];
    let pids = world.folder.file("pids");
    let script = format!("sleep 1000 & echo $! $$ > {pids}; exec cat /dev/zero");
    assert!(world.error(Effect::Exec(shell(&script))).contains("more than 1048576 bytes"));
    let pids = std::fs::read_to_string(pids).unwrap();
    eventually("the group is gone", || pids.split_whitespace().all(is_gone));
}

#[test]
fn its_own_timeout() {
    let world = world();
    let script = "echo early; echo $$ >&2; exec sleep 1000";
    let started = Instant::now();
    let result = world.ok(Effect::Exec(ExecRequest { timeout: Some(0.3), ..shell(script) }));
    assert!(started.elapsed() < Duration::from_secs(2), "{:?}", started.elapsed());
    let pid = result["stderr"].as_str().unwrap().to_owned();
    let expected =
        json!({"stdout": "early\n", "stderr": pid, "exit_code": -1, "success": false, "timed_out": true});
    assert_eq!(result, expected);
    assert!(is_gone(&pid));
}

/// It may clean up when it is asked to end.
#[test]
fn a_command_can_end_in_order() {
    let world = world();
    let script = "trap 'echo cleaned; exit 7' TERM; echo ready; while :; do sleep 0.01; done";
    let result = world.ok(Effect::Exec(ExecRequest { timeout: Some(0.3), ..shell(script) }));
    let seen = ["stdout", "exit_code", "timed_out"].map(|key| &result[key]);
    assert_eq!(seen, [&json!("ready\ncleaned\n"), &json!(7), &json!(true)]);
}

/// Prints its child's number; both ignore the polite signal, and the child holds the pipe.
const STUBBORN: &str = "trap '' TERM; sleep 1000 & echo $! $$; wait";

#[test]
fn a_stubborn_grandchild_is_killed() {
    let world = world();
    let started = Instant::now();
    let result = world.ok(Effect::Exec(ExecRequest { timeout: Some(0.2), ..shell(STUBBORN) }));
    let took = started.elapsed();
    assert!(took > Duration::from_secs(2) && took < Duration::from_secs(4), "{took:?}");
    assert_eq!(result["timed_out"], true);
    let pids = result["stdout"].as_str().unwrap();
    assert_eq!(pids.split_whitespace().count(), 2);
    eventually("both are gone", || pids.split_whitespace().all(is_gone));
}

#[test]
fn an_orphan_that_holds_the_pipe_is_ended() {
    let world = world();
    let result =
        world.ok(Effect::Exec(ExecRequest { timeout: Some(0.2), ..shell("sleep 1000 & echo $!; exit 0") }));
    assert_eq!(result["timed_out"], true);
    assert_eq!(result["exit_code"], 0);
    let pid = result["stdout"].as_str().unwrap();
    eventually("it is gone", || is_gone(pid));
}

#[test]
fn what_a_command_leaves_behind_is_ended() {
    let world = world();
    let result = world.ok(Effect::Exec(shell("sleep 1000 > /dev/null 2>&1 & echo $! $$")));
    assert_eq!(result["success"], true);
    let pids = result["stdout"].as_str().unwrap();
    eventually("both are gone", || pids.split_whitespace().all(is_gone));
}

/// One that left the group cannot be found any more, but it keeps nobody waiting either.
#[test]
fn a_daemon_does_not_hold_a_call_for_ever() {
    let world = world();
    let started = Instant::now();
    let script = "setsid sh -c 'echo $$; exec sleep 1000' & wait";
    let result = world.ok(Effect::Exec(ExecRequest { timeout: Some(0.3), ..shell(script) }));
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
    assert_eq!(result["timed_out"], true);
    let pid: i32 = result["stdout"].as_str().unwrap().trim().parse().unwrap();
    // SAFETY: takes two numbers.
    unsafe { libc::kill(pid, libc::SIGKILL) };
}

#[test]
fn cancelled_at_once() {
    let world = world();
    let pipe = world.folder.file("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let mut pids = String::new();
    let script = format!("trap '' TERM; sleep 1000 & echo $! $$ > {pipe}; wait");
    world.cancel_when(Effect::Exec(shell(&script)), || {
        std::fs::File::open(&pipe).unwrap().read_to_string(&mut pids).unwrap();
    });
    assert_eq!(pids.split_whitespace().count(), 2);
    eventually("the group is gone", || pids.split_whitespace().all(is_gone));
}

#[test]
fn stopped_at_the_deadline() {
    let mut world = world();
    let effect = Effect::Exec(ExecRequest { timeout: Some(50.0), ..shell("sleep 1000") });
    world.stopped_at_deadline(effect);
}

#[test]
fn a_child_inherits_no_descriptors() {
    let world = world();
    // Whoever started the tests may have left some open, which any child then has.
    let script = "exec ls /proc/self/fd";
    let plain = std::process::Command::new("sh").args(["-c", script]).output().unwrap();
    let listed = world.ok(Effect::Exec(shell(script)));
    assert_eq!(listed["stdout"], String::from_utf8(plain.stdout).unwrap());
}

/// In a process of its own, where no other test opens anything.
#[test]
fn nothing_stays_open() {
    let mine = std::env::current_exe().unwrap();
    let inner = ["--exact", "exec::nothing_stays_open_inside", "--ignored", "--nocapture"];
    let output = std::process::Command::new(mine).args(inner).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}

#[test]
#[ignore = "run by nothing_stays_open"]
fn nothing_stays_open_inside() {
    let world = world();
    let descriptors = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    let once = |script: &str, timeout: Option<f64>| {
        let _ = world.perform(Effect::Exec(ExecRequest { timeout, ..shell(script) }));
    };
    once("true", None);
    let before = descriptors();
    for _ in 0..20 {
        once("true", None);
        once("sleep 1000", Some(0.01));
        once("head -c 20000000 /dev/zero", None);
        assert!(world.perform(run("no-such-command", &[])).is_err());
    }
    assert_eq!(descriptors(), before);
    assert_eq!(children(), Vec::<String>::new());
}

/// The state lines of this process's children, also of those that are dead but not collected.
fn children() -> Vec<String> {
    let mine = std::process::id().to_string();
    let states = std::fs::read_dir("/proc").unwrap().filter_map(|entry| {
        let state = std::fs::read_to_string(entry.unwrap().path().join("stat")).ok()?;
        // After the name, which may hold anything: state and parent.
        let parent = state.rsplit_once(')')?.1.split_whitespace().nth(1)?.to_owned();
        (parent == mine).then_some(state)
    });
    states.collect()
}

#[test]
fn many_at_once() {
    let world = world();
    std::thread::scope(|scope| {
        for number in 0..50 {
            let world = &world;
            scope.spawn(move || {
                let result = world.ok(Effect::Exec(shell(&format!("echo {number}"))));
                assert_eq!(result["stdout"], Json::from(format!("{number}\n")));
            });
        }
    });
}
