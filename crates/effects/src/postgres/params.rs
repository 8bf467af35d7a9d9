//! Values to what a prepared statement takes. They are sent as text, which the server reads by the
//! parameter's own type: every type can be written that way.

use std::error::Error;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::{BufMut, BytesMut};
use serde_json::Number;
use starloom_engine::Json;
use tokio_postgres::types::{Format, IsNull, Kind, ToSql, Type, to_sql_checked};

use super::error::PostgresError;

/// `None` is NULL of any type.
#[derive(Debug)]
pub(super) struct Param(Option<String>);

impl ToSql for Param {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        match &self.0 {
            Some(text) => {
                out.put_slice(text.as_bytes());
                Ok(IsNull::No)
            }
            None => Ok(IsNull::Yes),
        }
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    fn encode_format(&self, _: &Type) -> Format {
        Format::Text
    }

    to_sql_checked!();
}

pub(super) fn encode(values: &[Json], types: &[Type]) -> Result<Vec<Param>, PostgresError> {
    (1..)
        .zip(values.iter().zip(types))
        .map(|(number, (value, wanted))| {
            let place = number.to_string();
            to_text(value, wanted, &place).map(Param).map_err(|wrong| PostgresError::Param {
                place: wrong.place,
                wanted: wanted.clone(),
                problem: wrong.problem,
            })
        })
        .collect()
}

struct Wrong {
    place: String,
    problem: String,
}

fn to_text(value: &Json, wanted: &Type, place: &str) -> Result<Option<String>, Wrong> {
    let wrong = |problem: String| Wrong { place: place.to_owned(), problem };
    let unfit = || wrong(format!("{} does not fit", describe(value)));
    if value.is_null() {
        return Ok(None);
    }
    let text = match wanted.kind() {
        Kind::Domain(base) => return to_text(value, base, place),
        Kind::Array(element) => match value {
            Json::Array(items) => array(items, element, place)?,
            // An array as the server writes it.
            Json::String(text) => text.clone(),
            _ => return Err(unfit()),
        },
        _ => match (wanted, value) {
            (&Type::JSON | &Type::JSONB, Json::String(text)) => text.clone(),
            (&Type::JSON | &Type::JSONB, value) => value.to_string(),
            (&Type::BOOL, Json::Bool(value)) => value.to_string(),
            (&Type::INT2, Json::Number(number)) => integer(number, i16::MIN, i16::MAX).ok_or_else(unfit)?,
            (&Type::INT4, Json::Number(number)) => integer(number, i32::MIN, i32::MAX).ok_or_else(unfit)?,
            (&Type::INT8, Json::Number(number)) => integer(number, i64::MIN, i64::MAX).ok_or_else(unfit)?,
            (&Type::OID, Json::Number(number)) => integer(number, 0, u32::MAX).ok_or_else(unfit)?,
            (&Type::BOOL | &Type::INT2 | &Type::INT4 | &Type::INT8 | &Type::OID, _) => return Err(unfit()),
            (&Type::BYTEA, Json::String(text)) => bytea(text).map_err(wrong)?,
            (_, Json::String(text)) => text.clone(),
            (wanted, Json::Number(number)) if takes_numbers(wanted) => number.to_string(),
            _ => return Err(unfit()),
        },
    };
    Ok(Some(text))
}

fn takes_numbers(wanted: &Type) -> bool {
    [Type::FLOAT4, Type::FLOAT8, Type::NUMERIC, Type::MONEY].contains(wanted)
        || [Type::TEXT, Type::VARCHAR, Type::BPCHAR, Type::UNKNOWN].contains(wanted)
}

fn integer<I: Into<i64>>(number: &Number, smallest: I, largest: I) -> Option<String> {
    let value = number.as_i64()?;
    (smallest.into()..=largest.into()).contains(&value).then(|| value.to_string())
}

/// Base64, as such values come out; `\x…` as the server writes them.
fn bytea(text: &str) -> Result<String, String> {
    if text.starts_with("\\x") {
        return Ok(text.to_owned());
    }
    let bytes = STANDARD.decode(text).map_err(|error| format!("the text is not base64: {error}"))?;
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(format!("\\x{hex}"))
}

fn array(items: &[Json], element: &Type, place: &str) -> Result<String, Wrong> {
    // The one type whose own text holds commas.
    let separator = if *element == Type::BOX { ";" } else { "," };
    // In an array of JSON a list is one of the values, elsewhere a further dimension.
    let is_json = [Type::JSON, Type::JSONB].contains(element);
    let mut texts = Vec::with_capacity(items.len());
    for (index, item) in items.iter().enumerate() {
        let place = format!("{place}[{index}]");
        texts.push(match item {
            Json::Array(inner) if !is_json => array(inner, element, &place)?,
            item => match to_text(item, element, &place)? {
                Some(text) => format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"")),
                None => "NULL".to_owned(),
            },
        });
    }
    Ok(format!("{{{}}}", texts.join(separator)))
}

fn describe(value: &Json) -> String {
    match value {
        Json::Null => "None".to_owned(),
        Json::Bool(value) => format!("the bool {value}"),
        Json::Number(number) => format!("the number {number}"),
        Json::String(_) => "a string".to_owned(),
        Json::Array(_) => "a list".to_owned(),
        Json::Object(_) => "a dict".to_owned(),
    }
}
