//! `yaml`: YAML 1.2 both ways, with exact integers.
//!
//! Reading goes by the parser's events and a stack of our own: the library's loader recurses, and copies
//! anchors without counting their bytes.

use num_bigint::BigInt;
use saphyr_parser::{Event, Marker, Parser, ScalarStyle, ScanError, Tag};
use starlark::collections::SmallMap;
use starlark::environment::GlobalsBuilder;
use starlark::eval::Evaluator;
use starlark::values::dict::Dict;
use starlark::values::list::AllocList;
use starlark::values::{Heap, Value};
use starloom_builtins_macro::builtins;

use crate::Json;
use crate::context::{Output, Rounds, argument_json};
use crate::convert::{MAX_DEPTH, to_starlark};
use crate::error::Uncatchable;

/// The bytes that all copies of anchors may take. A handful of anchors can stand for billions of nodes.
const MAX_ALIASED: usize = 16 << 20;

/// Reading hexadecimal takes time quadratic in its digits.
const MAX_RADIX_DIGITS: usize = 50_000;

#[derive(Debug, Clone)]
enum Node {
    Scalar(Json),
    /// The floats JSON lacks.
    NotFinite(f64),
    List(Vec<Node>),
    Map(Vec<(String, Node)>),
}

/// A node with what has to be bounded.
#[derive(Clone)]
struct Measured {
    node: Node,
    /// In bytes, about.
    size: usize,
    /// Levels of collections in it.
    depth: usize,
}

/// A collection that is being read.
struct Open {
    anchor: usize,
    start: Marker,
    size: usize,
    depth: usize,
    kind: OpenKind,
}

enum OpenKind {
    List(Vec<Node>),
    Map {
        entries: SmallMap<String, Node>,
        /// The key whose value comes next.
        key: Option<Key>,
        /// What `<<` brought in; keys of the map itself win.
        merged: Vec<(String, Node)>,
    },
}

enum Key {
    Named(String, Marker),
    Merge(Marker),
}

fn at(marker: &Marker, problem: impl std::fmt::Display) -> anyhow::Error {
    anyhow::anyhow!("line {}, column {}: {problem}", marker.line(), marker.col() + 1)
}

/// Reads the documents of a text.
struct Reader {
    documents: Vec<Node>,
    open: Vec<Open>,
    /// By the parser's id; a collection has its place only once it is complete.
    anchors: SmallMap<usize, Measured>,
    aliased: usize,
}

fn read(text: &str) -> anyhow::Result<Vec<Node>> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut reader = Reader { documents: Vec::new(), open: Vec::new(), anchors: SmallMap::new(), aliased: 0 };
    let mut rounds = Rounds::default();
    let mut parser = Parser::new_from_str(text);
    while let Some(event) = parser.next_event() {
        rounds.tick()?;
        let (event, span) = event.map_err(|error: ScanError| at(error.marker(), error.info()))?;
        reader.event(event, span.start)?;
    }
    Ok(reader.documents)
}

impl Reader {
    fn event(&mut self, event: Event, start: Marker) -> anyhow::Result<()> {
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                let is_merge = style == ScalarStyle::Plain && text == "<<" && tag.is_none();
                let node = scalar(&text, style, tag.as_deref()).map_err(|problem| at(&start, problem))?;
                self.add(
                    Measured { node, size: text.len() + size_of::<Node>(), depth: 0 },
                    anchor,
                    start,
                    is_merge,
                )
            }
            Event::SequenceStart(anchor, _) => self.open(anchor, start, OpenKind::List(Vec::new())),
            Event::MappingStart(anchor, _) => {
                let kind = OpenKind::Map { entries: SmallMap::new(), key: None, merged: Vec::new() };
                self.open(anchor, start, kind)
            }
            Event::SequenceEnd | Event::MappingEnd => self.close(),
            Event::Alias(anchor) => {
                let Some(aliased) = self.anchors.get(&anchor) else {
                    return Err(at(&start, "an alias inside of its own anchor"));
                };
                let (size, depth) = (aliased.size, aliased.depth);
                self.check_depth(depth, &start)?;
                self.count_aliased(size, &start)?;
                let copy = self.anchors.get(&anchor).cloned();
                copy.map_or(Ok(()), |copy| self.add(copy, 0, start, false))
            }
            Event::Nothing
            | Event::StreamStart
            | Event::StreamEnd
            | Event::DocumentStart(_)
            | Event::DocumentEnd => Ok(()),
        }
    }

    fn open(&mut self, anchor: usize, start: Marker, kind: OpenKind) -> anyhow::Result<()> {
        self.check_depth(1, &start)?;
        self.open.push(Open { anchor, start, size: size_of::<Node>(), depth: 1, kind });
        Ok(())
    }

    /// Whether so many levels may still begin here.
    fn check_depth(&self, levels: usize, start: &Marker) -> anyhow::Result<()> {
        if self.open.len() + levels > MAX_DEPTH {
            return Err(at(start, format!("nested deeper than {MAX_DEPTH}")));
        }
        Ok(())
    }

    fn close(&mut self) -> anyhow::Result<()> {
        let Some(Open { anchor, start, size, depth, kind }) = self.open.pop() else { return Ok(()) };
        let node = match kind {
            OpenKind::List(items) => Node::List(items),
            OpenKind::Map { mut entries, merged, .. } => {
                for (name, node) in merged {
                    entries.entry(name).or_insert(node);
                }
                Node::Map(entries.into_iter().collect())
            }
        };
        self.add(Measured { node, size, depth }, anchor, start, false)
    }

    /// Puts a complete node where it belongs.
    fn add(
        &mut self,
        measured: Measured,
        anchor: usize,
        start: Marker,
        is_merge: bool,
    ) -> anyhow::Result<()> {
        if anchor != 0 {
            self.count_aliased(measured.size, &start)?;
            self.anchors.insert(anchor, measured.clone());
        }
        let Measured { node, size, depth } = measured;
        let Some(parent) = self.open.last_mut() else {
            self.documents.push(node);
            return Ok(());
        };
        parent.size += size;
        parent.depth = parent.depth.max(depth + 1);
        match &mut parent.kind {
            OpenKind::List(items) => items.push(node),
            OpenKind::Map { entries, key, merged } => match key.take() {
                None if is_merge => *key = Some(Key::Merge(start)),
                None => {
                    let name = key_text(node).map_err(|problem| at(&start, problem))?;
                    *key = Some(Key::Named(name, start));
                }
                Some(Key::Named(name, start)) => {
                    if entries.contains_key(&name) {
                        return Err(at(&start, format!("the key `{name}` occurs twice")));
                    }
                    entries.insert(name, node);
                }
                Some(Key::Merge(start)) => merge(node, merged).map_err(|problem| at(&start, problem))?,
            },
        }
        Ok(())
    }

    fn count_aliased(&mut self, size: usize, start: &Marker) -> anyhow::Result<()> {
        self.aliased = self.aliased.saturating_add(size);
        if self.aliased > MAX_ALIASED {
            return Err(at(
                start,
                format!("anchors and aliases stand for more than {} MB", MAX_ALIASED >> 20),
            ));
        }
        Ok(())
    }
}

/// `<<: *defaults`, or a list of such: the entries of another map.
fn merge(node: Node, merged: &mut Vec<(String, Node)>) -> Result<(), &'static str> {
    match node {
        Node::Map(entries) => merged.extend(entries),
        Node::List(items) => {
            for item in items {
                let Node::Map(entries) = item else { return Err("`<<` takes a map or a list of maps") };
                merged.extend(entries);
            }
        }
        _ => return Err("`<<` takes a map or a list of maps"),
    }
    Ok(())
}

/// Keys are text, as in JSON.
fn key_text(node: Node) -> Result<String, &'static str> {
    match node {
        Node::Scalar(Json::String(text)) => Ok(text),
        Node::Scalar(scalar) => Ok(scalar.to_string()),
        Node::NotFinite(float) => Ok(float.to_string()),
        Node::List(_) | Node::Map(_) => Err("a key must be a scalar, not a list or a map"),
    }
}

/// The core schema of YAML 1.2. Tags of its own are checked, others are left aside.
fn scalar(text: &str, style: ScalarStyle, tag: Option<&Tag>) -> Result<Node, String> {
    let string = || Node::Scalar(Json::String(text.to_owned()));
    let wanted = match tag {
        Some(tag) if tag.is_yaml_core_schema() => Some(tag.suffix.as_str()),
        // `!` alone says "not what it looks like": text.
        Some(tag) if tag.suffix == "!" || (tag.handle == "!" && tag.suffix.is_empty()) => Some("str"),
        _ => None,
    };
    if wanted == Some("str") || (style != ScalarStyle::Plain && wanted.is_none()) {
        return Ok(string());
    }
    let resolved = plain(text)?;
    match (wanted, &resolved) {
        (None, _)
        | (Some("null"), Node::Scalar(Json::Null))
        | (Some("bool"), Node::Scalar(Json::Bool(_)))
        | (Some("float"), Node::Scalar(Json::Number(_)) | Node::NotFinite(_)) => Ok(resolved),
        (Some("int"), Node::Scalar(Json::Number(number))) if !number.as_str().contains(['.', 'e', 'E']) => {
            Ok(resolved)
        }
        (Some(wanted @ ("null" | "bool" | "int" | "float")), _) => {
            Err(format!("`{text}` is not a !!{wanted}"))
        }
        (Some(_), _) => Ok(string()),
    }
}

fn plain(text: &str) -> Result<Node, String> {
    let json = match text {
        "" | "~" | "null" | "Null" | "NULL" => Json::Null,
        "true" | "True" | "TRUE" => Json::Bool(true),
        "false" | "False" | "FALSE" => Json::Bool(false),
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => return Ok(Node::NotFinite(f64::INFINITY)),
        "-.inf" | "-.Inf" | "-.INF" => return Ok(Node::NotFinite(f64::NEG_INFINITY)),
        ".nan" | ".NaN" | ".NAN" => return Ok(Node::NotFinite(f64::NAN)),
        _ => number(text)?.unwrap_or_else(|| Json::String(text.to_owned())),
    };
    Ok(Node::Scalar(json))
}

fn number(text: &str) -> Result<Option<Json>, String> {
    for (prefix, radix) in [("0x", 16), ("0o", 8)] {
        if let Some(digits) = text.strip_prefix(prefix)
            && !digits.is_empty()
            && digits.chars().all(|digit| digit.is_digit(radix))
        {
            if digits.len() > MAX_RADIX_DIGITS {
                return Err(format!("an integer of more than {MAX_RADIX_DIGITS} digits"));
            }
            let big = BigInt::parse_bytes(digits.as_bytes(), radix);
            return Ok(big.and_then(|big| big.to_string().parse().ok()).map(Json::Number));
        }
    }
    let (sign, unsigned) = match text.as_bytes().first() {
        Some(b'-') => ("-", &text[1..]),
        Some(b'+') => ("", &text[1..]),
        _ => ("", text),
    };
    if !unsigned.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
        return Ok(None);
    }
    if unsigned.bytes().all(|byte| byte.is_ascii_digit()) {
        let digits = unsigned.trim_start_matches('0');
        let (sign, digits) = if digits.is_empty() { ("", "0") } else { (sign, digits) };
        return Ok(format!("{sign}{digits}").parse().ok().map(Json::Number));
    }
    // Rust reads what the core schema calls a float, and words such as `infinity`, which start otherwise.
    let is_float = unsigned.bytes().all(|byte| byte.is_ascii_digit() || b".eE+-".contains(&byte));
    match text.parse::<f64>() {
        Ok(float) if is_float => match serde_json::Number::from_f64(float) {
            Some(number) => Ok(Some(Json::Number(number))),
            None => Err(format!("the number {text} is too large for a float")),
        },
        _ => Ok(None),
    }
}

/// Recurses no deeper than the reader let the nodes become.
fn to_value<'v>(node: &Node, heap: Heap<'v>, rounds: &mut Rounds) -> anyhow::Result<Value<'v>> {
    rounds.tick()?;
    Ok(match node {
        Node::Scalar(json) => to_starlark(json, heap)?,
        Node::NotFinite(float) => heap.alloc(*float),
        Node::List(items) => {
            let values =
                items.iter().map(|item| to_value(item, heap, rounds)).collect::<anyhow::Result<Vec<_>>>()?;
            heap.alloc(AllocList(values))
        }
        Node::Map(entries) => {
            let mut map = SmallMap::with_capacity(entries.len());
            for (key, item) in entries {
                let key = heap.alloc_str(key).to_value().get_hashed().map_err(|error| error.into_anyhow())?;
                map.insert_hashed(key, to_value(item, heap, rounds)?);
            }
            heap.alloc(Dict::new(map))
        }
    })
}

fn documents<'v>(function: &str, text: &str, eval: &Evaluator<'v, '_, '_>) -> anyhow::Result<Vec<Value<'v>>> {
    let mut rounds = Rounds::default();
    read(text)
        .and_then(|nodes| nodes.iter().map(|node| to_value(node, eval.heap(), &mut rounds)).collect())
        .map_err(|error| error.context(format!("yaml.{function}")))
}

/// Writes in block style, two spaces a level.
fn write_node(json: &Json, indent: usize, out: &mut Output) -> Result<(), Uncatchable> {
    match json {
        Json::Object(object) if !object.is_empty() => {
            for (index, (key, value)) in object.iter().enumerate() {
                if index > 0 {
                    new_line(indent, out)?;
                }
                write_key(key, indent, out)?;
                match value {
                    Json::Object(inner) if !inner.is_empty() => new_line(indent + 2, out)?,
                    Json::Array(inner) if !inner.is_empty() => new_line(indent + 2, out)?,
                    _ => out.push(" ")?,
                }
                write_node(value, indent + 2, out)?;
            }
            Ok(())
        }
        Json::Array(items) if !items.is_empty() => {
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    new_line(indent, out)?;
                }
                out.push("- ")?;
                write_node(item, indent + 2, out)?;
            }
            Ok(())
        }
        Json::String(text) => write_text(text, Some(indent), out),
        // Empty collections and the other scalars are written as in JSON.
        other => out.push(&other.to_string()),
    }
}

fn new_line(indent: usize, out: &mut Output) -> Result<(), Uncatchable> {
    out.push("\n")?;
    out.push(&" ".repeat(indent))
}

fn write_key(key: &str, indent: usize, out: &mut Output) -> Result<(), Uncatchable> {
    // A key that stands before its colon may have 1024 characters, escapes included.
    if key.len() <= 150 {
        write_text(key, None, out)?;
    } else {
        out.push("? ")?;
        write_text(key, None, out)?;
        new_line(indent, out)?;
    }
    out.push(":")
}

/// Plain where that is safe, as a block where it has lines, else in double quotes.
fn write_text(text: &str, block_indent: Option<usize>, out: &mut Output) -> Result<(), Uncatchable> {
    if is_plain(text) {
        return out.push(text);
    }
    if let Some(indent) = block_indent.filter(|indent| *indent > 0 && is_block(text)) {
        out.push(if text.ends_with('\n') { "|" } else { "|-" })?;
        for line in text.strip_suffix('\n').unwrap_or(text).split('\n') {
            // An empty line needs no spaces to be part of the block.
            new_line(if line.is_empty() { 0 } else { indent }, out)?;
            out.push(line)?;
        }
        return Ok(());
    }
    out.push("\"")?;
    let mut buffer = [0; 4];
    for c in text.chars() {
        match c {
            '"' => out.push("\\\"")?,
            '\\' => out.push("\\\\")?,
            '\n' => out.push("\\n")?,
            '\t' => out.push("\\t")?,
            '\r' => out.push("\\r")?,
            c if is_printable(c) => out.push(c.encode_utf8(&mut buffer))?,
            c => out.push(&format!("\\u{:04x}", u32::from(c)))?,
        }
    }
    out.push("\"")
}

/// What YAML lets stand unescaped, line breaks of any kind aside.
fn is_printable(c: char) -> bool {
    !c.is_control() && !matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}')
}

/// Whether a text can stand without quotes and still be read as this text, by old readers too.
fn is_plain(text: &str) -> bool {
    const WORDS: [&str; 9] = ["null", "true", "false", "yes", "no", "on", "off", "y", "n"];
    text.starts_with(|c: char| c.is_alphabetic() || c == '_' || c == '/')
        && !text.ends_with([' ', ':'])
        && !text.contains(": ")
        && !text.contains(" #")
        && text.chars().all(is_printable)
        && !WORDS.iter().any(|word| text.eq_ignore_ascii_case(word))
}

/// Whether a text of several lines can stand as a literal block.
fn is_block(text: &str) -> bool {
    text.contains('\n')
        && !text.starts_with([' ', '\t', '\n'])
        && !text.ends_with("\n\n")
        && text.split('\n').all(|line| {
            // Lines of blanks alone would lose them.
            (line.is_empty() || !line.trim_matches([' ', '\t']).is_empty())
                && line.chars().all(|c| c == '\t' || is_printable(c))
        })
}

#[builtins]
pub(crate) fn register(globals: &mut GlobalsBuilder) {
    /// The value as YAML text, one key or item a line.
    ///
    /// Args:
    ///     value: what JSON can hold: None, booleans, numbers, strings, lists, dicts, structs
    fn encode<'v>(value: Value<'v>, eval: &mut Evaluator<'v, '_, '_>) -> anyhow::Result<String> {
        let json = argument_json("yaml.encode", value, eval)?;
        let mut out = Output::new(eval)?;
        write_node(&json, 0, &mut out)?;
        out.push("\n")?;
        out.into_text()
    }

    /// The value of a YAML text with one document; `None` when the text is empty.
    ///
    /// Integers of any size stay exact. Keys become strings. Anchors, aliases and `<<` are resolved; tags
    /// such as `!Ref` are left aside.
    ///
    /// Args:
    ///     text: the YAML text
    fn decode<'v>(text: &str, eval: &mut Evaluator<'v, '_, '_>) -> anyhow::Result<Value<'v>> {
        let documents = documents("decode", text, eval)?;
        match documents.as_slice() {
            [] => Ok(Value::new_none()),
            [document] => Ok(*document),
            _ => anyhow::bail!(
                "yaml.decode: the text has {} documents; use `yaml.decode_all`",
                documents.len()
            ),
        }
    }

    /// The values of all documents of a YAML text, as a list.
    ///
    /// Args:
    ///     text: the YAML text
    fn decode_all<'v>(text: &str, eval: &mut Evaluator<'v, '_, '_>) -> anyhow::Result<Value<'v>> {
        let documents = documents("decode_all", text, eval)?;
        Ok(eval.heap().alloc(AllocList(documents)))
    }
}
