//! The one writer of the catalog: loads at the start, reloads on change, keeps the last good version.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use notify::{RecursiveMode, Watcher};
use starloom_engine::{ScriptError, Severity, Vocabulary};
use tokio::sync::{broadcast, watch};

use super::discover::{is_pattern, pattern_base};
use super::load::absolute;
use super::{DiscoverError, LoadedFile, Loader, ScriptFile, discover};
use crate::app::Change;
use crate::catalog::{Catalog, MergeError, OnConflict, Source, SourceState, ToolFilter, merge};

/// How far the first load is.
#[derive(Debug, Clone)]
pub enum Loading {
    UnderWay,
    Ready,
    Failed(Arc<StartError>),
}

/// Why a server must not start. Afterwards nothing here is fatal.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(transparent)]
    Discover(#[from] DiscoverError),
    #[error(transparent)]
    Merge(#[from] MergeError),
    #[error("`--env {0}`: no served extension declares it in `allowed_env`")]
    UndeclaredEnv(String),
}

/// Saves come as several events; a file is read when they have been quiet for this long.
const QUIET: Duration = Duration::from_millis(15);
/// … but a reload never waits longer than this.
const PATIENCE: Duration = Duration::from_millis(60);

pub struct Reloader {
    pub loader: Loader,
    pub specs: Vec<PathBuf>,
    pub filter: ToolFilter,
    pub on_conflict: OnConflict,
    pub catalog: Arc<ArcSwap<Catalog>>,
    pub loading: watch::Sender<Loading>,
    pub changes: broadcast::Sender<Change>,
}

/// A file with the version of it that is served.
struct Entry {
    file: ScriptFile,
    source: Source,
    dependencies: BTreeSet<PathBuf>,
}

impl Reloader {
    /// Loads everything; `Err` when the server must not start.
    pub fn start(&self) -> Result<State, StartError> {
        let files = discover(&self.specs)?;
        for spec in &self.specs {
            if !is_pattern(spec) && !spec.exists() {
                tracing::warn!(path = %spec.display(), "no such folder yet; it is picked up when it appears");
            }
        }
        let results = self.loader.load_all(&files);
        let entries: Vec<Entry> =
            files.into_iter().zip(results).map(|(file, result)| self.first_entry(file, result)).collect();
        let state = State { entries };
        let catalog = self.merged(&state)?;
        self.refuse_undeclared_env(&catalog)?;
        self.catalog.store(Arc::new(catalog));
        Ok(state)
    }

    fn first_entry(&self, file: ScriptFile, result: Result<LoadedFile, Vec<ScriptError>>) -> Entry {
        match result {
            Ok(loaded) => entry(file, loaded),
            Err(errors) => {
                let source = failed_source(&file, report(&errors));
                Entry { file, source, dependencies: BTreeSet::new() }
            }
        }
    }

    fn merged(&self, state: &State) -> Result<Catalog, MergeError> {
        let sources = state.entries.iter().map(|entry| entry.source.clone()).collect();
        merge(sources, &self.filter, self.on_conflict)
    }

    /// Under `capabilities: strict` a value for nobody is a mistake the operator should hear of.
    fn refuse_undeclared_env(&self, catalog: &Catalog) -> Result<(), StartError> {
        if self.loader.capabilities != starloom_effects::CapabilityMode::Strict {
            return Ok(());
        }
        let declared: Vec<&String> = catalog
            .sources
            .iter()
            .filter_map(|source| source.grants.as_ref()?.capabilities.env.as_ref())
            .flatten()
            .collect();
        let is_declared = |name: &str| {
            declared.iter().any(|pattern| match pattern.strip_suffix('*') {
                Some(prefix) => name.starts_with(prefix),
                None => *pattern == name,
            })
        };
        match self.loader.env.keys().find(|name| !name.starts_with("STARLOOM_") && !is_declared(name)) {
            Some(name) => Err(StartError::UndeclaredEnv(name.clone())),
            None => Ok(()),
        }
    }

    /// Runs until the process ends or `stop` is dropped.
    pub fn run(self, watch_files: bool) {
        let (events_in, events) = channel();
        // Watch first: a save between the first load and the watch would be lost.
        let mut watcher = if watch_files { FileWatcher::new(events_in) } else { None };
        if let Some(watcher) = &mut watcher {
            watcher.cover(&self.specs, &[]);
        }
        let mut state = match self.start() {
            Ok(state) => {
                self.loading.send_replace(Loading::Ready);
                state
            }
            Err(error) => {
                self.loading.send_replace(Loading::Failed(Arc::new(error)));
                return;
            }
        };
        for entry in &state.entries {
            log_entry(entry);
        }
        for entry in &state.entries {
            self.warn_of_types(&entry.file);
        }
        give_memory_back();
        let Some(mut watcher) = watcher else { return };
        loop {
            // What happened in a folder before it was watched, nobody told us.
            while watcher.cover(&self.specs, state.entries.iter().flat_map(|entry| &entry.dependencies)) {
                self.reload(&mut state, &Changed { everything: true, ..Changed::default() });
            }
            let Some(changed) = next_changes(&events) else { return };
            self.reload(&mut state, &changed);
        }
    }

    fn warn_of_types(&self, file: &ScriptFile) {
        let Ok(findings) = self.loader.analyse(file, Vocabulary::Server) else { return };
        for finding in findings.iter().filter(|finding| finding.severity == Severity::Error) {
            tracing::warn!("{}", finding.error.one_line());
        }
    }

    /// Brings the state up to date with the files, one file at a time, and publishes what came of it.
    fn reload(&self, state: &mut State, changed: &Changed) {
        let Ok(files) = discover(&self.specs).inspect_err(|error| tracing::warn!("{error}")) else { return };
        for entry in &state.entries {
            for path in entry.dependencies.iter().filter(|path| changed.touches(path)) {
                if let Ok(relative) = path.strip_prefix(absolute(&entry.file.root)) {
                    let files = super::DiskFiles::new(&entry.file);
                    self.loader.engine.forget_data(&files, &relative.to_string_lossy());
                }
            }
        }
        for entry in &mut state.entries {
            if !files.contains(&entry.file) && entry.source.state != SourceState::Removed {
                tracing::info!(source = entry.source.id, "removed");
                entry.source.state = SourceState::Removed;
                entry.source.tools.clear();
                entry.dependencies.clear();
            }
        }
        let mut loaded_files = Vec::new();
        for file in files {
            let known = state.entries.iter().position(|entry| entry.file == file);
            let due = match known.map(|index| &state.entries[index]) {
                None => true,
                Some(entry) => {
                    entry.source.state == SourceState::Removed
                        || changed.touches(&absolute(&file.path))
                        || entry.dependencies.iter().any(|path| changed.touches(path))
                        // What it needs may just have appeared.
                        || entry.source.state.error().is_some()
                }
            };
            if due {
                self.reload_file(state, known, &file);
                loaded_files.push(file);
            }
        }
        self.publish(state);
        for file in loaded_files {
            self.warn_of_types(&file);
        }
        give_memory_back();
    }

    fn reload_file(&self, state: &mut State, known: Option<usize>, file: &ScriptFile) {
        let newcomer = match self.loader.load(file) {
            Ok(loaded) => entry(file.clone(), loaded),
            Err(errors) => return self.keep_last_good(state, known, file, report(&errors)),
        };
        let index = known.unwrap_or_else(|| state.insertion_point(file));
        let previous = match known {
            Some(index) => Some(std::mem::replace(&mut state.entries[index], newcomer)),
            None => {
                state.entries.insert(index, newcomer);
                None
            }
        };
        // Whoever was there first keeps the name.
        if let Err(MergeError::Conflict(conflict)) = self.merged(state) {
            match previous {
                Some(previous) => state.entries[index] = previous,
                None => {
                    state.entries.remove(index);
                }
            }
            return self.keep_last_good(state, known, file, format!("error: {conflict}\n"));
        }
        log_entry(&state.entries[index]);
    }

    fn keep_last_good(&self, state: &mut State, known: Option<usize>, file: &ScriptFile, error: String) {
        match known {
            Some(index) => {
                let entry = &mut state.entries[index];
                // Only the news is worth a line in the log.
                if entry.source.state.error() == Some(&error) {
                    return;
                }
                let had_version =
                    matches!(entry.source.state, SourceState::Loaded | SourceState::Stale { .. });
                entry.source.state =
                    if had_version { SourceState::Stale { error } } else { SourceState::Failed { error } };
                log_entry(entry);
            }
            None => {
                let source = failed_source(file, error);
                let index = state.insertion_point(file);
                state
                    .entries
                    .insert(index, Entry { file: file.clone(), source, dependencies: BTreeSet::new() });
                log_entry(&state.entries[index]);
            }
        }
    }

    fn publish(&self, state: &State) {
        let sources: Vec<Source> = state.entries.iter().map(|entry| entry.source.clone()).collect();
        let catalog = match merge(sources.clone(), &self.filter, self.on_conflict) {
            Ok(catalog) => catalog,
            // After the start a pattern may come to match nothing: that is no reason to stop serving.
            Err(MergeError::Filter(error)) => {
                tracing::warn!("{error}");
                Catalog::new(
                    sources
                        .iter()
                        .flat_map(|source| &source.tools)
                        .filter(|tool| self.filter.admits(&tool.name))
                        .cloned()
                        .collect(),
                    sources,
                )
            }
            Err(MergeError::Conflict(conflict)) => {
                tracing::error!("{conflict}; the catalog is left as it was");
                return;
            }
        };
        let previous = self.catalog.load_full();
        let same = previous.wire_tools() == catalog.wire_tools();
        self.catalog.store(Arc::new(catalog));
        if !same {
            // Nobody listening is fine.
            let _ = self.changes.send(Change::Tools);
        }
    }
}

/// Loading needs far more memory than what it leaves behind, and the allocator would keep it for later.
fn give_memory_back() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: takes no pointers; the C library locks what it must.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Everything the reloader knows of its files.
pub struct State {
    entries: Vec<Entry>,
}

impl State {
    /// Entries stay sorted as `discover` sorts them.
    fn insertion_point(&self, file: &ScriptFile) -> usize {
        self.entries.iter().position(|entry| entry.file > *file).unwrap_or(self.entries.len())
    }
}

fn entry(file: ScriptFile, loaded: LoadedFile) -> Entry {
    for warning in &loaded.warnings {
        tracing::warn!("{}", warning.error.one_line());
    }
    Entry { file, source: loaded.source, dependencies: loaded.dependencies }
}

fn failed_source(file: &ScriptFile, error: String) -> Source {
    let id = file.path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    Source::failed(id, file.path.clone(), error)
}

fn report(errors: &[ScriptError]) -> String {
    errors.iter().map(ScriptError::render).collect()
}

fn log_entry(entry: &Entry) {
    let (id, tools) = (&entry.source.id, entry.source.tools.len());
    match &entry.source.state {
        SourceState::Loaded => tracing::info!(source = id, tools, "loaded {}", entry.file.path.display()),
        SourceState::Stale { error } => {
            tracing::error!(
                "`{id}` does not load; the last good version stays in service\n{}",
                error.trim_end()
            );
        }
        SourceState::Failed { error } => tracing::error!("`{id}` does not load\n{}", error.trim_end()),
        SourceState::Removed => tracing::info!(source = id, "removed"),
    }
}

/// What happened to the files since the last look.
#[derive(Debug, Default)]
pub struct Changed {
    paths: BTreeSet<PathBuf>,
    /// Events were lost: anything may have changed.
    everything: bool,
}

impl Changed {
    pub fn touches(&self, path: &Path) -> bool {
        // A folder that moved touches all that lies in it.
        self.everything || self.paths.iter().any(|changed| path.starts_with(changed))
    }

    fn add(&mut self, event: notify::Event) {
        if event.kind.is_access() {
            return;
        }
        self.everything |= event.need_rescan();
        self.paths.extend(event.paths);
    }

    fn is_empty(&self) -> bool {
        self.paths.is_empty() && !self.everything
    }
}

/// Waits for changes and for them to settle. `None` when nobody will tell of any more.
pub fn next_changes(events: &Receiver<notify::Event>) -> Option<Changed> {
    let mut changed = Changed::default();
    while changed.is_empty() {
        changed.add(events.recv().ok()?);
    }
    let give_up = Instant::now() + PATIENCE;
    loop {
        let wait = QUIET.min(give_up.saturating_duration_since(Instant::now()));
        if wait.is_zero() {
            return Some(changed);
        }
        match events.recv_timeout(wait) {
            Ok(event) => changed.add(event),
            Err(RecvTimeoutError::Timeout) => return Some(changed),
            Err(RecvTimeoutError::Disconnected) => return None,
        }
    }
}

/// Watches the folders that matter, and only those.
pub struct FileWatcher {
    watcher: notify::RecommendedWatcher,
    covered: BTreeSet<Covered>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Covered {
    path: PathBuf,
    recursive: bool,
    /// A folder that was deleted and made again is another folder, which nobody watches yet.
    inode: u64,
}

impl Covered {
    fn new(path: PathBuf, recursive: bool) -> Option<Covered> {
        use std::os::unix::fs::MetadataExt;
        let inode = path.metadata().ok().filter(std::fs::Metadata::is_dir)?.ino();
        Some(Covered { path, recursive, inode })
    }
}

impl FileWatcher {
    pub fn new(events: std::sync::mpsc::Sender<notify::Event>) -> Option<FileWatcher> {
        let watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| match event {
            Ok(event) => {
                let _ = events.send(event);
            }
            Err(error) => tracing::warn!("watching files: {error}"),
        });
        match watcher {
            Ok(watcher) => Some(FileWatcher { watcher, covered: BTreeSet::new() }),
            Err(error) => {
                tracing::error!("files are not watched: {error}");
                None
            }
        }
    }

    /// Folders are watched whole, single files through their folder, what is missing through the
    /// nearest folder that exists. Says whether there is something new to watch.
    pub fn cover<'a>(
        &mut self,
        specs: &[PathBuf],
        dependencies: impl IntoIterator<Item = &'a PathBuf>,
    ) -> bool {
        let mut wanted = BTreeSet::new();
        for spec in specs {
            let (path, recursive) = match spec {
                spec if is_pattern(spec) => (pattern_base(spec), true),
                spec if spec.is_file() => (parent(spec), false),
                spec => (spec.clone(), true),
            };
            let mut path = absolute(&path);
            match Covered::new(path.clone(), recursive) {
                Some(folder) => drop(wanted.insert(folder)),
                None => {
                    while !path.is_dir() && path.pop() {}
                    wanted.extend(Covered::new(path, false));
                }
            }
        }
        for folder in dependencies.into_iter().map(|path| parent(path)) {
            let inside = wanted.iter().any(|known| known.recursive && folder.starts_with(&known.path));
            if !inside {
                wanted.extend(Covered::new(folder, false));
            }
        }
        let mut is_new = false;
        for old in self.covered.difference(&wanted) {
            // It may be gone already; then there is nothing left to stop watching.
            let _ = self.watcher.unwatch(&old.path);
        }
        for folder in wanted.difference(&self.covered) {
            let mode = if folder.recursive { RecursiveMode::Recursive } else { RecursiveMode::NonRecursive };
            match self.watcher.watch(&folder.path, mode) {
                Ok(()) => is_new = true,
                Err(error) => tracing::warn!(path = %folder.path.display(), "cannot watch: {error}"),
            }
        }
        self.covered = wanted;
        is_new
    }
}

fn parent(path: &Path) -> PathBuf {
    path.parent()
        .filter(|parent| !parent.as_os_str().is_empty())
        .map_or_else(|| PathBuf::from("."), Path::to_owned)
}
