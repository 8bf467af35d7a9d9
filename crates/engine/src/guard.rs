//! Size checks in front of the operators that can ask for gigabytes in one step.
//!
//! The interpreter looks at its limits every thousand steps; `[0] * 10**9` is one step. So `+`, `*`,
//! `<<` and `%` are compiled as calls of the functions below, which know how large the result will be.
//! `x += y` and its kin cannot be compiled so; there the text itself gets a call around `y`, and a
//! comment at the end of the text remembers where, so that errors still point at what the author wrote.

use std::collections::HashMap;
use std::num::NonZeroI32;

use allocative::Allocative;
use num_bigint::BigInt;
use starlark::any::ProvidesStaticType;
use starlark::environment::GlobalsBuilder;
use starlark::eval::Evaluator;
use starlark::starlark_module;
use starlark::starlark_simple_value;
use starlark::syntax::AstModule;
use starlark::values::bytes::StarlarkBytes;
use starlark::values::list::ListRef;
use starlark::values::range::Range;
use starlark::values::tuple::TupleRef;
use starlark::values::{
    Heap, NoSerialize, StarlarkPagable, StarlarkValue, UnpackValue, Value, ValueLike, starlark_value,
};
use starlark_syntax::syntax::ast::{AssignOp, AstStmt, StmtP};

use crate::context::Context;
use crate::convert::check_printable;
use crate::limits::Watch;

/// An integer of four million bits prints as 1.2 million digits: no tool needs more.
const MAX_INTEGER_BITS: u64 = 4 << 20;

/// Smaller results are not worth a look at the memory that is left.
const SMALL: usize = 1 << 20;

const OPERATORS: [&str; 4] = ["+", "*", "<<", "%"];

/// Not a name a person would use; operators of the table above cannot be written as names at all.
const AUGMENTED: [(&str, &str); 4] =
    [("+", "__grow_add__"), ("*", "__grow_mul__"), ("<<", "__grow_shift__"), ("%", "__grow_format__")];

const MARKER: &str = "\n#starloom-inserted:";

pub(crate) fn is_guard_name(name: &str) -> bool {
    OPERATORS.contains(&name) || AUGMENTED.iter().any(|(_, guard)| *guard == name)
}

/// Compiles the operators of a parsed text as guarded calls.
pub(crate) fn guard_operators(ast: &mut AstModule) {
    let table: HashMap<String, String> =
        OPERATORS.iter().map(|operator| (operator.to_string(), operator.to_string())).collect();
    ast.replace_binary_operators(&table);
}

/// The text with a guard around the right side of each growing assignment, or `None` if it has none.
pub(crate) fn guard_assignments(ast: &AstModule, source: &str) -> Option<String> {
    // (byte offset, text to insert)
    let mut insertions: Vec<(usize, String)> = Vec::new();
    collect_assignments(ast.statement(), source, &mut insertions);
    if insertions.is_empty() {
        return None;
    }
    insertions.sort_by_key(|(offset, _)| *offset);
    let mut text = String::with_capacity(source.len() + insertions.len() * 24);
    let mut marks = String::new();
    let mut copied = 0;
    for (offset, insertion) in &insertions {
        text.push_str(&source[copied..*offset]);
        copied = *offset;
        let line_start = text.rfind('\n').map_or(0, |newline| newline + 1);
        let line = text.bytes().filter(|byte| *byte == b'\n').count();
        let column = text[line_start..].chars().count();
        marks.push_str(&format!(" {line}:{column}:{}", insertion.chars().count()));
        text.push_str(insertion);
    }
    text.push_str(&source[copied..]);
    Some(format!("{text}{MARKER}{marks}\n"))
}

fn collect_assignments(statement: &AstStmt, source: &str, insertions: &mut Vec<(usize, String)>) {
    if let StmtP::AssignModify(target, op, value) = &statement.node {
        let guard = match op {
            AssignOp::Add => "__grow_add__",
            AssignOp::Multiply => "__grow_mul__",
            AssignOp::LeftShift => "__grow_shift__",
            AssignOp::Percent => "__grow_format__",
            _ => return,
        };
        let text =
            |span: starlark::codemap::Span| &source[span.begin().get() as usize..span.end().get() as usize];
        let (target_text, value_text) = (text(target.span), text(value.span));
        // The target is evaluated twice, so it must not call anything. Adding a plain number cannot
        // make anything large, and is what most loops do.
        let is_number = value_text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        let adds_number = matches!(op, AssignOp::Add) && is_number;
        if !target_text.contains(['(', '\n', '#']) && !adds_number {
            insertions.push((value.span.begin().get() as usize, format!("{guard}({target_text}, (")));
            insertions.push((value.span.end().get() as usize, "))".to_owned()));
        }
        return;
    }
    statement.visit_stmt(|inner| collect_assignments(inner, source, insertions));
}

/// (line, column, length) of each insertion, from the comment at the end of the text.
fn insertions_of(source: &str) -> impl Iterator<Item = (usize, usize, usize)> {
    let marks = source.rfind(MARKER).map_or("", |at| &source[at + MARKER.len()..]);
    marks.split_whitespace().filter_map(|mark| {
        let mut numbers = mark.split(':').map(|number| number.parse().ok());
        Some((numbers.next()??, numbers.next()??, numbers.next()??))
    })
}

/// The column in the author's text of a column in the compiled text. All count from 0.
pub(crate) fn original_position(source: &str, line: usize, column: usize) -> usize {
    let mut removed = 0;
    for (_, at, length) in insertions_of(source).filter(|(at_line, ..)| *at_line == line) {
        if at < column {
            removed += length.min(column - at);
        }
    }
    column - removed
}

/// A line as the author wrote it.
pub(crate) fn original_line(source: &str, line: usize) -> String {
    let text = source.lines().nth(line).unwrap_or("");
    let mut characters: Vec<char> = text.chars().collect();
    let mut here: Vec<_> = insertions_of(source).filter(|(at_line, ..)| *at_line == line).collect();
    here.reverse();
    for (_, at, length) in here {
        if at + length <= characters.len() {
            characters.drain(at..at + length);
        }
    }
    characters.into_iter().collect()
}

/// Bytes a sequence takes, or `None` for everything that cannot be repeated or joined.
fn sequence_bytes(value: Value) -> Option<usize> {
    if let Some(text) = value.unpack_str() {
        Some(text.len())
    } else if let Some(list) = ListRef::from_value(value) {
        Some(list.len() * size_of::<usize>())
    } else if let Some(tuple) = TupleRef::from_value(value) {
        Some(tuple.len() * size_of::<usize>())
    } else {
        value.downcast_ref::<StarlarkBytes>().map(|bytes| bytes.as_bytes().len())
    }
}

fn require_memory(bytes: usize, eval: &Evaluator) -> anyhow::Result<()> {
    if bytes < SMALL {
        return Ok(());
    }
    Ok(Context::of(eval)?.watch.require_memory(bytes)?)
}

fn bits(value: Value) -> Option<u64> {
    BigInt::unpack_value(value).ok().flatten().map(|big| big.bits())
}

fn require_small_integer(bits: u64) -> anyhow::Result<()> {
    anyhow::ensure!(
        bits <= MAX_INTEGER_BITS,
        "an integer of more than {MAX_INTEGER_BITS} bits is not supported"
    );
    Ok(())
}

fn check_add<'v>(left: Value<'v>, right: Value<'v>, eval: &Evaluator<'v, '_, '_>) -> anyhow::Result<()> {
    match (sequence_bytes(left), sequence_bytes(right)) {
        (Some(left), Some(right)) => require_memory(left.saturating_add(right), eval),
        _ => Ok(()),
    }
}

fn check_mul<'v>(left: Value<'v>, right: Value<'v>, eval: &Evaluator<'v, '_, '_>) -> anyhow::Result<()> {
    let repeated = |sequence: Value<'v>, count: Value<'v>| {
        let bytes = sequence_bytes(sequence)?;
        let count = BigInt::unpack_value(count).ok()??;
        Some(usize::try_from(count.max(BigInt::ZERO)).map_or(usize::MAX, |count| bytes.saturating_mul(count)))
    };
    if left.unpack_i32().is_some() && right.unpack_i32().is_some() {
        return Ok(());
    }
    if let Some(bytes) = repeated(left, right).or_else(|| repeated(right, left)) {
        return require_memory(bytes, eval);
    }
    match (bits(left), bits(right)) {
        (Some(left), Some(right)) => require_small_integer(left + right),
        _ => Ok(()),
    }
}

fn check_shift(left: Value, right: Value) -> anyhow::Result<()> {
    match (bits(left), right.unpack_i32()) {
        (Some(bits), Some(by)) if by > 0 && bits > 0 => require_small_integer(bits + by as u64),
        _ => Ok(()),
    }
}

fn check_format(right: Value) -> anyhow::Result<()> {
    check_printable(right).map_err(anyhow::Error::msg)
}

#[starlark_module]
fn augmented_guards(globals: &mut GlobalsBuilder) {
    fn __grow_add__<'v>(
        #[starlark(require = pos)] left: Value<'v>,
        #[starlark(require = pos)] right: Value<'v>,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> anyhow::Result<Value<'v>> {
        check_add(left, right, eval).map(|()| right)
    }

    fn __grow_mul__<'v>(
        #[starlark(require = pos)] left: Value<'v>,
        #[starlark(require = pos)] right: Value<'v>,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> anyhow::Result<Value<'v>> {
        check_mul(left, right, eval).map(|()| right)
    }

    fn __grow_shift__<'v>(
        #[starlark(require = pos)] left: Value<'v>,
        #[starlark(require = pos)] right: Value<'v>,
    ) -> anyhow::Result<Value<'v>> {
        check_shift(left, right).map(|()| right)
    }

    fn __grow_format__<'v>(
        #[starlark(require = pos)] left: Value<'v>,
        #[starlark(require = pos)] right: Value<'v>,
    ) -> anyhow::Result<Value<'v>> {
        let _ = left;
        check_format(right).map(|()| right)
    }
}

#[starlark_module]
fn operator_guards(globals: &mut GlobalsBuilder) {
    fn add<'v>(
        #[starlark(require = pos)] left: Value<'v>,
        #[starlark(require = pos)] right: Value<'v>,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> starlark::Result<Value<'v>> {
        check_add(left, right, eval).map_err(starlark::Error::new_native)?;
        left.add(right, eval.heap())
    }

    fn mul<'v>(
        #[starlark(require = pos)] left: Value<'v>,
        #[starlark(require = pos)] right: Value<'v>,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> starlark::Result<Value<'v>> {
        check_mul(left, right, eval).map_err(starlark::Error::new_native)?;
        left.mul(right, eval.heap())
    }

    fn shift<'v>(
        #[starlark(require = pos)] left: Value<'v>,
        #[starlark(require = pos)] right: Value<'v>,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> starlark::Result<Value<'v>> {
        check_shift(left, right).map_err(starlark::Error::new_native)?;
        left.left_shift(right, eval.heap())
    }

    fn format<'v>(
        #[starlark(require = pos)] left: Value<'v>,
        #[starlark(require = pos)] right: Value<'v>,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> starlark::Result<Value<'v>> {
        if left.unpack_i32().is_none() {
            check_format(right).map_err(starlark::Error::new_native)?;
        }
        left.percent(right, eval.heap())
    }
}

/// Adds the guards to the globals under names no script can write or hide.
pub(crate) fn register_guards(globals: &mut GlobalsBuilder) {
    augmented_guards(globals);
    let operators = GlobalsBuilder::new().with(operator_guards).build();
    globals.frozen_heap().add_reference(operators.heap());
    for (name, operator) in [("add", "+"), ("mul", "*"), ("shift", "<<"), ("format", "%")] {
        if let Some((_, function)) = operators.iter().find(|(found, _)| *found == name) {
            globals.set(operator, function);
        }
    }
}

/// A range too long to be turned into a list in one go: it looks at the limits while it is walked.
#[derive(Debug, Clone, ProvidesStaticType, NoSerialize, Allocative, StarlarkPagable)]
pub(crate) struct LongRange {
    start: i32,
    stop: i32,
    step: i32,
}

starlark_simple_value!(LongRange);

impl std::fmt::Display for LongRange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            LongRange { start: 0, stop, step: 1 } => write!(f, "range({stop})"),
            LongRange { start, stop, step: 1 } => write!(f, "range({start}, {stop})"),
            LongRange { start, stop, step } => write!(f, "range({start}, {stop}, {step})"),
        }
    }
}

impl LongRange {
    fn count(start: i32, stop: i32, step: i32) -> i64 {
        let (distance, step) = (i64::from(stop) - i64::from(start), i64::from(step));
        // Rounds away from the start: `range(0, 3, 2)` has two members.
        if distance.signum() * step.signum() <= 0 { 0 } else { (distance + step - step.signum()) / step }
    }

    fn nth(&self, index: i64) -> Option<i32> {
        let value = i64::from(self.start) + index * i64::from(self.step);
        (index < LongRange::count(self.start, self.stop, self.step)).then_some(value as i32)
    }
}

#[starlark_value(type = "range")]
impl<'v> StarlarkValue<'v> for LongRange {
    fn to_bool(&self) -> bool {
        true
    }

    fn length(&self) -> starlark::Result<i32> {
        i32::try_from(LongRange::count(self.start, self.stop, self.step)).map_err(|_| {
            starlark::Error::new_value(anyhow::anyhow!("the range is too long to have a length"))
        })
    }

    fn at(&self, index: Value<'v>, heap: Heap<'v>) -> starlark::Result<Value<'v>> {
        let count = LongRange::count(self.start, self.stop, self.step);
        let index = i64::unpack_value_err(index)?;
        let index = if index < 0 { index + count } else { index };
        match self.nth(index).filter(|_| index >= 0) {
            Some(value) => Ok(heap.alloc(value)),
            None => Err(starlark::Error::new_value(anyhow::anyhow!("index out of range"))),
        }
    }

    fn is_in(&self, other: Value<'v>) -> starlark::Result<bool> {
        let Some(value) = other.unpack_i32() else { return Ok(false) };
        let offset = i64::from(value) - i64::from(self.start);
        let step = i64::from(self.step);
        Ok(offset % step == 0 && offset / step >= 0 && self.nth(offset / step).is_some())
    }

    fn equals(&self, other: Value<'v>) -> starlark::Result<bool> {
        Ok(LongRange::from_value(other)
            .is_some_and(|other| (self.start, self.stop, self.step) == (other.start, other.stop, other.step)))
    }

    unsafe fn iterate(&self, me: Value<'v>, _heap: Heap<'v>) -> starlark::Result<Value<'v>> {
        Ok(me)
    }

    unsafe fn iter_size_hint(&self, _index: usize) -> (usize, Option<usize>) {
        // No promise: callers would reserve memory for all of it at once.
        (0, None)
    }

    unsafe fn iter_next(&self, index: usize, heap: Heap<'v>) -> Option<Value<'v>> {
        // Ends early when the call has to stop; the stop itself is raised at the next step.
        if index.is_multiple_of(4096) && Watch::current_must_stop() {
            return None;
        }
        self.nth(index as i64).map(|value| heap.alloc(value))
    }

    unsafe fn iter_stop(&self) {}
}

#[starlark_module]
pub(crate) fn register_range(globals: &mut GlobalsBuilder) {
    /// The integers from `a1` (or 0) up to, without, `a2`.
    #[starlark(as_type = Range)]
    fn range<'v>(
        #[starlark(require = pos)] a1: i32,
        #[starlark(require = pos)] a2: Option<i32>,
        #[starlark(require = pos, default = 1)] step: i32,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> anyhow::Result<Value<'v>> {
        let (start, stop) = match a2 {
            Some(stop) => (a1, stop),
            None => (0, a1),
        };
        let Some(nonzero) = NonZeroI32::new(step) else {
            anyhow::bail!("the third argument of `range` (step) cannot be zero");
        };
        if LongRange::count(start, stop, step) <= SMALL as i64 {
            return Ok(eval.heap().alloc(Range::new(start, stop, nonzero)));
        }
        Ok(eval.heap().alloc(LongRange { start, stop, step }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_ranges_count_like_short_ones() {
        for (start, stop, step) in [(0, 3, 2), (0, 4, 2), (3, 0, -1), (3, 0, -2), (0, 3, -1), (5, 5, 1)] {
            let expected = match step > 0 {
                true => (start..stop).step_by(step as usize).count(),
                false => (stop + 1..=start).rev().step_by(-step as usize).count(),
            };
            assert_eq!(
                LongRange::count(start, stop, step),
                expected as i64,
                "range({start}, {stop}, {step})"
            );
        }
    }

    #[test]
    fn positions_are_the_authors() {
        let source = "def f(s):\n    s += s + g(1); h()\n";
        let ast = crate::compile::parse("x.star", source).unwrap();
        let guarded = guard_assignments(&ast, source).unwrap();
        assert!(guarded.contains("s += __grow_add__(s, (s + g(1))); h()"), "{guarded}");
        assert_eq!(original_line(&guarded, 1), "    s += s + g(1); h()");
        let column = guarded.lines().nth(1).unwrap().find("h()").unwrap();
        assert_eq!(
            original_position(&guarded, 1, column),
            source.lines().nth(1).unwrap().find("h()").unwrap()
        );
        assert_eq!(
            guard_assignments(&crate::compile::parse("x", "x = 0\nx += 1\n").unwrap(), "x = 0\nx += 1\n"),
            None
        );
    }
}
