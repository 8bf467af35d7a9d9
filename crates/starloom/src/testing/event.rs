//! What the runner says, in the order of the files and of the tests in them.

use std::time::Duration;

use starloom_engine::{JsonObject, Location};

#[derive(Debug, Clone)]
pub enum Event {
    Started {
        files: usize,
    },
    FileLoaded {
        file: String,
        tests: usize,
        /// Those the filter wants.
        selected: usize,
    },
    TestFinished(TestReport),
    FileFinished {
        file: String,
        totals: Totals,
    },
    Finished {
        totals: Totals,
    },
}

/// One test that is over. A file that does not load counts as one, named `(load)`.
#[derive(Debug, Clone)]
pub struct TestReport {
    pub file: String,
    pub name: String,
    /// Where the test is defined.
    pub location: Option<Location>,
    pub outcome: Outcome,
    pub duration: Duration,
    pub logs: Vec<LogLine>,
}

#[derive(Debug, Clone)]
pub enum Outcome {
    Passed,
    Failed(Failure),
    Skipped { reason: String },
}

#[derive(Debug, Clone)]
pub struct Failure {
    pub message: String,
    /// The message with the author's line, the calls that led there and a hint.
    pub rendered: String,
    /// An assertion of `testing` did not hold; anything else is an error of the code.
    pub is_assertion: bool,
    /// Where it failed.
    pub location: Option<Location>,
}

/// Something a script, or the server on its behalf, wrote to the log during a test.
#[derive(Debug, Clone)]
pub struct LogLine {
    pub level: String,
    pub message: String,
    pub fields: JsonObject,
}

#[derive(Debug, Clone, Copy, Default)]
pub struct Totals {
    pub passed: usize,
    pub failed: usize,
    pub skipped: usize,
    /// Left out after the first failure, or when the run was interrupted.
    pub not_run: usize,
    pub duration: Duration,
}

impl Totals {
    pub fn count(&mut self, outcome: &Outcome) {
        match outcome {
            Outcome::Passed => self.passed += 1,
            Outcome::Failed(_) => self.failed += 1,
            Outcome::Skipped { .. } => self.skipped += 1,
        }
    }

    /// The counts of both; the duration stays this one's.
    pub fn add(&mut self, other: &Totals) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
        self.not_run += other.not_run;
    }

    /// Tests that ran to an end of their own.
    pub fn ran(&self) -> usize {
        self.passed + self.failed + self.skipped
    }
}
