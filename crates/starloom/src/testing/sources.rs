//! The extensions tests are about: each loaded once, when a test first needs it.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use starloom_effects::{CapabilityMode, Grants, Phase};
use starloom_engine::declare::Capabilities;
use starloom_engine::{Loaded, ScriptError};

use crate::catalog::{Catalog, MergeError, OnConflict, Source, ToolFilter, merge};
use crate::extensions::{LoadedFile, Loader, ScriptFile, absolute, discover};

pub struct Sources {
    loader: Loader,
    paths: Vec<PathBuf>,
    on_conflict: OnConflict,
    loaded: Slots<Extension>,
    /// What the tests of a folder can call.
    views: Slots<Result<View, String>>,
}

/// By path; each made by whoever comes first, while the others wait.
type Slots<T> = Mutex<HashMap<PathBuf, Slot<T>>>;
type Slot<T> = Arc<OnceLock<Arc<T>>>;

/// What came of loading an extension.
type Extension = Result<LoadedFile, Vec<ScriptError>>;

/// The tools a test can call.
pub struct View {
    pub catalog: Arc<Catalog>,
    /// All files it is made from.
    pub files: BTreeSet<PathBuf>,
}

impl View {
    /// Which files could not take part, to be added to a message.
    pub fn failures(&self) -> String {
        let failed = self.catalog.sources.iter().filter_map(|source| {
            let error = source.state.error()?;
            Some(format!("\n{} does not load: {}", source.path.display(), error.trim_end()))
        });
        failed.collect()
    }
}

/// What a test file is about.
pub struct Subject {
    pub grants: Grants,
    /// The files of the extensions under test and all they are made from.
    pub files: BTreeSet<PathBuf>,
}

impl Sources {
    pub fn new(loader: Loader, paths: Vec<PathBuf>, on_conflict: OnConflict) -> Sources {
        Sources { loader, paths, on_conflict, loaded: Mutex::default(), views: Mutex::default() }
    }

    pub fn loader(&self) -> &Loader {
        &self.loader
    }

    /// The extension as the server would load it.
    fn extension(&self, file: &ScriptFile) -> Arc<Extension> {
        let slot = slot(&self.loaded, &absolute(&file.path));
        slot.get_or_init(|| Arc::new(self.loader.load(file))).clone()
    }

    /// `foo_test.star` is about `foo.star` beside it, else about the extensions it loads. What these
    /// declare is what the test may do, besides what the test file declares itself.
    pub fn subject(&self, file: &ScriptFile, test: &Loaded) -> Result<Subject, Vec<ScriptError>> {
        let mut lists = Lists::new(self.loader.capabilities);
        let mut files = BTreeSet::new();
        let mut names = Vec::new();
        for tested in tested_files(file, test) {
            files.insert(absolute(&tested.path));
            match &*self.extension(&tested) {
                Ok(extension) => {
                    if let Some(grants) = &extension.source.grants {
                        lists.add(&grants.capabilities);
                    }
                    files.extend(extension.dependencies.iter().cloned());
                    names.push(extension.source.id.clone());
                }
                Err(errors) => return Err(errors.clone()),
            }
        }
        // With one extension the test shares its `store`.
        let source = match names.as_slice() {
            [only] => only.clone(),
            _ => test.extension.name.clone(),
        };
        let grants = Grants {
            source,
            root: file.root.clone(),
            capabilities: lists.with_own(&test.extension.capabilities),
            mode: self.loader.capabilities,
            env: self.loader.env.clone(),
            phase: Phase::Calling,
        };
        Ok(Subject { grants, files })
    }

    /// The tools of all extensions under the paths and of those beside the test. Where these clash, of
    /// those beside the test: a folder of several projects can be tested at once.
    pub fn view(&self, file: &ScriptFile) -> Arc<Result<View, String>> {
        let slot = slot(&self.views, &absolute(parent(&file.path)));
        slot.get_or_init(|| Arc::new(self.build_view(file))).clone()
    }

    fn build_view(&self, file: &ScriptFile) -> Result<View, String> {
        let beside = beside(file);
        let mut all = discover(&self.paths).map_err(|error| error.to_string())?;
        for script in &beside {
            if !all.iter().any(|known| absolute(&known.path) == absolute(&script.path)) {
                all.push(script.clone());
            }
        }
        match self.merged(&all) {
            Err(MergeError::Conflict(_)) if beside.len() < all.len() => {
                self.merged(&beside).map_err(|error| error.to_string())
            }
            view => view.map_err(|error| error.to_string()),
        }
    }

    fn merged(&self, scripts: &[ScriptFile]) -> Result<View, MergeError> {
        let mut sources = Vec::new();
        let mut files = BTreeSet::new();
        for script in scripts {
            files.insert(absolute(&script.path));
            let extension = self.extension(script);
            if let Ok(loaded) = &*extension {
                files.extend(loaded.dependencies.iter().cloned());
            }
            sources.push(source(script, &extension));
        }
        let catalog = merge(sources, &ToolFilter::default(), self.on_conflict)?;
        Ok(View { catalog: Arc::new(catalog), files })
    }

    /// The files behind the view of a test, as far as one was asked for; `None` when it could not be made.
    pub fn viewed_files(&self, file: &ScriptFile) -> Option<BTreeSet<PathBuf>> {
        match slot(&self.views, &absolute(parent(&file.path))).get().map(|view| &**view) {
            None => Some(BTreeSet::new()),
            Some(Ok(view)) => Some(view.files.clone()),
            Some(Err(_)) => None,
        }
    }
}

fn slot<T>(slots: &Slots<T>, key: &Path) -> Slot<T> {
    let mut slots = slots.lock().unwrap_or_else(PoisonError::into_inner);
    slots.entry(key.to_owned()).or_default().clone()
}

fn source(script: &ScriptFile, extension: &Extension) -> Source {
    match extension {
        Ok(loaded) => loaded.source.clone(),
        Err(errors) => {
            let error = errors.iter().map(ScriptError::one_line).collect::<Vec<_>>().join("; ");
            Source::failed(script.relative.clone(), script.path.clone(), error)
        }
    }
}

/// The extensions in the folder of a test.
fn beside(file: &ScriptFile) -> Vec<ScriptFile> {
    let folder = parent(&file.path);
    let below = discover(&[folder.to_owned()]).unwrap_or_default();
    let inside = below.into_iter().filter(|script| parent(Path::new(&script.relative)) == Path::new("."));
    inside.map(|script| in_root_of(file, script)).collect()
}

/// As a part of the root the test file belongs to: that is where its `load()`s start from.
fn in_root_of(test: &ScriptFile, script: ScriptFile) -> ScriptFile {
    let relative = match test.relative.rsplit_once('/') {
        Some((folder, _)) => format!("{folder}/{}", script.relative),
        None => script.relative,
    };
    ScriptFile { path: script.path, root: test.root.clone(), relative }
}

fn tested_files(file: &ScriptFile, test: &Loaded) -> Vec<ScriptFile> {
    let named_after = |relative: &str| {
        let relative = format!("{}.star", relative.strip_suffix("_test.star")?);
        Some(ScriptFile { path: file.root.join(&relative), root: file.root.clone(), relative })
    };
    if let Some(tested) = named_after(&file.relative).filter(|tested| tested.path.is_file()) {
        return vec![tested].into_iter().filter(|tested| is_extension(&tested.relative)).collect();
    }
    let loaded = test.dependencies.iter().filter(|path| path.ends_with(".star") && is_extension(path));
    loaded
        .map(|relative| ScriptFile {
            path: file.root.join(relative),
            root: file.root.clone(),
            relative: relative.clone(),
        })
        .collect()
}

/// Helpers and tests declare nothing.
fn is_extension(relative: &str) -> bool {
    let mut folders: Vec<&str> = relative.split('/').collect();
    let name = folders.pop().unwrap_or("");
    !name.starts_with('_') && !name.ends_with("_test.star") && !folders.contains(&"lib")
}

/// The union of what several extensions declare.
struct Lists {
    mode: CapabilityMode,
    so_far: Option<Capabilities>,
}

impl Lists {
    fn new(mode: CapabilityMode) -> Lists {
        Lists { mode, so_far: None }
    }

    fn add(&mut self, more: &Capabilities) {
        let Some(all) = &mut self.so_far else {
            self.so_far = Some(more.clone());
            return;
        };
        add_new(&mut all.exec, &more.exec);
        for (all, more) in
            [(&mut all.hosts, &more.hosts), (&mut all.env, &more.env), (&mut all.paths, &more.paths)]
        {
            match (all.as_mut(), more, self.mode) {
                (Some(all), Some(more), _) => add_new(all, more),
                // Absent means open to one of them, so the union is open.
                (Some(_), None, CapabilityMode::Declared) => *all = None,
                (None, Some(more), CapabilityMode::Strict) => *all = Some(more.clone()),
                (None, _, _) | (Some(_), None, CapabilityMode::Strict) => {}
            }
        }
    }

    /// What the test file declares for its own needs is added; what it leaves out changes nothing.
    fn with_own(self, own: &Capabilities) -> Capabilities {
        let Some(mut all) = self.so_far else { return own.clone() };
        add_new(&mut all.exec, &own.exec);
        for (all, own) in
            [(&mut all.hosts, &own.hosts), (&mut all.env, &own.env), (&mut all.paths, &own.paths)]
        {
            match (all.as_mut(), own, self.mode) {
                (Some(all), Some(own), _) => add_new(all, own),
                (None, Some(own), CapabilityMode::Strict) => *all = Some(own.clone()),
                (_, None, _) | (None, _, CapabilityMode::Declared) => {}
            }
        }
        all
    }
}

fn add_new(all: &mut Vec<String>, more: &[String]) {
    for entry in more {
        if !all.contains(entry) {
            all.push(entry.clone());
        }
    }
}

fn parent(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}
