//! Errors of scripts, with the author's own line.

use std::fmt::Write as _;

use starlark::codemap::FileSpan;

use crate::Json;
use crate::guard::original_position;
use crate::limits::{Limit, StopReason, Watch};

/// Where something stands in a source text. Lines and columns count from 1.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Location {
    pub file: String,
    pub line: usize,
    pub column: usize,
}

impl std::fmt::Display for Location {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)
    }
}

#[derive(Debug, Clone, PartialEq)]
pub enum ErrorKind {
    /// The text does not parse, or nests too deeply to be parsed.
    Syntax,
    /// A name that does not exist.
    Name,
    /// `load()` could not be resolved.
    Load,
    /// What the file declares makes no sense.
    Declaration,
    /// `fail()` was called.
    Fail,
    /// An assertion of `testing` did not hold.
    Assertion,
    /// `testing.skip()` was called; the message is its reason.
    Skipped,
    /// An operation failed while the script ran.
    Runtime,
    /// A value that JSON cannot hold, or JSON that Starlark cannot.
    Conversion,
    Limit(Limit),
    Cancelled,
    /// The interpreter itself broke. Contained, reported, ours to mend.
    Panic,
    /// `mcp_error()` was called: the caller gets a JSON-RPC error.
    Protocol {
        code: i64,
        data: Option<Json>,
    },
}

/// An error of a script: what happened, where, and how it got there.
#[derive(Debug, Clone)]
pub struct ScriptError {
    pub kind: ErrorKind,
    pub message: String,
    pub location: Option<Location>,
    pub hint: Option<String>,
    /// The line the location points at, and how many columns to underline.
    excerpt: Option<(String, usize)>,
    /// Calls from the outermost to the innermost, each with the place it was called from.
    trace: Vec<(String, Option<Location>)>,
}

impl std::fmt::Display for ScriptError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ScriptError {}

/// Carries a stop or a protocol error through the interpreter, which only knows `anyhow`.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Uncatchable {
    #[error("the call was stopped")]
    Stopped,
    #[error("{message}")]
    Protocol { code: i64, message: String, data: Option<Json> },
    #[error("{reason}")]
    Skipped { reason: String },
}

/// Carries a failed assertion of `testing` through the interpreter. Catchable, unlike the above.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct AssertionFailed(pub(crate) String);

impl ScriptError {
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> ScriptError {
        ScriptError {
            kind,
            message: message.into(),
            location: None,
            hint: None,
            excerpt: None,
            trace: Vec::new(),
        }
    }

    pub fn with_hint(mut self, hint: impl Into<String>) -> ScriptError {
        self.hint = Some(hint.into());
        self
    }

    /// Points at a line of a text the error itself knows nothing of.
    pub fn at(mut self, file: &str, source: &str, line: usize, column: usize) -> ScriptError {
        self.location = Some(Location { file: file.to_owned(), line, column });
        self.excerpt = source.lines().nth(line.saturating_sub(1)).map(|text| (text.to_owned(), 1));
        self
    }

    pub(crate) fn at_span(mut self, span: &FileSpan) -> ScriptError {
        let (location, excerpt) = locate(span);
        self.location = Some(location);
        self.excerpt = Some(excerpt);
        self
    }

    pub(crate) fn stopped(reason: StopReason) -> ScriptError {
        match reason {
            StopReason::Cancelled => ScriptError::new(ErrorKind::Cancelled, "the call was cancelled"),
            StopReason::Limit(limit) => {
                let hint = match limit {
                    Limit::WallClock(_) => {
                        "raise `timeout` on the tool (up to 600 s) or `limits.timeout` in the config"
                    }
                    Limit::Memory(_) => "raise `limits.heapMB` in the config, or work on less at a time",
                    Limit::Frames(_) => "raise `limits.frames` in the config, or use a loop",
                    Limit::Ticks(_) => "raise `limits.ticks` in the config",
                };
                ScriptError::new(ErrorKind::Limit(limit), format!("stopped: {limit}")).with_hint(hint)
            }
        }
    }

    /// What the interpreter reported, sorted out. `watch` knows whether it was stopped.
    pub(crate) fn from_starlark(error: starlark::Error, watch: Option<&Watch>) -> ScriptError {
        use starlark::ErrorKind as Kind;

        let location = error.span().map(locate);
        let trace = error
            .call_stack()
            .frames
            .iter()
            .map(|frame| (frame.name.clone(), frame.location.as_ref().map(|span| locate(span).0)))
            .filter(|(name, _)| !crate::guard::is_guard_name(name))
            .collect();
        let mut script_error = match error.kind() {
            Kind::Native(inner) | Kind::Other(inner) if inner.downcast_ref::<ScriptError>().is_some() => {
                // An error of a loaded file keeps its own place: that is where the author must look.
                return inner.downcast_ref::<ScriptError>().cloned().unwrap_or_else(|| unreachable!());
            }
            Kind::Native(inner) | Kind::Other(inner) => match inner.downcast_ref::<Uncatchable>() {
                Some(Uncatchable::Protocol { code, message, data }) => {
                    ScriptError::new(ErrorKind::Protocol { code: *code, data: data.clone() }, message.clone())
                }
                Some(Uncatchable::Skipped { reason }) => ScriptError::new(ErrorKind::Skipped, reason.clone()),
                _ if inner.downcast_ref::<AssertionFailed>().is_some() => {
                    ScriptError::new(ErrorKind::Assertion, inner.to_string())
                }
                _ => ScriptError::new(ErrorKind::Runtime, format!("{inner:#}")),
            },
            // The crate prints `fail:` before the author's words; the author's words are enough.
            Kind::Fail(inner) => ScriptError::new(ErrorKind::Fail, inner.to_string().trim_start()),
            Kind::StackOverflow(_) => match watch {
                Some(watch) => {
                    let reason = StopReason::Limit(Limit::Frames(watch.limits().frames));
                    watch.set(reason);
                    ScriptError::stopped(reason)
                }
                None => ScriptError::new(ErrorKind::Runtime, "nested function calls too deep"),
            },
            Kind::Scope(inner) => ScriptError::new(ErrorKind::Name, inner.to_string()),
            Kind::Parser(inner) => ScriptError::new(ErrorKind::Syntax, inner.to_string()),
            Kind::Internal(inner) => ScriptError::new(ErrorKind::Panic, inner.to_string()),
            other => ScriptError::new(ErrorKind::Runtime, other.to_string()),
        };
        // The interpreter calls every stop "cancelled"; the watch knows why.
        if let Some(reason) = watch.and_then(Watch::check) {
            script_error = ScriptError::stopped(reason);
        }
        if let Some((location, excerpt)) = location {
            script_error.location = Some(location);
            script_error.excerpt = Some(excerpt);
        }
        script_error.trace = trace;
        script_error
    }

    /// The error as a person at a terminal wants it: message, place, line, calls, hint.
    pub fn render(&self) -> String {
        let mut out = format!("error: {}\n", self.message);
        if let Some(location) = &self.location {
            let _ = writeln!(out, "  --> {location}");
            if let Some((line, width)) = &self.excerpt {
                let number = location.line.to_string();
                let pad = " ".repeat(number.len());
                let indent: String = line
                    .chars()
                    .take(location.column - 1)
                    .map(|c| if c == '\t' { '\t' } else { ' ' })
                    .collect();
                let _ = writeln!(out, " {pad} |");
                let _ = writeln!(out, " {number} | {}", line.trim_end());
                let _ = writeln!(out, " {pad} | {indent}{}", "^".repeat((*width).max(1)));
            }
        }
        for (name, location) in self.trace.iter().rev() {
            // A builtin fails where it is called: that line is shown already.
            if let Some(location) =
                location.as_ref().filter(|location| Some(*location) != self.location.as_ref())
            {
                let _ = writeln!(out, "  called from {location} (`{name}`)");
            }
        }
        if let Some(hint) = &self.hint {
            let _ = writeln!(out, "hint: {hint}");
        }
        out
    }

    /// Message and hint, for someone who must not see the source.
    pub fn message_with_hint(&self) -> String {
        match &self.hint {
            Some(hint) => format!("{} (hint: {hint})", self.message),
            None => self.message.clone(),
        }
    }

    /// `file:line:col: message`, one line.
    pub fn one_line(&self) -> String {
        match &self.location {
            Some(location) => format!("{location}: {}", self.message),
            None => self.message.clone(),
        }
    }
}

/// The place of a span in the text as its author wrote it.
pub(crate) fn locate(span: &FileSpan) -> (Location, (String, usize)) {
    let resolved = span.resolve_span();
    let source = span.file.source();
    let (begin, end) = (resolved.begin, resolved.end);
    let column = original_position(source, begin.line, begin.column);
    let line = crate::guard::original_line(source, begin.line);
    let width = if begin.line == end.line {
        original_position(source, end.line, end.column).saturating_sub(column)
    } else {
        line.trim_end().chars().count().saturating_sub(column)
    };
    let location =
        Location { file: span.file.filename().to_owned(), line: begin.line + 1, column: column + 1 };
    (location, (line, width))
}
