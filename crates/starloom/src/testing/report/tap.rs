//! Test Anything Protocol, version 14.

use std::fmt::Write as _;
use std::io::{self, Write};

use serde_json::Value as Json;

use super::{Reporter, indented, log_text};
use crate::testing::event::{Event, Failure, Outcome, TestReport};

#[derive(Default)]
pub struct Tap {
    /// How many tests have been told of: TAP counts from 1.
    count: usize,
}

impl Reporter for Tap {
    fn report(&mut self, event: &Event, out: &mut dyn Write) -> io::Result<()> {
        match event {
            Event::Started { .. } => {
                self.count = 0;
                writeln!(out, "TAP version 14")
            }
            Event::FileLoaded { .. } | Event::FileFinished { .. } => Ok(()),
            Event::TestFinished(test) => {
                self.count += 1;
                self.test(test, out)
            }
            Event::Finished { totals } => {
                // A plan of nothing has to say why.
                let reason = if self.count == 0 { " # SKIP no tests ran" } else { "" };
                writeln!(out, "1..{}{reason}", self.count)?;
                if totals.not_run > 0 {
                    writeln!(out, "# {} tests not run", totals.not_run)?;
                }
                Ok(())
            }
        }
    }
}

impl Tap {
    fn test(&self, test: &TestReport, out: &mut dyn Write) -> io::Result<()> {
        let title = format!("{} - {}", self.count, escaped(&format!("{}::{}", test.file, test.name)));
        match &test.outcome {
            Outcome::Passed => writeln!(out, "ok {title}"),
            Outcome::Skipped { reason } => {
                writeln!(out, "{}", format!("ok {title} # SKIP {}", escaped(reason)).trim_end())
            }
            Outcome::Failed(failure) => {
                writeln!(out, "not ok {title}")?;
                diagnostics(test, failure, out)
            }
        }
    }
}

/// A YAML block.
fn diagnostics(test: &TestReport, failure: &Failure, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "  ---")?;
    writeln!(out, "  message: {}", text(&failure.message))?;
    writeln!(out, "  severity: {}", if failure.is_assertion { "fail" } else { "error" })?;
    if let Some(location) = &failure.location {
        writeln!(
            out,
            "  at: {{file: {}, line: {}, column: {}}}",
            text(&location.file),
            location.line,
            location.column
        )?;
    }
    writeln!(out, "  duration_ms: {:.3}", test.duration.as_secs_f64() * 1e3)?;
    write_block("error", &failure.rendered, out)?;
    if !test.logs.is_empty() {
        let logs: Vec<String> = test.logs.iter().map(log_text).collect();
        write_block("log", &logs.join("\n"), out)?;
    }
    writeln!(out, "  ...")
}

/// A JSON string is YAML as well, but for characters that YAML wants escaped and JSON does not.
fn text(text: &str) -> String {
    let mut out = String::new();
    for c in Json::from(text).to_string().chars() {
        if is_special(c) {
            let _ = write!(out, "\\u{:04x}", u32::from(c));
        } else {
            out.push(c);
        }
    }
    out
}

/// What YAML does not take as it is, or takes for a line break.
fn is_special(c: char) -> bool {
    c.is_control() || matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}')
}

/// Lines as they are where YAML can hold them, else as one string.
fn write_block(key: &str, value: &str, out: &mut dyn Write) -> io::Result<()> {
    if value.chars().any(|c| c != '\n' && is_special(c)) {
        return writeln!(out, "  {key}: {}", text(value));
    }
    // The indicator says where the text begins, should its first line be indented.
    writeln!(out, "  {key}: |2")?;
    writeln!(out, "{}", indented(value, "    "))
}

fn escaped(text: &str) -> String {
    let text = text.replace('\\', "\\\\").replace('#', "\\#");
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}
