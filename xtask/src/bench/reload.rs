//! `reload` and `reload-load`: from a save in the editor to the running client.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use serde_json::json;

use super::Bench;
use super::client::{Client, expect_success};
use super::report::Finding;
use super::statistics::{median, percentile, seconds, show_seconds};

const LIST_CHANGED: &str = "notifications/tools/list_changed";
const RELOAD_LIMIT: Duration = Duration::from_secs(5);

pub fn reload(bench: &Bench) -> Result<Finding> {
    const SAVES: usize = 20;
    let file = EditedFile::create(bench, "reload")?;
    let mut client = bench.starloom(file.folder.clone()).connect()?;
    let mut times = Vec::new();
    for i in 0..bench.rounds(SAVES) {
        // As between two saves of a person: nothing of the last one is still going on.
        thread::sleep(Duration::from_millis(300));
        let has_extra_tool = i % 2 == 0;
        let start = Instant::now();
        file.save(i, has_extra_tool)?;
        wait_for_list_changed(&mut client)?;
        times.push(start.elapsed());
        let listed = client.list_tools()?.iter().any(|name| name == "extra");
        ensure!(listed == has_extra_tool, "after save {i} the list is still the old one");
    }
    let times = seconds(&times);
    let slowest = percentile(&times, 100);
    Ok(Finding {
        starloom: format!("{} ({})", show_seconds(median(&times)), show_seconds(slowest)),
        peers: "–".to_owned(),
        ratio: "–".to_owned(),
        ok: slowest < 0.1,
    })
}

fn wait_for_list_changed(client: &mut Client) -> Result<()> {
    while client.read_message()?["method"] != LIST_CHANGED {}
    Ok(())
}

pub fn reload_under_load(bench: &Bench) -> Result<Finding> {
    const RELOADS: usize = 200;
    let n_reloads = bench.rounds(RELOADS);
    let file = EditedFile::create(bench, "reload-load")?;
    let mut client = bench.starloom(file.folder.clone()).connect()?;
    let n_seen = AtomicUsize::new(0);
    let saved_all = AtomicBool::new(false);
    let tally = thread::scope(|scope| -> Result<Tally> {
        let saver = scope.spawn(|| {
            let saved = save_and_wait(&file, n_reloads, &n_seen);
            saved_all.store(true, Ordering::Release);
            saved
        });
        let tally = call_until(&mut client, &saved_all, &n_seen);
        saver.join().expect("the saver does not panic")?;
        tally
    })?;
    Ok(Finding {
        starloom: format!("{} of {} calls, {n_reloads} reloads", tally.n_failed, tally.n_calls),
        peers: "–".to_owned(),
        ratio: tally.first_failure.map_or("–".to_owned(), |failure| format!("first: {failure}")),
        ok: tally.n_failed == 0,
    })
}

#[derive(Default)]
struct Tally {
    n_calls: usize,
    n_failed: usize,
    first_failure: Option<String>,
}

/// Calls the tool of the very file that is being saved, without a pause.
fn call_until(client: &mut Client, done: &AtomicBool, n_list_changed: &AtomicUsize) -> Result<Tally> {
    let mut tally = Tally::default();
    while !done.load(Ordering::Acquire) {
        let id = client.send_call("echo", json!({"message": "hello"}))?;
        let reply = loop {
            let message = client.read_message()?;
            if message["method"] == LIST_CHANGED {
                n_list_changed.fetch_add(1, Ordering::Release);
            }
            if message["id"].as_u64() == Some(id) {
                break message;
            }
        };
        tally.n_calls += 1;
        if let Err(failure) = expect_success(&reply) {
            tally.n_failed += 1;
            tally.first_failure.get_or_insert(failure.to_string());
        }
    }
    Ok(tally)
}

fn save_and_wait(file: &EditedFile, n_reloads: usize, n_list_changed: &AtomicUsize) -> Result<()> {
    for i in 0..n_reloads {
        file.save(i, i % 2 == 0)?;
        let deadline = Instant::now() + RELOAD_LIMIT;
        while n_list_changed.load(Ordering::Acquire) <= i {
            if Instant::now() > deadline {
                bail!("save {i} was not followed by `{LIST_CHANGED}` within {} s", RELOAD_LIMIT.as_secs());
            }
            thread::sleep(Duration::from_millis(1));
        }
    }
    Ok(())
}

struct EditedFile {
    folder: PathBuf,
}

impl EditedFile {
    fn create(bench: &Bench, name: &str) -> Result<EditedFile> {
        let file = EditedFile { folder: bench.scratch.join(name) };
        fs::create_dir_all(&file.folder)?;
        fs::write(file.path(), source(false))?;
        Ok(file)
    }

    /// Half of the editors write in place, the others write beside it and rename.
    fn save(&self, i: usize, has_extra_tool: bool) -> Result<()> {
        let text = source(has_extra_tool);
        if i % 4 < 2 {
            fs::write(self.path(), text)?;
        } else {
            let beside = self.folder.join("edited.star.tmp");
            fs::write(&beside, text)?;
            fs::rename(beside, self.path())?;
        }
        Ok(())
    }

    fn path(&self) -> PathBuf {
        Path::new(&self.folder).join("edited.star")
    }
}

fn source(has_extra_tool: bool) -> String {
    let extra_tool = if has_extra_tool {
        r#"        Tool(name = "extra", description = "Comes and goes", parameters = [], handler = _extra),
"#
    } else {
        ""
    };
    format!(
        r#"def _echo(params):
    return {{"content": [{{"type": "text", "text": params["message"]}}]}}

def _extra(params):
    return "extra"

def describe_extension():
    return Extension(name = "edited", version = "1.0.0", description = "Being edited", tools = [
        Tool(name = "echo", description = "Echo a message", handler = _echo, parameters = [
            ToolParameter(name = "message", param_type = "string", required = True, description = "What to say"),
        ]),
{extra_tool}    ])
"#
    )
}
