//! Values as the server sends them, to JSON. Nothing is rounded and nothing is left out.

use std::error::Error;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use starloom_engine::Json;
use tokio_postgres::types::{FromSql, Kind, Type};

use super::text;

/// Why a value cannot be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum DecodeError {
    #[error("the server sent a malformed value")]
    Malformed,
    #[error("the server sent text that is not UTF-8")]
    NotUtf8,
    #[error("the JSON value cannot be read: {0}")]
    Json(serde_json::Error),
}

/// The bytes of a value, `None` for NULL.
pub(super) struct Raw<'a>(pub(super) Option<&'a [u8]>);

impl<'a> FromSql<'a> for Raw<'a> {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Raw<'a>, Box<dyn Error + Sync + Send>> {
        Ok(Raw(Some(raw)))
    }

    fn from_sql_null(_: &Type) -> Result<Raw<'a>, Box<dyn Error + Sync + Send>> {
        Ok(Raw(None))
    }

    fn accepts(_: &Type) -> bool {
        true
    }
}

/// How the bytes of a type are read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Shape {
    Void,
    Bool,
    Int2,
    Int4,
    Int8,
    Oid,
    Float4,
    Float8,
    Numeric,
    Text,
    Char,
    Uuid,
    Date,
    Time,
    TimeTz,
    Timestamp,
    TimestampTz,
    Interval,
    Json,
    Jsonb,
    Bytea,
    Inet,
    Cidr,
    MacAddress,
    Array(Box<Shape>),
}

impl Shape {
    /// `None` for types whose binary form is not known here.
    pub(super) fn of(column: &Type) -> Option<Shape> {
        Some(match column.kind() {
            Kind::Enum(_) => Shape::Text,
            Kind::Domain(base) => Shape::of(base)?,
            Kind::Array(element) => Shape::Array(Box::new(Shape::of(element)?)),
            _ => match *column {
                Type::VOID => Shape::Void,
                Type::BOOL => Shape::Bool,
                Type::INT2 => Shape::Int2,
                Type::INT4 => Shape::Int4,
                Type::INT8 => Shape::Int8,
                Type::OID => Shape::Oid,
                Type::FLOAT4 => Shape::Float4,
                Type::FLOAT8 => Shape::Float8,
                Type::NUMERIC => Shape::Numeric,
                Type::TEXT | Type::VARCHAR | Type::BPCHAR | Type::NAME | Type::UNKNOWN | Type::CSTRING => {
                    Shape::Text
                }
                Type::CHAR => Shape::Char,
                Type::UUID => Shape::Uuid,
                Type::DATE => Shape::Date,
                Type::TIME => Shape::Time,
                Type::TIMETZ => Shape::TimeTz,
                Type::TIMESTAMP => Shape::Timestamp,
                Type::TIMESTAMPTZ => Shape::TimestampTz,
                Type::INTERVAL => Shape::Interval,
                Type::JSON => Shape::Json,
                Type::JSONB => Shape::Jsonb,
                Type::BYTEA => Shape::Bytea,
                Type::INET => Shape::Inet,
                Type::CIDR => Shape::Cidr,
                Type::MACADDR | Type::MACADDR8 => Shape::MacAddress,
                _ => return None,
            },
        })
    }

    pub(super) fn decode(&self, bytes: &[u8]) -> Result<Json, DecodeError> {
        Ok(match self {
            Shape::Void => Json::Null,
            Shape::Bool => Json::from(fixed::<1>(bytes)? != [0]),
            Shape::Int2 => Json::from(i16::from_be_bytes(fixed(bytes)?)),
            Shape::Int4 => Json::from(i32::from_be_bytes(fixed(bytes)?)),
            Shape::Int8 => Json::from(i64::from_be_bytes(fixed(bytes)?)),
            Shape::Oid => Json::from(u32::from_be_bytes(fixed(bytes)?)),
            Shape::Float4 => {
                let value = f32::from_be_bytes(fixed(bytes)?);
                // By its own digits: 0.1 stays 0.1, where the wider float would be 0.10000000149011612.
                float(f64::from(value), &format!("{value:?}"))?
            }
            Shape::Float8 => {
                let value = f64::from_be_bytes(fixed(bytes)?);
                float(value, &format!("{value:?}"))?
            }
            Shape::Numeric => numeric(bytes)?,
            Shape::Text => Json::from(utf8(bytes)?),
            Shape::Char => Json::from(text::char(fixed(bytes)?)),
            Shape::Uuid => Json::from(text::uuid(fixed(bytes)?)),
            Shape::Date => Json::from(text::date(i32::from_be_bytes(fixed(bytes)?))),
            Shape::Time => Json::from(text::time(i64::from_be_bytes(fixed(bytes)?))),
            Shape::TimeTz => {
                let (time, zone) = bytes.split_at_checked(8).ok_or(DecodeError::Malformed)?;
                let zone = i32::from_be_bytes(fixed(zone)?);
                Json::from(text::time_tz(i64::from_be_bytes(fixed(time)?), zone))
            }
            Shape::Timestamp => Json::from(text::timestamp(i64::from_be_bytes(fixed(bytes)?), "")),
            Shape::TimestampTz => Json::from(text::timestamp(i64::from_be_bytes(fixed(bytes)?), "Z")),
            Shape::Interval => {
                let mut reader = Reader(bytes);
                let (time, days, months) = (reader.i64()?, reader.i32()?, reader.i32()?);
                Json::from(text::interval(time, days, months))
            }
            Shape::Json => json(bytes)?,
            Shape::Jsonb => match bytes {
                [1, text @ ..] => json(text)?,
                _ => return Err(DecodeError::Malformed),
            },
            Shape::Bytea => Json::from(STANDARD.encode(bytes)),
            Shape::Inet => Json::from(text::inet(bytes, false).ok_or(DecodeError::Malformed)?),
            Shape::Cidr => Json::from(text::inet(bytes, true).ok_or(DecodeError::Malformed)?),
            Shape::MacAddress => Json::from(text::mac_address(bytes)),
            Shape::Array(element) => array(element, bytes)?,
        })
    }
}

fn fixed<const N: usize>(bytes: &[u8]) -> Result<[u8; N], DecodeError> {
    bytes.try_into().map_err(|_| DecodeError::Malformed)
}

fn utf8(bytes: &[u8]) -> Result<&str, DecodeError> {
    std::str::from_utf8(bytes).map_err(|_| DecodeError::NotUtf8)
}

fn json(bytes: &[u8]) -> Result<Json, DecodeError> {
    serde_json::from_slice(bytes).map_err(DecodeError::Json)
}

/// What JSON has no number for is text, as the server writes it.
fn float(value: f64, digits: &str) -> Result<Json, DecodeError> {
    if value.is_nan() {
        Ok(Json::from("NaN"))
    } else if value.is_infinite() {
        Ok(Json::from(if value > 0.0 { "Infinity" } else { "-Infinity" }))
    } else {
        number(digits)
    }
}

fn numeric(bytes: &[u8]) -> Result<Json, DecodeError> {
    let text = text::numeric(bytes).ok_or(DecodeError::Malformed)?;
    if text.ends_with(|last: char| last.is_ascii_digit()) { number(&text) } else { Ok(Json::from(text)) }
}

/// A JSON number of exactly these digits.
fn number(digits: &str) -> Result<Json, DecodeError> {
    serde_json::from_str(digits).map_err(|_| DecodeError::Malformed)
}

fn array(element: &Shape, bytes: &[u8]) -> Result<Json, DecodeError> {
    let mut reader = Reader(bytes);
    let (dimensions, _has_nulls, _element_type) = (reader.i32()?, reader.i32()?, reader.i32()?);
    let mut lengths = Vec::new();
    // The server allows six.
    for _ in 0..dimensions.clamp(0, 6) {
        let (length, _lower_bound) = (reader.i32()?, reader.i32()?);
        lengths.push(usize::try_from(length).map_err(|_| DecodeError::Malformed)?);
    }
    if lengths.is_empty() {
        return Ok(Json::Array(Vec::new()));
    }
    nested(element, &lengths, &mut reader)
}

fn nested(element: &Shape, lengths: &[usize], reader: &mut Reader) -> Result<Json, DecodeError> {
    let Some((length, inner)) = lengths.split_first() else {
        return match usize::try_from(reader.i32()?) {
            // Minus one stands for NULL.
            Err(_) => Ok(Json::Null),
            Ok(length) => element.decode(reader.bytes(length)?),
        };
    };
    (0..*length)
        .map(|_| nested(element, inner, reader))
        .collect::<Result<Vec<Json>, DecodeError>>()
        .map(Json::Array)
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn bytes(&mut self, length: usize) -> Result<&'a [u8], DecodeError> {
        let (head, tail) = self.0.split_at_checked(length).ok_or(DecodeError::Malformed)?;
        self.0 = tail;
        Ok(head)
    }

    fn i32(&mut self) -> Result<i32, DecodeError> {
        Ok(i32::from_be_bytes(fixed(self.bytes(4)?)?))
    }

    fn i64(&mut self) -> Result<i64, DecodeError> {
        Ok(i64::from_be_bytes(fixed(self.bytes(8)?)?))
    }
}
