//! For people: a line per file, everything about failures, the counts at the end.

use std::io::{self, Write};

use super::{Reporter, indented, log_text};
use crate::testing::event::{Event, Outcome, TestReport, Totals};

const RED: &str = "31";
const GREEN: &str = "32";
const YELLOW: &str = "33";

pub struct Human {
    colour: bool,
    /// What the current file has to say besides its counts.
    notable: Vec<TestReport>,
}

impl Human {
    pub fn new(colour: bool) -> Human {
        Human { colour, notable: Vec::new() }
    }

    fn paint(&self, colour: &str, text: &str) -> String {
        if self.colour { format!("\x1b[{colour}m{text}\x1b[0m") } else { text.to_owned() }
    }

    fn file(&mut self, file: &str, totals: &Totals, out: &mut dyn Write) -> io::Result<()> {
        let verdict = match totals {
            Totals { failed: 1.., .. } => self.paint(RED, "FAILED"),
            // Nothing in it was wanted.
            totals if totals.ran() == 0 => return Ok(()),
            _ => self.paint(GREEN, "ok    "),
        };
        writeln!(out, "{verdict}  {file}: {}", counts(totals))?;
        for test in std::mem::take(&mut self.notable) {
            self.test(&test, out)?;
        }
        Ok(())
    }

    fn test(&self, test: &TestReport, out: &mut dyn Write) -> io::Result<()> {
        match &test.outcome {
            Outcome::Passed => Ok(()),
            Outcome::Skipped { reason } => {
                let reason = if reason.is_empty() { String::new() } else { format!(": {}", visible(reason)) };
                writeln!(out, "  {} {}{reason}", self.paint(YELLOW, "skipped"), test.name)
            }
            Outcome::Failed(failure) => {
                writeln!(out, "  {} {}", self.paint(RED, "FAILED"), test.name)?;
                // As `testing.eq` announces it.
                let has_diff = failure.rendered.contains("(- expected, + actual)");
                let rendered = visible(&failure.rendered);
                let lines = rendered.lines();
                let lines: Vec<String> =
                    lines.map(|line| if has_diff { self.diff_line(line) } else { line.to_owned() }).collect();
                writeln!(out, "{}", indented(&lines.join("\n"), "    "))?;
                if !test.logs.is_empty() {
                    writeln!(out, "    log:")?;
                }
                for line in &test.logs {
                    writeln!(out, "{}", indented(&visible(&log_text(line)), "      "))?;
                }
                writeln!(out)
            }
        }
    }

    fn diff_line(&self, line: &str) -> String {
        match line.as_bytes() {
            [b'-', b' ', ..] => self.paint(RED, line),
            [b'+', b' ', ..] => self.paint(GREEN, line),
            _ => line.to_owned(),
        }
    }
}

impl Reporter for Human {
    fn report(&mut self, event: &Event, out: &mut dyn Write) -> io::Result<()> {
        match event {
            Event::FileLoaded { file, tests: 0, .. } => {
                writeln!(out, "empty   {file}: no functions `test_*`")
            }
            Event::Started { .. } | Event::FileLoaded { .. } => Ok(()),
            Event::TestFinished(test) => {
                if !matches!(test.outcome, Outcome::Passed) {
                    self.notable.push(test.clone());
                }
                Ok(())
            }
            Event::FileFinished { file, totals } => self.file(file, totals, out),
            Event::Finished { totals } => {
                let Totals { passed, failed, skipped, not_run, duration } = totals;
                let summary = format!("{passed} passed, {failed} failed, {skipped} skipped");
                let summary = match (*failed, *passed) {
                    (1.., _) => self.paint(RED, &summary),
                    (0, 1..) => self.paint(GREEN, &summary),
                    _ => summary,
                };
                let not_run = if *not_run > 0 { format!(", {not_run} not run") } else { String::new() };
                writeln!(out, "{summary}{not_run} in {:.2} s", duration.as_secs_f64())
            }
        }
    }
}

/// Control characters would be obeyed by the terminal, so they are spelled out.
fn visible(text: &str) -> String {
    let is_safe = |c: char| matches!(c, '\n' | '\t') || !c.is_control();
    text.chars().map(|c| if is_safe(c) { c.to_string() } else { c.escape_debug().to_string() }).collect()
}

/// Those that are not zero.
fn counts(totals: &Totals) -> String {
    let counts = [
        (totals.passed, "passed"),
        (totals.failed, "failed"),
        (totals.skipped, "skipped"),
        (totals.not_run, "not run"),
    ];
    let counts = counts.iter().filter(|(count, _)| *count > 0);
    counts.map(|(count, what)| format!("{count} {what}")).collect::<Vec<_>>().join(", ")
}
