//! Runs test files: files side by side, the tests of one file in the order they are written.

use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::time::Instant;

use starloom_engine::{
    Arguments, CallOptions, ErrorKind, Loaded, ScriptError, TestFunction, Vocabulary,
};

use super::capture::captured;
use super::event::{Event, Failure, Outcome, TestReport, Totals};
use super::host::TestHost;
use super::sources::{Sources, Subject};
use super::world::World;
use crate::app::App;
use crate::call::Cancel;
use crate::config::Settings;
use crate::extensions::{DiskFiles, EVALUATION_STACK, ScriptFile, absolute};

#[derive(Debug, Clone)]
pub struct Options {
    /// How many files run at once.
    pub jobs: usize,
    pub fail_fast: bool,
    pub filter: Filter,
    /// Show what the server logs during a test in its report; else it goes to stderr at once.
    pub capture_server_log: bool,
}

/// Which tests to run: any of the words occurs in `file::test`.
#[derive(Debug, Clone, Default)]
pub struct Filter(Vec<String>);

impl Filter {
    /// Words separated by commas; none means all.
    pub fn new(text: &str) -> Filter {
        Filter(text.split(',').map(str::trim).filter(|word| !word.is_empty()).map(str::to_owned).collect())
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn selects(&self, file: &str, test: &str) -> bool {
        let id = format!("{file}::{test}");
        self.0.is_empty() || self.0.iter().any(|word| id.contains(word))
    }
}

/// What came of a run.
#[derive(Debug, Default)]
pub struct Run {
    pub totals: Totals,
    pub files: Vec<FileRun>,
}

#[derive(Debug)]
pub struct FileRun {
    pub file: ScriptFile,
    pub totals: Totals,
    /// Tests in the file, whether or not the filter wants them.
    pub tests: usize,
    /// The files its results depend on. `None` when that cannot be known, because it does not load.
    pub depends_on: Option<BTreeSet<PathBuf>>,
}

/// Everything tests share. Made anew for each run, so that nothing of the last one is left.
pub struct Runner {
    app: Arc<App>,
    sources: Sources,
    options: Options,
    /// Ends the whole run.
    cancel: Cancel,
}

/// What a worker tells the thread that reports.
enum Message {
    Event(Event),
    Done(FileRun),
}

impl Runner {
    pub fn new(
        mut settings: Settings,
        runtime: tokio::runtime::Handle,
        options: Options,
        cancel: Cancel,
    ) -> Runner {
        // Each test has a store of its own; the real one is out of reach.
        settings.store = None;
        let (paths, on_conflict) = (settings.paths.clone(), settings.on_conflict);
        let (app, reloader) = App::build(settings, runtime);
        let sources = Sources::new(reloader.loader, paths, on_conflict);
        Runner { app, sources, options, cancel }
    }

    /// Runs the files and reports as it goes, in the order given. An error is one of reporting; it ends
    /// the run.
    pub fn run(
        &self,
        files: &[ScriptFile],
        report: &mut dyn FnMut(&Event) -> io::Result<()>,
    ) -> io::Result<Run> {
        let started = Instant::now();
        report(&Event::Started { files: files.len() })?;
        let (sender, receiver) = channel();
        let next = AtomicUsize::new(0);
        let halt = AtomicBool::new(false);
        let work = |sender: Sender<(usize, Message)>| {
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                let Some(file) = files.get(index) else { return };
                // Only a report that failed stops listening.
                let done = self.run_file(file, &halt, &|event| {
                    let _ = sender.send((index, Message::Event(event)));
                });
                let _ = sender.send((index, Message::Done(done)));
            }
        };
        let mut run = Run::default();
        let outcome = std::thread::scope(|scope| -> io::Result<()> {
            for _ in 0..self.options.jobs.clamp(1, files.len().max(1)) {
                let (sender, work) = (sender.clone(), &work);
                std::thread::Builder::new()
                    .name("test".to_owned())
                    .stack_size(EVALUATION_STACK)
                    .spawn_scoped(scope, move || work(sender))?;
            }
            drop(sender);
            let mut in_order = InOrder::default();
            for (index, message) in receiver {
                let reported = in_order.next(index, message).into_iter().try_for_each(|message| match message {
                    Message::Event(event) => report(&event),
                    Message::Done(file) => {
                        run.totals.add(&file.totals);
                        run.files.push(file);
                        Ok(())
                    }
                });
                // The scope waits for the workers, so they must not go on.
                reported.inspect_err(|_| self.cancel.cancel())?;
            }
            Ok(())
        });
        outcome?;
        run.totals.duration = started.elapsed();
        report(&Event::Finished { totals: run.totals })?;
        Ok(run)
    }

    fn run_file(&self, file: &ScriptFile, halt: &AtomicBool, emit: &dyn Fn(Event)) -> FileRun {
        let started = Instant::now();
        let name = display(file);
        let mut totals = Totals::default();
        let world = Arc::new(World::default());
        let (loaded, subject) = match self.capture(&world, || self.load(file)) {
            Ok(loaded) => loaded,
            Err(errors) => {
                if self.must_stop(halt) {
                    totals.not_run += 1;
                } else {
                    self.finish(
                        TestReport {
                            file: name.clone(),
                            name: "(load)".to_owned(),
                            location: errors.first().and_then(|error| error.location.clone()),
                            outcome: Outcome::Failed(failure(&errors)),
                            duration: started.elapsed(),
                            logs: world.take_logs(),
                        },
                        &mut totals,
                        halt,
                        emit,
                    );
                }
                totals.duration = started.elapsed();
                emit(Event::FileFinished { file: name, totals });
                return FileRun { file: file.clone(), totals, tests: 1, depends_on: None };
            }
        };
        let selected = || loaded.tests.iter().filter(|test| self.options.filter.selects(&name, &test.name));
        emit(Event::FileLoaded { file: name.clone(), tests: selected().count() });
        for test in selected() {
            match self.run_test(file, &subject, test, halt) {
                Some((outcome, duration, logs)) => self.finish(
                    TestReport {
                        file: name.clone(),
                        name: test.name.clone(),
                        location: Some(test.location.clone()),
                        outcome,
                        duration,
                        logs,
                    },
                    &mut totals,
                    halt,
                    emit,
                ),
                None => totals.not_run += 1,
            }
        }
        totals.duration = started.elapsed();
        emit(Event::FileFinished { file: name, totals });
        let mut depends_on = subject.files;
        depends_on.insert(absolute(&file.path));
        depends_on.extend(loaded.dependencies.iter().map(|path| absolute(&file.root.join(path))));
        depends_on.extend(self.sources.viewed_files(file));
        FileRun { file: file.clone(), totals, tests: loaded.tests.len(), depends_on: Some(depends_on) }
    }
}
