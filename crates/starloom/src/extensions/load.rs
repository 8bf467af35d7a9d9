//! One file → a source: its tools, its grants, what it was made from.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use starloom_effects::{CapabilityMode, Grants, Phase, Services};
use starloom_engine::{Engine, Files, Finding, Limits, ScriptError, Vocabulary};

use super::ScriptFile;
use crate::catalog::{Source, SourceState, Tool};
use crate::host::LoadHost;

/// Texts below a folder. Nothing outside of it can be reached, through links neither.
pub struct DiskFiles {
    root: PathBuf,
    root_name: String,
    /// Served because the operator's folder holds it, wherever it links to.
    entry: String,
}

impl DiskFiles {
    pub fn new(file: &ScriptFile) -> DiskFiles {
        DiskFiles {
            root: file.root.clone(),
            root_name: file.root.canonicalize().unwrap_or_else(|_| file.root.clone()).display().to_string(),
            entry: file.relative.clone(),
        }
    }

    fn stays_inside(&self, path: &Path) -> bool {
        match (path.canonicalize(), self.root.canonicalize()) {
            (Ok(path), Ok(root)) => path.starts_with(root),
            _ => false,
        }
    }
}

impl Files for DiskFiles {
    fn root(&self) -> &str {
        &self.root_name
    }

    fn read(&self, path: &str) -> Result<String, String> {
        let full = self.root.join(path);
        if path != self.entry && !self.stays_inside(&full) {
            return Err("it lies outside of the source's root".to_owned());
        }
        let bytes = std::fs::read(&full).map_err(|error| error.to_string())?;
        String::from_utf8(bytes).map_err(|_| "it is not UTF-8 text".to_owned())
    }

    fn exists(&self, path: &str) -> bool {
        self.root.join(path).is_file()
    }

    fn display(&self, path: &str) -> String {
        let full = self.root.join(path);
        full.strip_prefix(".").unwrap_or(&full).display().to_string()
    }
}

/// A file that loaded.
pub struct LoadedFile {
    pub source: Source,
    pub warnings: Vec<Finding>,
    /// Files besides itself, as paths that can be compared with file events.
    pub dependencies: BTreeSet<PathBuf>,
}

/// Loads files with everything they need.
pub struct Loader {
    pub engine: Arc<Engine>,
    pub services: Arc<Services>,
    pub runtime: tokio::runtime::Handle,
    pub capabilities: CapabilityMode,
    pub env: Arc<BTreeMap<String, String>>,
    pub limits: Limits,
}

impl Loader {
    pub fn load(&self, file: &ScriptFile) -> Result<LoadedFile, Vec<ScriptError>> {
        let files = DiskFiles::new(file);
        let host = self.load_host(file);
        let loaded = self.engine.load(&files, &file.relative, Vocabulary::Server, &host, &self.limits)?;
        let extension = loaded.extension;
        let grants = Arc::new(Grants {
            source: extension.name.clone(),
            root: file.root.clone(),
            capabilities: extension.capabilities,
            mode: self.capabilities,
            env: self.env.clone(),
            phase: Phase::Calling,
        });
        let tools = extension
            .tools
            .iter()
            .map(|tool| Arc::new(Tool::from_declaration(tool, &extension.name, &grants)))
            .collect();
        let dependencies = loaded.dependencies.iter().map(|path| absolute(&file.root.join(path))).collect();
        Ok(LoadedFile {
            source: Source {
                id: extension.name,
                path: file.path.clone(),
                version: extension.version,
                description: extension.description,
                state: SourceState::Loaded,
                tools,
                grants: Some(grants),
            },
            warnings: loaded.warnings,
            dependencies,
        })
    }

    /// What a file may do while it loads: its declarations are not known yet.
    pub fn load_host<'a>(&'a self, file: &ScriptFile) -> LoadHost<'a> {
        LoadHost::new(
            &self.services,
            &self.runtime,
            Grants {
                source: file.relative.clone(),
                root: file.root.clone(),
                capabilities: starloom_engine::declare::Capabilities::default(),
                mode: self.capabilities,
                env: self.env.clone(),
                phase: Phase::Loading,
            },
            &self.limits,
        )
    }

    /// Lint and types of a file, for the log at load and for `check`.
    pub fn analyse(&self, file: &ScriptFile, vocabulary: Vocabulary) -> Result<Vec<Finding>, ScriptError> {
        self.engine.analyse(&DiskFiles::new(file), &file.relative, vocabulary)
    }

    /// Loads many files on all cores, in the order given.
    pub fn load_all(&self, files: &[ScriptFile]) -> Vec<Result<LoadedFile, Vec<ScriptError>>> {
        use std::sync::atomic::{AtomicUsize, Ordering};
        let next = AtomicUsize::new(0);
        let results: Vec<std::sync::OnceLock<_>> = files.iter().map(|_| std::sync::OnceLock::new()).collect();
        let work = || {
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                let Some(file) = files.get(index) else { return };
                let _ = results[index].set(self.load(file));
            }
        };
        let threads = std::thread::available_parallelism().map_or(1, usize::from).min(files.len());
        std::thread::scope(|scope| {
            for _ in 0..threads {
                let spawned = std::thread::Builder::new()
                    .name("load".to_owned())
                    .stack_size(EVALUATION_STACK)
                    .spawn_scoped(scope, work);
                if spawned.is_err() {
                    tracing::warn!("cannot start another thread to load files");
                }
            }
        });
        // Whatever no thread got to, this one does.
        results
            .into_iter()
            .zip(files)
            .map(|(slot, file)| slot.into_inner().unwrap_or_else(|| self.load(file)))
            .collect()
    }
}

/// Scripts recurse on the native stack; the memory is only taken where it is touched.
pub const EVALUATION_STACK: usize = 32 << 20;

/// A path as file events report it.
pub fn absolute(path: &Path) -> PathBuf {
    path.canonicalize().or_else(|_| std::path::absolute(path)).unwrap_or_else(|_| path.to_owned())
}
