//! Runs test files: files side by side, the tests of one file in the order they are written.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use starloom_engine::{
    Arguments, CallOptions, ErrorKind, Limit, Loaded, Location, ScriptError, TestFunction, Vocabulary,
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
        let mut progress = Progress::new(display(file), emit);
        let world = Arc::new(World::default());
        let (tests, depends_on) = match self.capture(&world, || self.load(file)) {
            Ok((loaded, subject)) => {
                let tests = reachable(&loaded.tests);
                self.run_tests(file, &tests, &subject, halt, &mut progress);
                (tests.len(), self.dependencies(file, &loaded, subject))
            }
            Err(_) if self.must_stop(halt) => {
                progress.totals.not_run += 1;
                (1, None)
            }
            Err(errors) => {
                let location = errors.first().and_then(|error| error.location.clone());
                let outcome = Outcome::Failed(failure(&errors));
                progress.finished(
                    "(load)",
                    location,
                    (outcome, progress.started.elapsed(), world.take_logs()),
                );
                self.halt_if_failed(&progress.totals, halt);
                (1, None)
            }
        };
        FileRun { file: file.clone(), totals: progress.end(), tests, depends_on }
    }

    fn run_tests(
        &self,
        file: &ScriptFile,
        tests: &[&TestFunction],
        subject: &Subject,
        halt: &AtomicBool,
        progress: &mut Progress,
    ) {
        let selects = |test: &&&TestFunction| self.options.filter.selects(&progress.file, &test.name);
        let selected: Vec<_> = tests.iter().filter(selects).collect();
        progress.loaded(tests.len(), selected.len());
        for test in selected {
            let result = if self.must_stop(halt) { None } else { self.run_test(file, subject, test) };
            match result {
                Some(result) => progress.finished(&test.name, Some(test.location.clone()), result),
                None => progress.totals.not_run += 1,
            }
            self.halt_if_failed(&progress.totals, halt);
        }
    }

    fn must_stop(&self, halt: &AtomicBool) -> bool {
        halt.load(Ordering::Relaxed) || self.cancel.stop.is_cancelled()
    }

    fn halt_if_failed(&self, totals: &Totals, halt: &AtomicBool) {
        if self.options.fail_fast && totals.failed > 0 {
            halt.store(true, Ordering::Relaxed);
        }
    }

    /// The files to watch: its own, what it loads, what it is about, and what it calls.
    fn dependencies(
        &self,
        file: &ScriptFile,
        loaded: &Loaded,
        subject: Subject,
    ) -> Option<BTreeSet<PathBuf>> {
        let mut files = self.sources.viewed_files(file)?;
        files.insert(absolute(&file.path));
        files.extend(loaded.dependencies.iter().map(|path| absolute(&file.root.join(path))));
        files.extend(subject.files);
        Some(files)
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

    /// `None` when it did not come to an end of its own.
    fn run_test(&self, file: &ScriptFile, subject: &Subject, test: &TestFunction) -> Option<TestResult> {
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
        let called = self.capture(&world, || test.handler.call(Arguments::None, &options).map_err(Box::new));
        let outcome = match called {
            Ok(_) => Outcome::Passed,
            Err(error) => match error.kind {
                ErrorKind::Skipped => Outcome::Skipped { reason: error.message },
                ErrorKind::Cancelled if self.cancel.stop.is_cancelled() => return None,
                // The test ended well; what it returned concerns nobody.
                ErrorKind::Conversion => Outcome::Passed,
                ErrorKind::Limit(Limit::WallClock(_)) => {
                    Outcome::Failed(failure(&[error.with_hint("raise `limits.timeout` in the config")]))
                }
                _ => Outcome::Failed(failure(&[*error])),
            },
        };
        Some((outcome, started.elapsed(), world.take_logs()))
    }
}

type TestResult = (Outcome, Duration, Vec<LogLine>);

/// Tells of the tests of one file, and counts them.
struct Progress<'a> {
    file: String,
    started: Instant,
    totals: Totals,
    emit: &'a dyn Fn(Event),
}

impl<'a> Progress<'a> {
    fn new(file: String, emit: &'a dyn Fn(Event)) -> Progress<'a> {
        Progress { file, started: Instant::now(), totals: Totals::default(), emit }
    }

    fn loaded(&self, tests: usize, selected: usize) {
        (self.emit)(Event::FileLoaded { file: self.file.clone(), tests, selected });
    }

    fn finished(&mut self, name: &str, location: Option<Location>, (outcome, duration, logs): TestResult) {
        self.totals.count(&outcome);
        let (file, name) = (self.file.clone(), name.to_owned());
        (self.emit)(Event::TestFinished(TestReport { file, name, location, outcome, duration, logs }));
    }

    fn end(mut self) -> Totals {
        self.totals.duration = self.started.elapsed();
        (self.emit)(Event::FileFinished { file: self.file, totals: self.totals });
        self.totals
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
