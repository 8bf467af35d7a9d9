//! `re`: regular expressions without back-tracking, so that no pattern takes forever.

use std::cell::RefCell;
use std::rc::Rc;

use regex::{Captures, Regex, RegexBuilder};
use starlark::environment::GlobalsBuilder;
use starlark::eval::Evaluator;
use starlark::values::dict::AllocDict;
use starlark::values::list::AllocList;
use starlark::values::structs::AllocStruct;
use starlark::values::{Heap, Value};
use starloom_builtins_macro::builtins;

use crate::context::{Output, Rounds};

const MAX_PATTERN_BYTES: usize = 100_000;
const MAX_COMPILED_BYTES: usize = 2 << 20;
const CACHED_PATTERNS: usize = 32;

thread_local! {
    /// The patterns used last on this thread, the latest first.
    static CACHE: RefCell<Vec<(Anchor, String, Rc<Regex>)>> = const { RefCell::new(Vec::new()) };
}

/// Where a match has to lie.
#[derive(Clone, Copy, PartialEq)]
enum Anchor {
    Anywhere,
    Start,
    Whole,
}

fn compiled(function: &str, pattern: &str, anchor: Anchor) -> anyhow::Result<Rc<Regex>> {
    let cached = CACHE.with_borrow_mut(|cache| {
        let at = cache.iter().position(|(known, text, _)| *known == anchor && text == pattern)?;
        cache[..=at].rotate_right(1);
        cache.first().map(|(_, _, regex)| regex.clone())
    });
    if let Some(regex) = cached {
        return Ok(regex);
    }
    let regex = Rc::new(compile(function, pattern, anchor)?);
    CACHE.with_borrow_mut(|cache| {
        cache.truncate(CACHED_PATTERNS - 1);
        cache.insert(0, (anchor, pattern.to_owned(), regex.clone()));
    });
    Ok(regex)
}

/// Whether a pattern occurs in a text. `function` names the caller in errors.
pub(super) fn occurs(function: &str, pattern: &str, text: &str) -> anyhow::Result<bool> {
    Ok(compiled(function, pattern, Anchor::Anywhere)?.is_match(text))
}

fn compile(function: &str, pattern: &str, anchor: Anchor) -> anyhow::Result<Regex> {
    let shown: String = pattern.chars().take(200).collect();
    anyhow::ensure!(
        pattern.len() <= MAX_PATTERN_BYTES,
        "{function}: the pattern `{shown}…` is longer than {MAX_PATTERN_BYTES} bytes"
    );
    let build = |text: &str| {
        RegexBuilder::new(text).size_limit(MAX_COMPILED_BYTES).dfa_size_limit(MAX_COMPILED_BYTES).build()
    };
    // First as it was written: the error must show the author's pattern, not ours.
    let regex = build(pattern).map_err(|error| match error {
        regex::Error::CompiledTooBig(_) => {
            anyhow::anyhow!("{function}: the pattern `{shown}` is too large: repeat less")
        }
        error => anyhow::anyhow!("{function}: bad pattern `{shown}`: {}", reason(&error)),
    })?;
    let end = match anchor {
        Anchor::Anywhere => return Ok(regex),
        Anchor::Start => "",
        Anchor::Whole => r"\z",
    };
    build(&format!(r"\A(?:{pattern}){end}"))
        // A comment in the `x` mode runs to the end of its line.
        .or_else(|_| build(&format!("\\A(?:{pattern}\n){end}")))
        .map_err(|error| anyhow::anyhow!("{function}: bad pattern `{shown}`: {}", reason(&error)))
}

/// The last line of the parser's report; the lines before draw the pattern once more.
fn reason(error: &regex::Error) -> String {
    let text = error.to_string();
    text.lines().last().unwrap_or("").trim_start_matches("error: ").to_owned()
}

/// Counts characters up to a byte offset, so that `text[m.start:m.end]` is the match.
struct CharCounter<'t> {
    text: &'t str,
    bytes: usize,
    chars: usize,
}

impl<'t> CharCounter<'t> {
    fn new(text: &'t str) -> CharCounter<'t> {
        CharCounter { text, bytes: 0, chars: 0 }
    }

    /// Offsets must not go backwards.
    fn chars_before(&mut self, offset: usize) -> usize {
        self.chars += self.text.get(self.bytes..offset).map_or(0, |part| part.chars().count());
        self.bytes = offset;
        self.chars
    }
}

fn match_struct<'v>(
    captures: &Captures,
    regex: &Regex,
    counter: &mut CharCounter,
    heap: Heap<'v>,
) -> Value<'v> {
    let text_of =
        |group: Option<regex::Match>| group.map_or(Value::new_none(), |group| heap.alloc(group.as_str()));
    let (start, end) = captures.get(0).map_or((0, 0), |whole| (whole.start(), whole.end()));
    let start = counter.chars_before(start);
    let end = counter.chars_before(end);
    let groups: Vec<Value> = captures.iter().skip(1).map(text_of).collect();
    let named: Vec<(&str, Value)> =
        regex.capture_names().flatten().map(|name| (name, text_of(captures.name(name)))).collect();
    heap.alloc(AllocStruct([
        ("text", text_of(captures.get(0))),
        ("start", heap.alloc(start as i64)),
        ("end", heap.alloc(end as i64)),
        ("groups", heap.alloc(AllocList(groups))),
        ("named", heap.alloc(AllocDict(named))),
    ]))
}

fn first_match<'v>(
    function: &str,
    pattern: &str,
    text: &str,
    anchor: Anchor,
    eval: &Evaluator<'v, '_, '_>,
) -> anyhow::Result<Value<'v>> {
    let regex = compiled(function, pattern, anchor)?;
    Ok(match regex.captures(text) {
        Some(captures) => match_struct(&captures, &regex, &mut CharCounter::new(text), eval.heap()),
        None => Value::new_none(),
    })
}

/// How often at most; 0 is "always".
fn at_most(function: &str, name: &str, count: i64) -> anyhow::Result<usize> {
    match usize::try_from(count) {
        Ok(0) => Ok(usize::MAX),
        Ok(count) => Ok(count),
        Err(_) => anyhow::bail!("{function}: {name} must not be negative"),
    }
}

/// A search may look at all of the text to find a match that is short, and do so again for the next.
fn weight(regex: &Regex, text: &str) -> usize {
    regex.captures_len() + text.len() / 1024
}

/// What stands in the place of a match.
enum Replacement<'v> {
    Template(Vec<Piece>),
    Function(Value<'v>),
}

enum Piece {
    Text(String),
    Group(usize),
}

/// Reads `\1`, `\g<name>`, `\\`, `\n`, `\r` and `\t`; all else stands for itself.
fn template(text: &str, regex: &Regex) -> anyhow::Result<Vec<Piece>> {
    let mut pieces = Vec::new();
    let mut literal = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        literal.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        let Some(escaped) = rest.chars().next() else {
            anyhow::bail!("re.sub: the replacement `{text}` ends with a lone `\\`");
        };
        match escaped {
            '0'..='9' => {
                let digits = rest.bytes().take(2).take_while(u8::is_ascii_digit).count();
                pieces.push(Piece::Text(std::mem::take(&mut literal)));
                pieces.push(Piece::Group(group(&rest[..digits], regex)?));
                rest = &rest[digits..];
                continue;
            }
            'g' => {
                let name = rest.strip_prefix("g<").and_then(|rest| rest.split_once('>'));
                let Some((name, after)) = name else {
                    anyhow::bail!("re.sub: `\\g` in the replacement `{text}` needs a name: `\\g<name>`");
                };
                pieces.push(Piece::Text(std::mem::take(&mut literal)));
                pieces.push(Piece::Group(group(name, regex)?));
                rest = after;
                continue;
            }
            'n' => literal.push('\n'),
            'r' => literal.push('\r'),
            't' => literal.push('\t'),
            letter if letter.is_ascii_alphabetic() => {
                anyhow::bail!(
                    "re.sub: `\\{letter}` in the replacement `{text}` means nothing; write `\\\\` for a backslash"
                )
            }
            mark => literal.push(mark),
        }
        rest = &rest[escaped.len_utf8()..];
    }
    literal.push_str(rest);
    pieces.push(Piece::Text(literal));
    Ok(pieces)
}

fn group(name: &str, regex: &Regex) -> anyhow::Result<usize> {
    let index = match name.parse::<usize>() {
        Ok(index) => Some(index).filter(|index| *index < regex.captures_len()),
        Err(_) => regex.capture_names().position(|known| known == Some(name)),
    };
    index.ok_or_else(|| anyhow::anyhow!("re.sub: the pattern `{regex}` has no group `{name}`"))
}

#[builtins]
pub(crate) fn register(globals: &mut GlobalsBuilder) {
    /// The match at the beginning of the text, or `None`.
    ///
    /// A match is `struct(text, start, end, groups, named)`: `text[start:end]` is what matched, `groups`
    /// lists what the groups caught (`None` for one that took no part), `named` has those with a name.
    /// Patterns have Perl's syntax without look-around and back-references; `(?i)` ignores case.
    ///
    /// Args:
    ///     pattern: the regular expression
    ///     text: the text to look at
    fn r#match<'v>(pattern: &str, text: &str, eval: &mut Evaluator<'v, '_, '_>) -> anyhow::Result<Value<'v>> {
        first_match("re.match", pattern, text, Anchor::Start, eval)
    }

    /// The first match anywhere in the text, or `None`. See `re.match` for what a match is.
    ///
    /// Args:
    ///     pattern: the regular expression
    ///     text: the text to look at
    fn search<'v>(pattern: &str, text: &str, eval: &mut Evaluator<'v, '_, '_>) -> anyhow::Result<Value<'v>> {
        first_match("re.search", pattern, text, Anchor::Anywhere, eval)
    }

    /// The match that is the whole text, or `None`. See `re.match` for what a match is.
    ///
    /// Args:
    ///     pattern: the regular expression
    ///     text: the text to look at
    fn full_match<'v>(
        pattern: &str,
        text: &str,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> anyhow::Result<Value<'v>> {
        first_match("re.full_match", pattern, text, Anchor::Whole, eval)
    }

    /// All matches that do not overlap, as a list. See `re.match` for what a match is.
    ///
    /// Args:
    ///     pattern: the regular expression
    ///     text: the text to look at
    fn find_all<'v>(
        pattern: &str,
        text: &str,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> anyhow::Result<Value<'v>> {
        let regex = compiled("re.find_all", pattern, Anchor::Anywhere)?;
        let heap = eval.heap();
        let mut counter = CharCounter::new(text);
        let mut rounds = Rounds::default();
        let mut matches = Vec::new();
        for captures in regex.captures_iter(text) {
            rounds.tick_by(weight(&regex, text))?;
            matches.push(match_struct(&captures, &regex, &mut counter, heap));
        }
        Ok(heap.alloc(AllocList(matches)))
    }

    /// The text with its matches replaced.
    ///
    /// Args:
    ///     pattern: the regular expression
    ///     replacement: text in which `\1` and `\g<name>` stand for groups, or a function that gets the
    ///         match and returns text
    ///     text: the text to change
    ///     count: how many matches to replace at most; 0 for all
    fn sub<'v>(
        pattern: &str,
        replacement: Value<'v>,
        text: &str,
        #[starlark(default = 0)] count: i64,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> starlark::Result<String> {
        let native = starlark::Error::new_native;
        let stopped = |error| native(anyhow::Error::new(error));
        let regex = compiled("re.sub", pattern, Anchor::Anywhere).map_err(native)?;
        let count = at_most("re.sub", "count", count).map_err(native)?;
        let replacement = match replacement.unpack_str() {
            Some(text) => Replacement::Template(template(text, &regex).map_err(native)?),
            None => Replacement::Function(replacement),
        };
        let mut counter = CharCounter::new(text);
        let mut rounds = Rounds::default();
        let mut out = Output::new(eval).map_err(native)?;
        let mut copied = 0;
        for captures in regex.captures_iter(text).take(count) {
            rounds.tick_by(weight(&regex, text)).map_err(native)?;
            let Some(whole) = captures.get(0) else { continue };
            out.push(&text[copied..whole.start()]).map_err(stopped)?;
            copied = whole.end();
            match &replacement {
                Replacement::Template(pieces) => {
                    for piece in pieces {
                        let piece = match piece {
                            Piece::Text(text) => text,
                            Piece::Group(index) => captures.get(*index).map_or("", |group| group.as_str()),
                        };
                        out.push(piece).map_err(stopped)?;
                    }
                }
                Replacement::Function(function) => {
                    let found = match_struct(&captures, &regex, &mut counter, eval.heap());
                    let value = eval.eval_function(*function, &[found], &[])?;
                    let Some(piece) = value.unpack_str() else {
                        let kind = value.get_type();
                        let problem =
                            anyhow::anyhow!("re.sub: the replacement function returned a `{kind}`, not text");
                        return Err(native(problem));
                    };
                    out.push(piece).map_err(stopped)?;
                }
            }
        }
        out.push(&text[copied..]).map_err(stopped)?;
        out.into_text().map_err(native)
    }

    /// The parts of the text between matches. What groups catch is put between them.
    ///
    /// Args:
    ///     pattern: the regular expression
    ///     text: the text to split
    ///     maxsplit: how often to split at most; 0 for always
    fn split<'v>(
        pattern: &str,
        text: &str,
        #[starlark(default = 0)] maxsplit: i64,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> anyhow::Result<Value<'v>> {
        let regex = compiled("re.split", pattern, Anchor::Anywhere)?;
        let maxsplit = at_most("re.split", "maxsplit", maxsplit)?;
        let heap = eval.heap();
        let mut rounds = Rounds::default();
        let mut parts = Vec::new();
        let mut copied = 0;
        for captures in regex.captures_iter(text).take(maxsplit) {
            rounds.tick_by(weight(&regex, text))?;
            let Some(whole) = captures.get(0) else { continue };
            parts.push(heap.alloc(&text[copied..whole.start()]));
            for group in captures.iter().skip(1) {
                parts.push(group.map_or(Value::new_none(), |group| heap.alloc(group.as_str())));
            }
            copied = whole.end();
        }
        parts.push(heap.alloc(&text[copied..]));
        Ok(heap.alloc(AllocList(parts)))
    }

    /// The text as a pattern that matches just this text.
    ///
    /// Args:
    ///     text: any text
    fn escape(text: &str) -> anyhow::Result<String> {
        Ok(regex::escape(text))
    }
}
