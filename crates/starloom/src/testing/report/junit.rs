//! JUnit's XML: there is no one standard, so this keeps to what CI servers agree on.

use std::io::{self, Write};
use std::time::Duration;

use super::{Reporter, log_text};
use crate::testing::event::{Event, Outcome, TestReport, Totals};

/// The counts stand before the tests, so it is written when all is known.
#[derive(Default)]
pub struct Junit {
    suites: Vec<(String, Totals, Vec<TestReport>)>,
    current: Vec<TestReport>,
}

impl Reporter for Junit {
    fn report(&mut self, event: &Event, out: &mut dyn Write) -> io::Result<()> {
        match event {
            Event::Started { .. } | Event::FileLoaded { .. } => Ok(()),
            Event::TestFinished(test) => {
                self.current.push(test.clone());
                Ok(())
            }
            Event::FileFinished { file, totals } => {
                let tests = std::mem::take(&mut self.current);
                if !tests.is_empty() {
                    self.suites.push((file.clone(), *totals, tests));
                }
                Ok(())
            }
            Event::Finished { totals } => self.write(totals, out),
        }
    }
}

impl Junit {
    fn write(&mut self, totals: &Totals, out: &mut dyn Write) -> io::Result<()> {
        let suites = std::mem::take(&mut self.suites);
        let all: Vec<&TestReport> = suites.iter().flat_map(|(_, _, tests)| tests).collect();
        writeln!(out, r#"<?xml version="1.0" encoding="UTF-8"?>"#)?;
        writeln!(out, r#"<testsuites name="starloom" {}>"#, counts(&all, totals.duration))?;
        for (file, totals, tests) in &suites {
            let all: Vec<&TestReport> = tests.iter().collect();
            writeln!(out, r#"  <testsuite name="{}" {}>"#, escaped(file), counts(&all, totals.duration))?;
            for test in tests {
                write_test(test, out)?;
            }
            writeln!(out, "  </testsuite>")?;
        }
        writeln!(out, "</testsuites>")
    }
}

fn counts(tests: &[&TestReport], duration: Duration) -> String {
    let count = |wanted: &dyn Fn(&Outcome) -> bool| tests.iter().filter(|test| wanted(&test.outcome)).count();
    format!(
        r#"tests="{}" failures="{}" errors="{}" skipped="{}" time="{}""#,
        tests.len(),
        count(&|outcome| matches!(outcome, Outcome::Failed(failure) if failure.is_assertion)),
        count(&|outcome| matches!(outcome, Outcome::Failed(failure) if !failure.is_assertion)),
        count(&|outcome| matches!(outcome, Outcome::Skipped { .. })),
        seconds(duration),
    )
}

fn write_test(test: &TestReport, out: &mut dyn Write) -> io::Result<()> {
    let line = test.location.as_ref().map(|location| format!(r#" line="{}""#, location.line));
    write!(
        out,
        r#"    <testcase classname="{}" name="{}" file="{}"{} time="{}""#,
        escaped(&test.file),
        escaped(&test.name),
        escaped(&test.file),
        line.unwrap_or_default(),
        seconds(test.duration),
    )?;
    let Outcome::Failed(failure) = &test.outcome else {
        return match &test.outcome {
            Outcome::Skipped { reason } => {
                writeln!(out, ">\n      <skipped message=\"{}\"/>\n    </testcase>", escaped(reason))
            }
            _ => writeln!(out, "/>"),
        };
    };
    let (element, kind) = if failure.is_assertion { ("failure", "assertion") } else { ("error", "error") };
    writeln!(out, ">")?;
    writeln!(
        out,
        r#"      <{element} message="{}" type="{kind}">{}</{element}>"#,
        escaped(&failure.message),
        escaped_text(&failure.rendered),
    )?;
    if !test.logs.is_empty() {
        let logs: Vec<String> = test.logs.iter().map(log_text).collect();
        writeln!(out, "      <system-out>{}</system-out>", escaped_text(&logs.join("\n")))?;
    }
    writeln!(out, "    </testcase>")
}

fn seconds(duration: Duration) -> String {
    format!("{:.3}", duration.as_secs_f64())
}

/// For attributes: a line break would be read as a space.
fn escaped(text: &str) -> String {
    escaped_text(text).replace('\n', "&#10;").replace('\t', "&#9;")
}

/// XML has no way to write most control characters, so they are spelled out.
fn escaped_text(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\n' | '\t' => out.push(c),
            '\r' => out.push_str("&#13;"),
            '\u{fffe}' | '\u{ffff}' => out.extend(c.escape_unicode()),
            c if c.is_control() => out.extend(c.escape_unicode()),
            c => out.push(c),
        }
    }
    out
}
