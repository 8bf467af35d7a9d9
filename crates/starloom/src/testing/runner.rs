//! Runs test files: files side by side, the tests of one file in the order they are written.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use starloom_engine::{
    Arguments, CallOptions, ErrorKind, Limit, Loaded, ScriptError, TestFunction, Vocabulary,
};

use super::capture::captured;
use super::event::{Event, Failure, LogLine, Outcome, TestReport, Totals};
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
    /// The files its results depend on. `None` when that cannot be known, because something does not load.
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
            for worker in 0..self.options.jobs.clamp(1, files.len().max(1)) {
                let (sender, work) = (sender.clone(), &work);
                let spawned = std::thread::Builder::new()
                    .name("test".to_owned())
                    .stack_size(EVALUATION_STACK)
                    .spawn_scoped(scope, move || work(sender));
                match spawned {
                    Ok(_) => {}
                    Err(error) if worker == 0 => return Err(error),
                    // Fewer can do it as well.
                    Err(_) => break,
                }
            }
            drop(sender);
            let mut in_order = InOrder::default();
            for (index, message) in receiver {
                let reported =
                    in_order.next(index, message).into_iter().try_for_each(|message| match message {
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
        let tests = reachable(&loaded.tests);
        let selected = || tests.iter().filter(|test| self.options.filter.selects(&name, &test.name));
        emit(Event::FileLoaded { file: name.clone(), tests: tests.len(), selected: selected().count() });
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
        let depends_on = self.sources.viewed_files(file).map(|mut files| {
            files.insert(absolute(&file.path));
            files.extend(loaded.dependencies.iter().map(|path| absolute(&file.root.join(path))));
            files.extend(subject.files);
            files
        });
        FileRun { file: file.clone(), totals, tests: tests.len(), depends_on }
    }

    fn capture<T>(&self, world: &Arc<World>, work: impl FnOnce() -> T) -> T {
        if self.options.capture_server_log { captured(world, work) } else { work() }
    }

    fn load(&self, file: &ScriptFile) -> Result<(Loaded, Subject), Vec<ScriptError>> {
        let loader = self.sources.loader();
        let host = loader.load_host(file);
        let (files, path) = (DiskFiles::new(file), &file.relative);
        let loaded = loader.engine.load(&files, path, Vocabulary::Test, &host, &loader.limits)?;
        let subject = self.sources.subject(file, &loaded)?;
        Ok((loaded, subject))
    }

    /// `None` when it did not run to an end of its own.
    fn run_test(
        &self,
        file: &ScriptFile,
        subject: &Subject,
        test: &TestFunction,
        halt: &AtomicBool,
    ) -> Option<(Outcome, Duration, Vec<LogLine>)> {
        if self.must_stop(halt) {
            return None;
        }
        let started = Instant::now();
        let world = Arc::new(World::default());
        let limits = &self.app.limits;
        let cancel = Cancel {
            token: self.cancel.token.child_token(),
            stop: self.cancel.stop.within(limits.wall_clock),
        };
        let host = TestHost {
            app: &self.app,
            sources: &self.sources,
            file,
            grants: &subject.grants,
            cancel: &cancel,
            world: world.clone(),
        };
        let options = CallOptions { host: &host, limits, stop: &cancel.stop };
        let result = self.capture(&world, || test.handler.call(Arguments::None, &options));
        let outcome = match result {
            Ok(_) => Outcome::Passed,
            Err(error) => match error.kind {
                ErrorKind::Skipped => Outcome::Skipped { reason: error.message },
                ErrorKind::Cancelled => return None,
                // The test ended well; what it returned concerns nobody.
                ErrorKind::Conversion => Outcome::Passed,
                ErrorKind::Limit(Limit::WallClock(_)) => {
                    Outcome::Failed(failure(&[error.with_hint("raise `limits.timeout` in the config")]))
                }
                _ => Outcome::Failed(failure(&[error])),
            },
        };
        Some((outcome, started.elapsed(), world.take_logs()))
    }

    fn must_stop(&self, halt: &AtomicBool) -> bool {
        halt.load(Ordering::Relaxed) || self.cancel.stop.is_cancelled()
    }

    fn finish(&self, report: TestReport, totals: &mut Totals, halt: &AtomicBool, emit: &dyn Fn(Event)) {
        totals.count(&report.outcome);
        if self.options.fail_fast && matches!(report.outcome, Outcome::Failed(_)) {
            halt.store(true, Ordering::Relaxed);
        }
        emit(Event::TestFinished(report));
    }
}

/// The path as reports and the filter know it.
fn display(file: &ScriptFile) -> String {
    file.path.strip_prefix(".").unwrap_or(&file.path).display().to_string()
}

/// A function defined again hides the first one: what cannot be called is no test.
fn reachable(tests: &[TestFunction]) -> Vec<&TestFunction> {
    let mut reachable = Vec::with_capacity(tests.len());
    for (index, test) in tests.iter().enumerate() {
        match tests[index + 1..].iter().rfind(|later| later.name == test.name) {
            Some(later) => tracing::warn!(
                "{}: `{}` never runs: it is defined again at {}",
                test.location,
                test.name,
                later.location
            ),
            None => reachable.push(test),
        }
    }
    reachable
}

fn failure(errors: &[ScriptError]) -> Failure {
    let join = |text: &dyn Fn(&ScriptError) -> String| errors.iter().map(text).collect::<Vec<_>>().join("\n");
    Failure {
        message: join(&|error| error.message.clone()),
        rendered: join(&|error| error.render().trim_end().to_owned()),
        is_assertion: errors.iter().all(|error| error.kind == ErrorKind::Assertion),
        location: errors.first().and_then(|error| error.location.clone()),
    }
}

/// Brings what many workers say into the order of the files.
#[derive(Default)]
struct InOrder {
    /// The file whose messages go straight through.
    current: usize,
    /// What later files have said so far.
    waiting: BTreeMap<usize, Vec<Message>>,
}

impl InOrder {
    /// All that can be told now.
    fn next(&mut self, index: usize, message: Message) -> Vec<Message> {
        self.waiting.entry(index).or_default().push(message);
        let mut ready = Vec::new();
        while let Some(messages) = self.waiting.remove(&self.current) {
            let done = matches!(messages.last(), Some(Message::Done(_)));
            ready.extend(messages);
            if !done {
                break;
            }
            self.current += 1;
        }
        ready
    }
}
