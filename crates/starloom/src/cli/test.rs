//! `starloom test`

use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use starloom_engine::Stop;
use tokio_util::sync::CancellationToken;

use super::CliError;
use super::sources::{SourceFlags, runtime};
use crate::call::Cancel;
use crate::config::{Settings, SettingsError};
use crate::exit;
use crate::extensions::discover_tests;
use crate::testing::{Event, Filter, Format, Options, Run, Runner, reporter, watch};

/// Run the tests of tool authors: functions `test_*` in files `*_test.star`
#[derive(Args)]
pub struct TestArgs {
    /// Files, folders and patterns; without any: ./starloom.yaml, ./extensions or ./llm/mcp
    paths: Vec<PathBuf>,

    /// Run only tests with one of these words in `file::test`, separated by commas
    #[arg(short = 'k', long = "filter", value_name = "WORDS", default_value = "", hide_default_value = true)]
    filter: String,

    /// How to report
    #[arg(long, value_enum, default_value = "human")]
    format: Format,

    /// Run again what a change concerns, until Ctrl-C
    #[arg(long)]
    watch: bool,

    /// Start no more tests after the first failure
    #[arg(long)]
    fail_fast: bool,

    /// How many files to run at once; as many as there are cores unless said otherwise
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    jobs: Option<u16>,

    /// Finding no tests is fine
    #[arg(long)]
    allow_empty: bool,

    #[command(flatten)]
    sources: SourceFlags,
}

pub fn cmd_test(args: TestArgs) -> Result<u8, CliError> {
    let runtime = runtime()?;
    let settings = match Settings::resolve(&args.sources.config_flags(&args.paths), runtime.handle()) {
        Ok(settings) => settings,
        Err(SettingsError::NothingToServe) if args.allow_empty => return Ok(exit::OK),
        Err(SettingsError::NothingToServe) => {
            return Err(CliError::failed(
                "no tests found: no path given, and no ./starloom.yaml, ./extensions or ./llm/mcp here",
            )
            .with_hint(Some("run `starloom test PATH`".to_owned())));
        }
        Err(error) => return Err(error.into()),
    };
    let cancel = Cancel { token: CancellationToken::new(), stop: Stop::after(FOR_EVER) };
    cancel_on_signal(&runtime, cancel.clone());
    let outcome = run(&args, &settings, runtime.handle(), &cancel);
    // Commands that were still running end with the tasks that follow them.
    runtime.shutdown_timeout(Duration::from_secs(2));
    outcome
}

/// Each test has a limit, all of them together have none.
const FOR_EVER: Duration = Duration::from_secs(31_536_000);

fn run(
    args: &TestArgs,
    settings: &Settings,
    runtime: &tokio::runtime::Handle,
    cancel: &Cancel,
) -> Result<u8, CliError> {
    let options = Options {
        jobs: args
            .jobs
            .map_or_else(|| std::thread::available_parallelism().map_or(1, usize::from), usize::from),
        fail_fast: args.fail_fast,
        filter: Filter::new(&args.filter),
        // Asked for by name, the log is wanted at once.
        capture_server_log: !is_set("RUST_LOG") && !is_set("STARLOOM_DEBUG"),
    };
    let files = discover_tests(&settings.paths)?;
    let mut out = io::stdout().lock();
    let mut reporter = reporter(args.format, out.is_terminal() && !is_set("NO_COLOR"));
    let mut report = |event: &Event| {
        reporter.report(event, &mut out)?;
        out.flush()
    };
    let outcome = if args.watch {
        watch(settings, runtime, &options, cancel, &mut report, &mut |files| {
            eprintln!("{files} test files; waiting for changes, Ctrl-C ends");
        })
        .map(|()| Ok(exit::OK))
    } else {
        let runner = Runner::new(settings.clone(), runtime.clone(), options, cancel.clone());
        runner.run(&files, &mut report).map(|run| verdict(args, settings, cancel, &run))
    };
    match outcome {
        // Whoever reads has seen enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(exit::FAILED),
        outcome => outcome?,
    }
}

fn verdict(args: &TestArgs, settings: &Settings, cancel: &Cancel, run: &Run) -> Result<u8, CliError> {
    if cancel.token.is_cancelled() {
        return Err(CliError::failed("interrupted"));
    }
    if run.totals.failed > 0 {
        return Ok(exit::FAILED);
    }
    if run.totals.ran() > 0 || args.allow_empty {
        return Ok(exit::OK);
    }
    let n_tests: usize = run.files.iter().map(|file| file.tests).sum();
    if n_tests > 0 {
        let message =
            format!("none of the {n_tests} tests in {} files matches `-k {}`", run.files.len(), args.filter);
        return Err(CliError::failed(message).with_hint(Some("it is compared with `file::test`".to_owned())));
    }
    let places: Vec<String> = settings.paths.iter().map(|path| format!("`{}`", path.display())).collect();
    let message = format!("no tests found in {}", places.join(", "));
    Err(CliError::failed(message).with_hint(Some(
        "tests are functions `test_*` in files `*_test.star`; `--allow-empty` does without".to_owned(),
    )))
}

fn is_set(name: &str) -> bool {
    std::env::var_os(name).is_some_and(|value| !value.is_empty())
}

/// The first signal ends what runs, so that no command a test started is left behind; the second one
/// does not wait for it.
fn cancel_on_signal(runtime: &tokio::runtime::Runtime, cancel: Cancel) {
    runtime.spawn(async move {
        if tokio::signal::ctrl_c().await.is_ok() {
            cancel.cancel();
        }
        if tokio::signal::ctrl_c().await.is_ok() {
            std::process::exit(exit::FAILED.into());
        }
    });
}
