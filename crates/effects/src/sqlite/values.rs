//! Values on their way into and out of SQLite.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rusqlite::types::{Value, ValueRef};
use rusqlite::{Error, Statement};
use starloom_engine::{Json, JsonObject, SqlParams};

use crate::columns::distinct;

/// The database's own words, without the statement rusqlite may add to them.
pub(crate) fn reason(error: &Error) -> String {
    match error {
        Error::SqlInputError { msg, .. } => msg.clone(),
        error => error.to_string(),
    }
}

pub(super) fn bind(statement: &mut Statement, params: SqlParams) -> Result<(), String> {
    match params {
        SqlParams::Positional(values) => bind_positional(statement, &values),
        SqlParams::Named(values) => bind_named(statement, &values),
    }
}

fn bind_positional(statement: &mut Statement, values: &[Json]) -> Result<(), String> {
    let wanted = statement.parameter_count();
    if values.len() != wanted {
        return Err(format!("the statement has {wanted} parameters, and {} values were given", values.len()));
    }
    for (index, value) in (1..).zip(values) {
        let value = to_sql(value).map_err(|problem| format!("parameter {index}: {problem}"))?;
        statement.raw_bind_parameter(index, value).map_err(|error| reason(&error))?;
    }
    Ok(())
}

/// `{"name": …}` fills `:name`, `@name` and `$name`.
fn bind_named(statement: &mut Statement, values: &JsonObject) -> Result<(), String> {
    let names: Vec<Option<String>> = (1..=statement.parameter_count())
        .map(|index| statement.parameter_name(index).map(str::to_owned))
        .collect();
    for (index, name) in (1..).zip(&names) {
        let Some(name) = name.as_deref().filter(|name| !name.starts_with('?')) else {
            return Err(format!("parameter {index} has no name: give the values as a list"));
        };
        let value = values.get(&name[1..]).or_else(|| values.get(name));
        let value = value.ok_or_else(|| format!("there is no value for parameter `{name}`"))?;
        let value = to_sql(value).map_err(|problem| format!("parameter `{name}`: {problem}"))?;
        statement.raw_bind_parameter(index, value).map_err(|error| reason(&error))?;
    }
    let is_used = |key: &str| names.iter().flatten().any(|name| name == key || &name[1..] == key);
    match values.keys().find(|key| !is_used(key)) {
        Some(key) => Err(format!("the statement has no parameter for the value `{key}`")),
        None => Ok(()),
    }
}

fn to_sql(value: &Json) -> Result<Value, String> {
    Ok(match value {
        Json::Null => Value::Null,
        Json::Bool(value) => Value::Integer(i64::from(*value)),
        Json::String(text) => Value::Text(text.clone()),
        Json::Array(_) | Json::Object(_) => Value::Text(value.to_string()),
        Json::Number(number) => match number.as_i64() {
            Some(integer) => Value::Integer(integer),
            None if is_integer(number) => {
                return Err(format!("{number} does not fit into SQLite's 64-bit integers"));
            }
            None => Value::Real(number.as_f64().ok_or_else(|| format!("{number} is too large for a float"))?),
        },
    })
}

fn is_integer(number: &serde_json::Number) -> bool {
    number.to_string().bytes().all(|byte| byte.is_ascii_digit() || byte == b'-')
}

pub(super) fn rows(statement: &mut Statement, max_rows: usize, max_bytes: usize) -> Result<Json, String> {
    let columns = distinct(statement.column_names());
    let mut found = Vec::new();
    let mut bytes = 0;
    let mut rows = statement.raw_query();
    while let Some(row) = rows.next().map_err(|error| reason(&error))? {
        if found.len() == max_rows {
            return Err(format!("the query gives more than {max_rows} rows"));
        }
        let mut object = JsonObject::with_capacity(columns.len());
        for (index, column) in columns.iter().enumerate() {
            let value = row.get_ref(index).map_err(|error| reason(&error))?;
            bytes += column.len() + size_of_value(value);
            if bytes > max_bytes {
                return Err(format!("the query gives more than {max_bytes} bytes"));
            }
            object.insert(
                column.clone(),
                to_json(value).map_err(|problem| format!("column `{column}`: {problem}"))?,
            );
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

fn to_json(value: ValueRef<'_>) -> Result<Json, String> {
    Ok(match value {
        ValueRef::Null => Json::Null,
        ValueRef::Integer(integer) => Json::from(integer),
        ValueRef::Real(real) => serde_json::Number::from_f64(real)
            .map(Json::Number)
            .ok_or_else(|| format!("{real} has no JSON form"))?,
        ValueRef::Text(bytes) => Json::from(String::from_utf8_lossy(bytes)),
        ValueRef::Blob(bytes) => Json::from(STANDARD.encode(bytes)),
    })
}
