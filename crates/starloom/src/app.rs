//! The running server: built from settings, owns what lives as long as the process.

use std::sync::Arc;

use arc_swap::ArcSwap;
use starloom_effects::{Services, ServicesOptions, StoreLocation};
use starloom_engine::{Engine, Limits};
use tokio::sync::{broadcast, watch};
use tokio_util::sync::CancellationToken;

use crate::call::Gate;
use crate::catalog::Catalog;
use crate::config::Settings;
use crate::extensions::{Loader, Loading, Reloader, StartError};

/// Something clients may want to know of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    Tools,
}

pub struct App {
    pub settings: Settings,
    pub services: Arc<Services>,
    pub engine: Arc<Engine>,
    pub runtime: tokio::runtime::Handle,
    pub limits: Limits,
    pub gate: Gate,
    pub debug_errors: bool,
    pub changes: broadcast::Sender<Change>,
    /// Cancelled when the process is about to end.
    pub shutdown: CancellationToken,
    catalog: Arc<ArcSwap<Catalog>>,
    loading: watch::Receiver<Loading>,
}

impl App {
    /// Starts to load in the background and returns at once: clients are answered meanwhile.
    pub fn start(settings: Settings, runtime: tokio::runtime::Handle, watch_files: bool) -> Arc<App> {
        let (app, reloader) = App::build(settings, runtime);
        let spawned = std::thread::Builder::new()
            .name("reload".to_owned())
            .stack_size(crate::extensions::EVALUATION_STACK)
            .spawn(move || reloader.run(watch_files));
        if let Err(error) = spawned {
            tracing::error!("cannot start the thread that loads files: {error}");
        }
        app
    }

    /// An app that loads nothing until its reloader is told to.
    pub fn build(settings: Settings, runtime: tokio::runtime::Handle) -> (Arc<App>, Reloader) {
        let services = Arc::new(Services::new(ServicesOptions {
            store: settings.store.clone().map_or(StoreLocation::Memory, StoreLocation::File),
            ..ServicesOptions::default()
        }));
        let engine = Arc::new(Engine::new());
        let catalog = Arc::new(ArcSwap::from_pointee(Catalog::default()));
        let (loading, loading_seen) = watch::channel(Loading::UnderWay);
        let (changes, _) = broadcast::channel(64);
        let reloader = Reloader {
            loader: Loader {
                engine: engine.clone(),
                services: services.clone(),
                runtime: runtime.clone(),
                capabilities: settings.capabilities,
                env: Arc::new(settings.env.clone()),
                limits: settings.load_limits.clone(),
            },
            specs: settings.paths.clone(),
            filter: settings.filter.clone(),
            on_conflict: settings.on_conflict,
            catalog: catalog.clone(),
            loading,
            changes: changes.clone(),
        };
        let app = Arc::new(App {
            services,
            engine,
            runtime,
            limits: settings.limits.clone(),
            gate: Gate::new(settings.concurrent_calls, settings.queued_calls),
            debug_errors: settings.debug_errors,
            changes,
            shutdown: CancellationToken::new(),
            catalog,
            loading: loading_seen,
            settings,
        });
        (app, reloader)
    }

    /// The catalog, once the first load is done.
    pub async fn catalog(&self) -> Arc<Catalog> {
        if !matches!(*self.loading.borrow(), Loading::Ready) {
            let mut loading = self.loading.clone();
            // A failed start ends the process; until then there is nothing to list.
            let _ = loading.wait_for(|loading| !matches!(loading, Loading::UnderWay)).await;
        }
        self.catalog.load_full()
    }

    /// Waits for the first load.
    pub async fn loaded(&self) -> Result<(), Arc<StartError>> {
        let mut loading = self.loading.clone();
        let outcome = loading.wait_for(|loading| !matches!(loading, Loading::UnderWay)).await;
        match outcome.as_deref() {
            Ok(Loading::Failed(error)) => Err(error.clone()),
            _ => Ok(()),
        }
    }
}
