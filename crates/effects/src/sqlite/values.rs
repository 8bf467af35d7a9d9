//! Values on their way into and out of SQLite.

use std::fmt::Display;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rusqlite::types::{Value, ValueRef};
use rusqlite::{Error, Statement};
use serde_json::Number;
use starloom_engine::{Json, JsonObject, SqlParams};

use crate::columns::distinct;

/// Why a value cannot go in or come out.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ValueError {
    #[error("the statement has {wanted} parameters, and {given} values were given")]
    Count { wanted: usize, given: usize },
    #[error("parameter {index} has no name: give the values as a list")]
    Unnamed { index: usize },
    #[error("there is no value for parameter `{name}`")]
    Missing { name: String },
    #[error("the statement has no parameter for the value `{key}`")]
    Unused { key: String },
    #[error("parameter {place}: {number} does not fit into SQLite's 64-bit integers")]
    IntegerTooLarge { place: String, number: Number },
    #[error("parameter {place}: {number} is too large for a float")]
    FloatTooLarge { place: String, number: Number },
    #[error("column `{column}`: {value} has no JSON form")]
    NotFinite { column: String, value: f64 },
    #[error("the query gives more than {limit} rows")]
    TooManyRows { limit: usize },
    #[error("the query gives more than {limit} bytes")]
    TooManyBytes { limit: usize },
    #[error("{}", reason(.0))]
    Sqlite(#[from] Error),
}

/// The database's own words, without the statement rusqlite may add to them.
pub(crate) fn reason(error: &Error) -> String {
    match error {
        Error::SqlInputError { msg, .. } => msg.clone(),
        error => error.to_string(),
    }
}

pub(super) fn bind(statement: &mut Statement, params: SqlParams) -> Result<(), ValueError> {
    match params {
        SqlParams::Positional(values) => bind_positional(statement, &values),
        SqlParams::Named(values) => bind_named(statement, &values),
    }
}

fn bind_positional(statement: &mut Statement, values: &[Json]) -> Result<(), ValueError> {
    let wanted = statement.parameter_count();
    if values.len() != wanted {
        return Err(ValueError::Count { wanted, given: values.len() });
    }
    for (index, value) in (1..).zip(values) {
        statement.raw_bind_parameter(index, to_sql(value, &index)?)?;
    }
    Ok(())
}

/// `{"name": …}` fills `:name`, `@name` and `$name`.
fn bind_named(statement: &mut Statement, values: &JsonObject) -> Result<(), ValueError> {
    let names: Vec<Option<String>> = (1..=statement.parameter_count())
        .map(|index| statement.parameter_name(index).map(str::to_owned))
        .collect();
    for (index, name) in (1..).zip(&names) {
        let Some(name) = name.as_deref().filter(|name| !name.starts_with('?')) else {
            return Err(ValueError::Unnamed { index });
        };
        let value = values.get(&name[1..]).or_else(|| values.get(name));
        let value = value.ok_or_else(|| ValueError::Missing { name: name.to_owned() })?;
        statement.raw_bind_parameter(index, to_sql(value, &format_args!("`{name}`"))?)?;
    }
    let is_used = |key: &str| names.iter().flatten().any(|name| name == key || &name[1..] == key);
    match values.keys().find(|key| !is_used(key)) {
        Some(key) => Err(ValueError::Unused { key: key.clone() }),
        None => Ok(()),
    }
}

fn to_sql(value: &Json, place: &dyn Display) -> Result<Value, ValueError> {
    Ok(match value {
        Json::Null => Value::Null,
        Json::Bool(value) => Value::Integer(i64::from(*value)),
        Json::String(text) => Value::Text(text.clone()),
        Json::Array(_) | Json::Object(_) => Value::Text(value.to_string()),
        Json::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(integer), _) => Value::Integer(integer),
            (None, _) if is_integer(number) => {
                return Err(ValueError::IntegerTooLarge { place: place.to_string(), number: number.clone() });
            }
            (None, Some(float)) => Value::Real(float),
            (None, None) => {
                return Err(ValueError::FloatTooLarge { place: place.to_string(), number: number.clone() });
            }
        },
    })
}

fn is_integer(number: &Number) -> bool {
    number.to_string().bytes().all(|byte| byte.is_ascii_digit() || byte == b'-')
}

pub(super) fn rows(statement: &mut Statement, max_rows: usize, max_bytes: usize) -> Result<Json, ValueError> {
    let columns = distinct(statement.column_names());
    let mut found = Vec::new();
    let mut bytes = 0;
    let mut rows = statement.raw_query();
    while let Some(row) = rows.next()? {
        if found.len() == max_rows {
            return Err(ValueError::TooManyRows { limit: max_rows });
        }
        let mut object = JsonObject::with_capacity(columns.len());
        for (index, column) in columns.iter().enumerate() {
            let value = row.get_ref(index)?;
            bytes += column.len() + size_of_value(value);
            if bytes > max_bytes {
                return Err(ValueError::TooManyBytes { limit: max_bytes });
            }
            object.insert(column.clone(), to_json(value, column)?);
        }
        found.push(Json::Object(object));
    }
    Ok(Json::Array(found))
}

fn size_of_value(value: ValueRef<'_>) -> usize {
    match value {
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => bytes.len(),
        _ => size_of::<i64>(),
    }
}

fn to_json(value: ValueRef<'_>, column: &str) -> Result<Json, ValueError> {
    Ok(match value {
        ValueRef::Null => Json::Null,
        ValueRef::Integer(integer) => Json::from(integer),
        ValueRef::Real(real) => match Number::from_f64(real) {
            Some(number) => Json::Number(number),
            None => return Err(ValueError::NotFinite { column: column.to_owned(), value: real }),
        },
        ValueRef::Text(bytes) => Json::from(String::from_utf8_lossy(bytes)),
        ValueRef::Blob(bytes) => Json::from(STANDARD.encode(bytes)),
    })
}
