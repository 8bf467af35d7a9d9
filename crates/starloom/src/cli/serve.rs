//! `starloom serve`

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;

use super::CliError;
use super::sources::{SourceFlags, runtime};
use crate::app::App;
use crate::config::Settings;
use crate::{exit, front};

/// Serve scripts as MCP tools, over stdio or HTTP
#[derive(Args)]
pub struct ServeArgs {
    /// Files, folders and patterns; without any: ./starloom.yaml, ./extensions or ./llm/mcp
    paths: Vec<PathBuf>,

    #[command(flatten)]
    sources: SourceFlags,

    /// Serve over HTTP, on this address (127.0.0.1:3000 unless said otherwise)
    #[arg(long, value_name = "ADDR", num_args = 0..=1)]
    http: Option<Option<String>>,

    /// The port for HTTP; 0 takes a free one
    #[arg(short, long, value_name = "PORT")]
    port: Option<u16>,

    /// Send source lines and tracebacks to clients, not only to the log
    #[arg(long)]
    debug_errors: bool,

    /// Do not reload when files change
    #[arg(long)]
    no_watch: bool,
}

pub fn cmd_serve(args: ServeArgs) -> Result<u8, CliError> {
    let runtime = runtime()?;
    let mut flags = args.sources.config_flags(&args.paths);
    flags.http = args.http;
    flags.port = args.port;
    flags.debug_errors = args.debug_errors;
    flags.no_watch = args.no_watch;
    let settings = Settings::resolve(&flags, runtime.handle())?;
    let watch = settings.watch;
    let app = App::start(settings, runtime.handle().clone(), watch);
    // On the runtime's own threads: from this one every message would cost two changes of threads.
    let outcome = runtime.block_on(async {
        tokio::spawn(serve(app)).await.unwrap_or_else(|error| Err(CliError::bug(error.to_string())))
    });
    // Handlers that cannot be interrupted must not keep the process from ending.
    runtime.shutdown_background();
    outcome
}

async fn serve(app: Arc<App>) -> Result<u8, CliError> {
    let front = {
        let app = app.clone();
        async move {
            match app.settings.http.clone() {
                None => Box::pin(front::stdio::serve(app)).await.map_err(CliError::from),
                Some(http) => serve_http(app, http.address).await,
            }
        }
    };
    tokio::pin!(front);
    let shutdown = app.shutdown.clone();
    let failed_start = async {
        match app.loaded().await {
            Err(error) => CliError::from(error),
            // Loaded: from here on nothing about the scripts is fatal.
            Ok(()) => std::future::pending().await,
        }
    };
    tokio::select! {
        outcome = &mut front => outcome?,
        error = failed_start => return Err(error),
        () = end_signal() => {
            tracing::info!("ending");
            shutdown.cancel();
            front.await?;
        }
    }
    // Input that ended before the files were loaded must not hide that they do not load.
    app.loaded().await?;
    Ok(exit::OK)
}

async fn serve_http(app: Arc<App>, address: std::net::SocketAddr) -> Result<(), CliError> {
    let listener = tokio::net::TcpListener::bind(address).await.map_err(|error| {
        CliError::failed(format!("cannot listen on {address}: {error}"))
            .with_hint(Some("choose another port with `-p`; 0 takes a free one".to_owned()))
    })?;
    let local = listener.local_addr()?;
    eprintln!("Starloom {} is ready at http://{local}/mcp", env!("CARGO_PKG_VERSION"));
    tokio::spawn(introduce(app.clone()));
    let grace = app.settings.grace;
    let shutdown = app.shutdown.clone();
    tokio::select! {
        outcome = front::http::serve(app, listener) => Ok(outcome?),
        () = async { shutdown.cancelled().await; tokio::time::sleep(grace).await; } => Ok(()),
    }
}

/// Tells the person who started it what there is.
async fn introduce(app: Arc<App>) {
    let catalog = app.catalog().await;
    let width = catalog.tools().iter().map(|tool| tool.name.chars().count()).max().unwrap_or(0).min(40);
    for source in catalog.sources.iter().filter(|source| !source.tools.is_empty()) {
        eprintln!("\n{} ({})", source.id, source.path.display());
        for tool in catalog.tools().iter().filter(|tool| tool.source == source.id) {
            let summary = tool.description.lines().next().unwrap_or("");
            eprintln!("  {:width$}  {}", tool.name, super::list::shortened(summary, 70));
        }
    }
    let failed = catalog.sources.iter().filter(|source| source.state.error().is_some()).count();
    eprintln!(
        "\n{} tools{}",
        catalog.tools().len(),
        if failed > 0 { format!("; {failed} sources do not load") } else { String::new() }
    );
}

/// Ctrl-C, or what a supervisor sends.
async fn end_signal() {
    use tokio::signal::unix::{SignalKind, signal};
    let Ok(mut terminate) = signal(SignalKind::terminate()) else { return std::future::pending().await };
    let Ok(mut hang_up) = signal(SignalKind::hangup()) else { return std::future::pending().await };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        _ = terminate.recv() => {}
        _ = hang_up.recv() => {}
    }
}
