//! Values as a failed assertion shows them.

use similar::{ChangeTag, TextDiff};
use starlark::values::Value;
use starlark::values::dict::DictRef;
use starlark::values::list::ListRef;
use starlark::values::structs::StructRef;
use starlark::values::tuple::TupleRef;

use crate::convert::check_printable;

/// Longer pairs of values are compared line by line.
const MAX_ON_ONE_LINE: usize = 60;
/// A single value is cut here; nobody reads further.
const MAX_SHOWN: usize = 2_000;
/// Finding differences takes time quadratic in the lines, at worst.
const MAX_LINES: usize = 4_000;
/// Equal lines shown around a difference, once there are many.
const CONTEXT: usize = 3;

/// The value as it would be written in a script.
pub(super) fn shown(value: Value) -> String {
    match check_printable(value) {
        Ok(()) => shortened(value.to_repr()),
        Err(problem) => format!("<{}: {problem}>", value.get_type()),
    }
}

fn shortened(text: String) -> String {
    match text.char_indices().nth(MAX_SHOWN) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text,
    }
}

/// `expected X, got Y`, or where two long values differ.
pub(super) fn compared(expected: Value, actual: Value) -> String {
    if check_printable(expected).and(check_printable(actual)).is_err() {
        return format!("expected {}, got {}", shown(expected), shown(actual));
    }
    let (mut before, mut after) = (expected.to_repr(), actual.to_repr());
    if before.chars().count() + after.chars().count() <= MAX_ON_ONE_LINE {
        return format!("expected {before}, got {after}");
    }
    match (expected.unpack_str(), actual.unpack_str()) {
        // Two texts of several lines differ in a line, not in an escape sequence.
        (Some(expected), Some(actual)) if expected.contains('\n') || actual.contains('\n') => {
            (before, after) = (expected.to_owned(), actual.to_owned());
        }
        _ => {
            (before, after) = (pretty(expected), pretty(actual));
        }
    }
    if before == after || before.lines().count().max(after.lines().count()) > MAX_LINES {
        return format!("expected {}, got {}", shown(expected), shown(actual));
    }
    format!("values differ (- expected, + actual)\n{}", diff(&before, &after))
}

fn diff(before: &str, after: &str) -> String {
    let diff = TextDiff::from_lines(before, after);
    let lines: Vec<(ChangeTag, String)> = diff
        .iter_all_changes()
        .map(|change| (change.tag(), shortened(change.value().trim_end_matches('\n').to_owned())))
        .collect();
    let near_change = |index: usize| {
        let around = &lines[index.saturating_sub(CONTEXT)..(index + CONTEXT + 1).min(lines.len())];
        around.iter().any(|(tag, _)| *tag != ChangeTag::Equal)
    };
    let all = lines.len() <= 40;
    let mut out = Vec::new();
    let mut hidden = 0;
    for (index, (tag, line)) in lines.iter().enumerate() {
        let mark = match tag {
            ChangeTag::Delete => "- ",
            ChangeTag::Insert => "+ ",
            ChangeTag::Equal if all || near_change(index) => "  ",
            ChangeTag::Equal => {
                hidden += 1;
                continue;
            }
        };
        if hidden > 0 {
            out.push(format!("  … {hidden} equal lines"));
            hidden = 0;
        }
        out.push(format!("{mark}{line}"));
    }
    if hidden > 0 {
        out.push(format!("  … {hidden} equal lines"));
    }
    out.join("\n")
}

/// One element a line, all the way down. The value must be printable.
fn pretty(value: Value) -> String {
    let mut out = String::new();
    write_pretty(value, 0, &mut out);
    out
}

fn write_pretty(value: Value, indent: usize, out: &mut String) {
    if let Some(list) = ListRef::from_value(value) {
        write_items("[", "]", list.iter().map(|item| (String::new(), item)), indent, out);
    } else if let Some(tuple) = TupleRef::from_value(value) {
        write_items("(", ")", tuple.iter().map(|item| (String::new(), item)), indent, out);
    } else if let Some(dict) = DictRef::from_value(value) {
        let entries = dict.iter().map(|(key, item)| (format!("{}: ", key.to_repr()), item));
        write_items("{", "}", entries, indent, out);
    } else if let Some(fields) = StructRef::from_value(value) {
        let entries = fields.iter().map(|(name, item)| (format!("{} = ", name.as_str()), item));
        write_items("struct(", ")", entries, indent, out);
    } else {
        out.push_str(&value.to_repr());
    }
}

fn write_items<'v>(
    open: &str,
    close: &str,
    items: impl Iterator<Item = (String, Value<'v>)>,
    indent: usize,
    out: &mut String,
) {
    out.push_str(open);
    let mut empty = true;
    for (label, item) in items {
        empty = false;
        out.push('\n');
        out.extend(std::iter::repeat_n(' ', indent + 2));
        out.push_str(&label);
        write_pretty(item, indent + 2, out);
        out.push(',');
    }
    if !empty {
        out.push('\n');
        out.extend(std::iter::repeat_n(' ', indent));
    }
    out.push_str(close);
}
