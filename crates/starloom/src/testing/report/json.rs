//! For programs: one object per event, one event per line.

use std::io::{self, Write};
use std::time::Duration;

use serde_json::{Value as Json, json};

use super::Reporter;
use crate::testing::event::{Event, Outcome, TestReport, Totals};

pub struct JsonLines;

impl Reporter for JsonLines {
    fn report(&mut self, event: &Event, out: &mut dyn Write) -> io::Result<()> {
        let object = match event {
            Event::Started { files } => json!({"event": "started", "files": files}),
            Event::FileLoaded { file, tests, selected } => {
                json!({"event": "file_loaded", "file": file, "tests": tests, "selected": selected})
            }
            Event::TestFinished(test) => test_finished(test),
            Event::FileFinished { file, totals } => {
                with_totals(json!({"event": "file_finished", "file": file}), totals)
            }
            Event::Finished { totals } => with_totals(json!({"event": "finished"}), totals),
        };
        writeln!(out, "{object}")
    }
}

fn test_finished(test: &TestReport) -> Json {
    let mut object = json!({
        "event": "test_finished",
        "file": test.file,
        "name": test.name,
        "location": test.location,
        "outcome": match &test.outcome {
            Outcome::Passed => "passed",
            Outcome::Failed(_) => "failed",
            Outcome::Skipped { .. } => "skipped",
        },
        "seconds": seconds(test.duration),
    });
    match &test.outcome {
        Outcome::Passed => {}
        Outcome::Skipped { reason } => object["reason"] = json!(reason),
        Outcome::Failed(failure) => {
            object["failure"] = json!({
                "kind": if failure.is_assertion { "assertion" } else { "error" },
                "message": failure.message,
                "location": failure.location,
                "rendered": failure.rendered,
            });
        }
    }
    let logs = test.logs.iter();
    object["logs"] = logs
        .map(|line| json!({"level": line.level, "message": line.message, "fields": line.fields}))
        .collect();
    object
}

fn with_totals(mut object: Json, totals: &Totals) -> Json {
    object["passed"] = json!(totals.passed);
    object["failed"] = json!(totals.failed);
    object["skipped"] = json!(totals.skipped);
    object["not_run"] = json!(totals.not_run);
    object["seconds"] = json!(seconds(totals.duration));
    object
}

/// Microseconds are as exact as a test can be.
fn seconds(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1e6).round() / 1e6
}
