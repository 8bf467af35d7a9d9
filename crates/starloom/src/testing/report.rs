//! From events to text: one format, one file.

mod human;
mod json;
mod junit;
mod tap;

use std::io::{self, Write};

use super::event::{Event, LogLine};

/// Makes text of the events of one run after the other.
pub trait Reporter {
    fn report(&mut self, event: &Event, out: &mut dyn Write) -> io::Result<()>;
}

#[derive(clap::ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// For people: a line per file, everything about failures
    Human,
    /// One JSON object per event and line
    Json,
    /// JUnit's XML, as CI servers read it
    Junit,
    /// Test Anything Protocol, version 14
    Tap,
}

pub fn reporter(format: Format, colour: bool) -> Box<dyn Reporter> {
    match format {
        Format::Human => Box::new(human::Human::new(colour)),
        Format::Json => Box::new(json::JsonLines),
        Format::Junit => Box::new(junit::Junit::default()),
        Format::Tap => Box::new(tap::Tap::default()),
    }
}

/// A line of the log as text; it may have several lines of its own.
fn log_text(line: &LogLine) -> String {
    if line.fields.is_empty() {
        return format!("{}: {}", line.level, line.message);
    }
    let fields: Vec<String> = line.fields.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let (first, rest) = line.message.split_once('\n').unwrap_or((&line.message, ""));
    let rest = if rest.is_empty() { String::new() } else { format!("\n{rest}") };
    format!("{}: {first} {}{rest}", line.level, fields.join(" "))
}

fn indented(text: &str, indent: &str) -> String {
    let lines =
        text.lines().map(|line| if line.is_empty() { String::new() } else { format!("{indent}{line}") });
    lines.collect::<Vec<_>>().join("\n")
}
