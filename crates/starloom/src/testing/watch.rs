//! Runs tests again when something they depend on changes.

use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;
use std::sync::mpsc::channel;

use super::runner::FileRun;
use super::{Event, Options, Runner};
use crate::call::Cancel;
use crate::config::Settings;
use crate::extensions::{Changed, FileWatcher, ScriptFile, discover, discover_tests, next_changes};

/// Runs all tests, then those that a change concerns, until `cancel`. `between` is called after each run.
pub fn watch(
    settings: &Settings,
    runtime: &tokio::runtime::Handle,
    options: &Options,
    cancel: &Cancel,
    report: &mut dyn FnMut(&Event) -> io::Result<()>,
    between: &mut dyn FnMut(usize),
) -> io::Result<()> {
    let (events_in, events) = channel();
    // Watch first: a save during the first run would be lost.
    let Some(mut watcher) = FileWatcher::new(events_in) else {
        return Err(io::Error::other("files cannot be watched here"));
    };
    watcher.cover(&settings.paths, &[]);
    let (changes_in, mut changes) = tokio::sync::mpsc::unbounded_channel();
    // Ends with the watcher. Apart, so that Ctrl-C can end the wait.
    std::thread::Builder::new().name("watch".to_owned()).spawn(move || {
        while let Some(changed) = next_changes(&events) {
            if changes_in.send(changed).is_err() {
                return;
            }
        }
    })?;
    let mut known: Vec<FileRun> = Vec::new();
    let mut known_extensions = Vec::new();
    let mut changed = None;
    loop {
        // A file named outright may be gone for a moment, while it is saved.
        let files = discover_tests(&settings.paths).unwrap_or_default();
        let extensions = discover(&settings.paths).unwrap_or_default();
        let others = extensions != known_extensions;
        let is_due = |file: &ScriptFile| match (known.iter().find(|run| run.file == *file), &changed) {
            // What was missing may be there now.
            (Some(run), Some(_)) if others && run.totals.failed > 0 => true,
            (Some(run), Some(changed)) => concerns(changed, run),
            _ => true,
        };
        let due: Vec<ScriptFile> = files.iter().filter(|file| is_due(file)).cloned().collect();
        known_extensions = extensions;
        if !due.is_empty() {
            let runner = Runner::new(settings.clone(), runtime.clone(), options.clone(), cancel.clone());
            let run = runner.run(&due, report)?;
            known.retain(|known| files.contains(&known.file) && !due.contains(&known.file));
            known.extend(run.files);
        }
        if cancel.token.is_cancelled() {
            return Ok(());
        }
        let dependencies: BTreeSet<PathBuf> =
            known.iter().filter_map(|run| run.depends_on.as_ref()).flatten().cloned().collect();
        watcher.cover(&settings.paths, &dependencies);
        if !due.is_empty() || changed.is_none() {
            between(files.len());
        }
        changed = runtime.block_on(async {
            tokio::select! {
                changed = changes.recv() => changed,
                () = cancel.token.cancelled() => None,
            }
        });
        if changed.is_none() {
            return Ok(());
        }
    }
}

fn concerns(changed: &Changed, run: &FileRun) -> bool {
    // Without a list anything may be what it needs.
    run.depends_on.as_ref().is_none_or(|paths| paths.iter().any(|path| changed.touches(path)))
}
