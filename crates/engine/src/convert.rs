//! JSON to Starlark and back, exactly: integers of any size, floats to the last digit, key order kept.
//!
//! Both ways are bounded in depth, because the interpreter's own conversions recurse without a limit.

use std::str::FromStr;

use num_bigint::BigInt;
use serde_json::Number;
use starlark::collections::SmallMap;
use starlark::values::dict::{AllocDict, Dict, DictRef};
use starlark::values::float::StarlarkFloat;
use starlark::values::list::{AllocList, ListRef};
use starlark::values::structs::StructRef;
use starlark::values::tuple::TupleRef;
use starlark::values::{Heap, UnpackValue, Value, ValueLike};

use crate::limits::Watch;
use crate::{Json, JsonObject};

/// Deeper values are refused in both directions.
pub const MAX_DEPTH: usize = 200;
/// Parsing and printing an integer takes time quadratic in its digits.
const MAX_INTEGER_DIGITS: usize = 100_000;

/// Texts beyond this are copied only when the memory is there.
const LONG_TEXT: usize = 16 << 10;

/// A value that one side cannot hold, with the path to it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("at {path}: {problem}")]
pub struct ConversionError {
    pub path: String,
    pub problem: String,
}

/// The way to the value at hand, written out only when something is wrong with it.
enum Path<'a> {
    Root,
    Key(&'a Path<'a>, &'a str),
    Index(&'a Path<'a>, usize),
}

impl Path<'_> {
    fn render(&self) -> String {
        match self {
            Path::Root => "$".to_owned(),
            Path::Key(parent, key) => {
                let plain = !key.is_empty() && key.chars().all(|c| c.is_alphanumeric() || c == '_');
                let parent = parent.render();
                if plain { format!("{parent}.{key}") } else { format!("{parent}[{key:?}]") }
            }
            Path::Index(parent, index) => format!("{}[{index}]", parent.render()),
        }
    }

    fn error(&self, problem: impl Into<String>) -> ConversionError {
        ConversionError { path: self.render(), problem: problem.into() }
    }
}

pub fn to_starlark<'v>(json: &Json, heap: Heap<'v>) -> Result<Value<'v>, ConversionError> {
    value_to_starlark(json, heap, &Path::Root, 0)
}

pub fn object_to_starlark<'v>(object: &JsonObject, heap: Heap<'v>) -> Result<Value<'v>, ConversionError> {
    map_to_starlark(object, heap, &Path::Root, 0)
}

fn value_to_starlark<'v>(
    json: &Json,
    heap: Heap<'v>,
    path: &Path,
    depth: usize,
) -> Result<Value<'v>, ConversionError> {
    if depth > MAX_DEPTH {
        return Err(path.error(format!("nested deeper than {MAX_DEPTH}")));
    }
    Ok(match json {
        Json::Null => Value::new_none(),
        Json::Bool(value) => Value::new_bool(*value),
        Json::Number(number) => number_to_starlark(number, heap, path)?,
        Json::String(text) => heap.alloc(text.as_str()),
        Json::Array(items) => {
            let mut values = Vec::with_capacity(items.len());
            for (index, item) in items.iter().enumerate() {
                values.push(value_to_starlark(item, heap, &Path::Index(path, index), depth + 1)?);
            }
            heap.alloc(AllocList(values))
        }
        Json::Object(object) => map_to_starlark(object, heap, path, depth)?,
    })
}

fn map_to_starlark<'v>(
    object: &JsonObject,
    heap: Heap<'v>,
    path: &Path,
    depth: usize,
) -> Result<Value<'v>, ConversionError> {
    let mut entries = SmallMap::with_capacity(object.len());
    for (key, item) in object {
        let value = value_to_starlark(item, heap, &Path::Key(path, key), depth + 1)?;
        let hashed = heap.alloc_str(key).to_value().get_hashed();
        entries.insert_hashed(hashed.map_err(|error| path.error(error.to_string()))?, value);
    }
    Ok(heap.alloc(Dict::new(entries)))
}

fn number_to_starlark<'v>(
    number: &Number,
    heap: Heap<'v>,
    path: &Path,
) -> Result<Value<'v>, ConversionError> {
    if let Some(small) = number.as_i64() {
        return Ok(heap.alloc(small));
    }
    let digits = number.as_str();
    if !digits.contains(['.', 'e', 'E']) {
        if digits.len() > MAX_INTEGER_DIGITS {
            return Err(path.error(format!("an integer of more than {MAX_INTEGER_DIGITS} digits")));
        }
        return BigInt::from_str(digits)
            .map(|big| heap.alloc(big))
            .map_err(|_| path.error(format!("`{digits}` is not a number")));
    }
    match digits.parse::<f64>() {
        Ok(float) if float.is_finite() => Ok(heap.alloc(float)),
        _ => Err(path.error(format!("the number {digits} is too large for a float"))),
    }
}

pub fn from_starlark<'v>(value: Value<'v>, heap: Heap<'v>) -> Result<Json, ConversionError> {
    let mut steps = 0;
    value_from_starlark(value, heap, &Path::Root, 0, &mut steps)
}

fn value_from_starlark<'v>(
    value: Value<'v>,
    heap: Heap<'v>,
    path: &Path,
    depth: usize,
    steps: &mut usize,
) -> Result<Json, ConversionError> {
    if depth > MAX_DEPTH {
        return Err(path.error(format!("nested deeper than {MAX_DEPTH}")));
    }
    // A value that shares its parts can be exponentially larger as JSON than it is in memory.
    *steps += 1;
    if steps.is_multiple_of(4096) && Watch::current_must_stop() {
        return Err(path.error("stopped"));
    }
    if value.is_none() {
        return Ok(Json::Null);
    }
    if let Some(text) = value.unpack_str() {
        // The same long text may stand in a million places.
        if text.len() > LONG_TEXT && Watch::require_current_memory(text.len()).is_err() {
            return Err(path.error("stopped"));
        }
        return Ok(Json::String(text.to_owned()));
    }
    if let Some(flag) = value.unpack_bool() {
        return Ok(Json::Bool(flag));
    }
    if let Some(small) = value.unpack_i32() {
        return Ok(Json::Number(small.into()));
    }
    if let Some(dict) = DictRef::from_value(value) {
        let mut object = JsonObject::with_capacity(dict.len());
        for (key, item) in dict.iter() {
            let name = match key.unpack_str() {
                Some(text) => text.to_owned(),
                None if BigInt::unpack_value(key).ok().flatten().is_some() => key.to_str(),
                None => {
                    let problem = format!("keys must be strings, found a `{}`", key.get_type());
                    return Err(path.error(problem));
                }
            };
            let json = value_from_starlark(item, heap, &Path::Key(path, &name), depth + 1, steps)?;
            object.insert(name, json);
        }
        return Ok(Json::Object(object));
    }
    if let Some(list) = ListRef::from_value(value) {
        return items_from_starlark(list.iter(), heap, path, depth, steps);
    }
    if let Some(tuple) = TupleRef::from_value(value) {
        return items_from_starlark(tuple.iter(), heap, path, depth, steps);
    }
    if let Some(float) = value.downcast_ref::<StarlarkFloat>() {
        return match Number::from_f64(float.0) {
            Some(number) => Ok(Json::Number(number)),
            None => Err(path.error(format!("JSON has no `{}`", value.to_str()))),
        };
    }
    if let Ok(Some(big)) = BigInt::unpack_value(value) {
        return big
            .to_string()
            .parse()
            .map(Json::Number)
            .map_err(|_| path.error("an integer that JSON cannot hold"));
    }
    if let Some(fields) = StructRef::from_value(value) {
        let mut object = JsonObject::with_capacity(fields.iter().len());
        for (name, item) in fields.iter() {
            let name = name.as_str();
            let json = value_from_starlark(item, heap, &Path::Key(path, name), depth + 1, steps)?;
            object.insert(name.to_owned(), json);
        }
        return Ok(Json::Object(object));
    }
    other_from_starlark(value, heap, path, depth, steps)
}

fn items_from_starlark<'v>(
    items: impl Iterator<Item = Value<'v>>,
    heap: Heap<'v>,
    path: &Path,
    depth: usize,
    steps: &mut usize,
) -> Result<Json, ConversionError> {
    let mut array = Vec::with_capacity(items.size_hint().0);
    for (index, item) in items.enumerate() {
        array.push(value_from_starlark(item, heap, &Path::Index(path, index), depth + 1, steps)?);
    }
    Ok(Json::Array(array))
}

/// Records, enum members, ranges; anything else has no place in JSON.
fn other_from_starlark<'v>(
    value: Value<'v>,
    heap: Heap<'v>,
    path: &Path,
    depth: usize,
    steps: &mut usize,
) -> Result<Json, ConversionError> {
    let kind = value.get_type();
    match kind {
        "range" | "set" => {
            let items = value.iterate(heap).map_err(|error| path.error(error.to_string()))?;
            items_from_starlark(items, heap, path, depth, steps)
        }
        "record" => {
            let mut object = JsonObject::new();
            for name in value.dir_attr() {
                if let Ok(Some(item)) = value.get_attr(&name, heap) {
                    let json = value_from_starlark(item, heap, &Path::Key(path, &name), depth + 1, steps)?;
                    object.insert(name, json);
                }
            }
            Ok(Json::Object(object))
        }
        "enum" => match value.get_attr("value", heap) {
            Ok(Some(item)) => value_from_starlark(item, heap, path, depth + 1, steps),
            _ => Err(path.error("an enum member without a value")),
        },
        "bytes" => Err(path.error("JSON has no bytes; use `base64.encode`")),
        _ => Err(path.error(format!("a `{kind}` cannot be represented in JSON"))),
    }
}

/// Whether `str` and `repr` can print the value: they recurse, and print shared parts again and again.
pub(crate) fn check_printable<'v>(value: Value<'v>) -> Result<(), String> {
    const MAX_NODES: usize = 5_000_000;
    let mut pending = vec![(value, 0)];
    let mut nodes = 0;
    let mut bytes = 0_usize;
    while let Some((value, depth)) = pending.pop() {
        nodes += 1;
        bytes = bytes.saturating_add(value.unpack_str().map_or(0, str::len));
        if depth > MAX_DEPTH {
            return Err(format!("a value nested deeper than {MAX_DEPTH} cannot be printed"));
        }
        if nodes > MAX_NODES {
            return Err(format!("a value of more than {MAX_NODES} parts cannot be printed"));
        }
        if let Some(list) = ListRef::from_value(value) {
            pending.extend(list.iter().map(|item| (item, depth + 1)));
        } else if let Some(tuple) = TupleRef::from_value(value) {
            pending.extend(tuple.iter().map(|item| (item, depth + 1)));
        } else if let Some(dict) = DictRef::from_value(value) {
            for (key, item) in dict.iter() {
                pending.push((key, depth + 1));
                pending.push((item, depth + 1));
            }
        } else if let Some(fields) = StructRef::from_value(value) {
            pending.extend(fields.iter().map(|(_, item)| (item, depth + 1)));
        }
    }
    if bytes > LONG_TEXT {
        Watch::require_current_memory(bytes).map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// A dict with text keys, for answers that are built in Rust.
pub(crate) fn alloc_dict<'v>(
    heap: Heap<'v>,
    entries: impl IntoIterator<Item = (&'static str, Value<'v>)>,
) -> Value<'v> {
    heap.alloc(AllocDict(entries))
}
