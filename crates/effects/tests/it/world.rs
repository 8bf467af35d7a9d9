//! A call to perform effects in.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use starloom_effects::{CapabilityMode, Grants, Phase, Scope, Services, ServicesOptions, perform};
use starloom_engine::{Effect, EffectError, Json, Stop};
use tokio_util::sync::CancellationToken;

/// How late after a cancellation an effect may end. The machine may be busy with other tests.
pub const AT_ONCE: Duration = Duration::from_millis(400);

/// A list of `allowed_…`, if there is one.
pub type Allowed<'a> = Option<&'a [&'a str]>;

pub struct World {
    pub services: Services,
    pub grants: Grants,
    pub stop: Stop,
    pub cancelled: CancellationToken,
    pub runtime: tokio::runtime::Runtime,
    pub folder: Folder,
}

impl World {
    pub fn new() -> World {
        World::with(ServicesOptions::default())
    }

    pub fn with(options: ServicesOptions) -> World {
        let folder = Folder::new();
        World {
            services: Services::new(ServicesOptions { http_system_proxy: false, ..options }),
            grants: Grants {
                source: "test".to_owned(),
                root: folder.path().to_owned(),
                capabilities: Default::default(),
                mode: CapabilityMode::Declared,
                env: Arc::default(),
                phase: Phase::Calling,
            },
            stop: Stop::after(Duration::from_secs(60)),
            cancelled: CancellationToken::new(),
            runtime: tokio::runtime::Builder::new_multi_thread()
                .worker_threads(2)
                .enable_all()
                .build()
                .expect("a runtime"),
            folder,
        }
    }

    pub fn set_env(&mut self, pairs: &[(&str, &str)]) {
        let pairs = pairs.iter().map(|(name, value)| (name.to_string(), value.to_string()));
        self.grants.env = Arc::new(BTreeMap::from_iter(pairs));
    }

    pub fn perform_for(&self, grants: &Grants, effect: Effect) -> Result<Json, EffectError> {
        let scope = Scope {
            services: &self.services,
            grants,
            stop: &self.stop,
            cancelled: &self.cancelled,
            runtime: self.runtime.handle(),
        };
        perform(&scope, effect)
    }

    pub fn perform(&self, effect: Effect) -> Result<Json, EffectError> {
        self.perform_for(&self.grants, effect)
    }

    #[track_caller]
    pub fn ok(&self, effect: Effect) -> Json {
        self.perform(effect).unwrap_or_else(|error| panic!("failed: {error}"))
    }

    #[track_caller]
    pub fn error(&self, effect: Effect) -> String {
        match self.perform(effect) {
            Err(EffectError::Failed(message)) => {
                assert!(!message.contains('\n'), "more than one line: {message}");
                message
            }
            other => panic!("did not fail: {other:?}"),
        }
    }

    /// Cancels the effect once `started` has returned. It must be stopped at once.
    #[track_caller]
    pub fn cancel_when(&self, effect: Effect, started: impl FnOnce()) {
        std::thread::scope(|scope| {
            let work = scope.spawn(|| (self.perform(effect), Instant::now()));
            started();
            let cancelled = Instant::now();
            self.cancelled.cancel();
            let (outcome, ended) = work.join().expect("no panic");
            assert!(matches!(outcome, Err(EffectError::Stopped)), "{outcome:?}");
            let late = ended.saturating_duration_since(cancelled);
            assert!(late < AT_ONCE, "ended {late:?} after the cancellation");
        });
    }

    /// The effect must be stopped by the call's deadline.
    #[track_caller]
    pub fn stopped_at_deadline(&mut self, effect: Effect) {
        let limit = Duration::from_millis(150);
        self.stop = Stop::after(limit);
        let started = Instant::now();
        let outcome = self.perform(effect);
        assert!(matches!(outcome, Err(EffectError::Stopped)), "{outcome:?}");
        assert!(started.elapsed() < limit + AT_ONCE, "ended after {:?}", started.elapsed());
    }
}

/// A folder that is removed at the end.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new() -> Folder {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("starloom-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).expect("a folder");
        Folder(path.canonicalize().expect("a folder"))
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    pub fn file(&self, name: &str) -> String {
        self.0.join(name).to_str().expect("UTF-8").to_owned()
    }

    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        let path = self.0.join(name);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
        std::fs::write(&path, content).expect("a file");
        self.file(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Looks until it is so.
#[track_caller]
pub fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < Duration::from_secs(20), "never: {what}");
        std::thread::yield_now();
    }
}
