//! SQLite files.

pub(crate) mod connections;
pub(crate) mod guard;
mod values;

use rusqlite::fallible_iterator::FallibleIterator;
use rusqlite::{Batch, Connection, Statement};
use starloom_engine::{EffectError, Json, SqlOperation, SqlParams};

pub(crate) use self::connections::Connections;
use self::connections::{Access, Database, OpenError};
use self::guard::Guarded;
use self::values::ValueError;
use crate::Scope;

const LIST_TABLES: &str = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name";
const DESCRIBE_TABLE: &str = "SELECT cid, name, type, \"notnull\", dflt_value, pk FROM pragma_table_info(?1)";

#[derive(Debug, thiserror::Error)]
pub(crate) enum SqliteError {
    #[error("Failed to open SQLite database: {0}")]
    Open(#[from] OpenError),
    #[error("Failed to prepare query: {0}")]
    Prepare(PrepareError),
    #[error("Query execution failed: {0}")]
    Query(ValueError),
    #[error("Query execution failed: SQLite has no schema {schema:?}: leave `schema` out")]
    Schema { schema: String },
    #[error("Failed to fetch row: {0}")]
    Row(ValueError),
    #[error("Statement execution failed: {0}")]
    PrepareExecute(PrepareError),
    #[error("Statement execution failed: {0}")]
    Execute(ValueError),
    #[error("Statement execution failed: Execute returned results - did you mean to call query?")]
    ReturnsRows,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum PrepareError {
    #[error("there is no statement")]
    Nothing,
    #[error("more than one statement: run them one by one")]
    Several,
    #[error("{}", values::reason(.0))]
    Sqlite(rusqlite::Error),
}

impl From<SqliteError> for EffectError {
    fn from(error: SqliteError) -> EffectError {
        EffectError::Failed(error.to_string())
    }
}

#[inline(never)]
pub(crate) fn run(scope: &Scope, path: &str, operation: SqlOperation) -> Result<Json, EffectError> {
    let access = match operation {
        SqlOperation::Execute { .. } => Access::Write,
        _ => Access::Read,
    };
    let database = Database::locate(scope.grants, path).map_err(SqliteError::from)?;
    let lent = scope.services.sqlite.take(&database, access).map_err(SqliteError::from)?;
    let guarded = Guarded::new(lent, scope).map_err(OpenError::from).map_err(SqliteError::from)?;
    let outcome = perform(guarded.connection(), scope, operation);
    let (lent, refused, reusable) = guarded.release();
    if reusable {
        scope.services.sqlite.give_back(&database, access, lent);
    }
    match outcome {
        Ok(answer) => Ok(answer),
        Err(_) if scope.is_stopped() => Err(EffectError::Stopped),
        Err(error) => Err(refused.map_or_else(|| error.into(), EffectError::from)),
    }
}

fn perform(connection: &Connection, scope: &Scope, operation: SqlOperation) -> Result<Json, SqliteError> {
    match operation {
        SqlOperation::Query { sql, params } => query(connection, scope, &sql, params),
        SqlOperation::Execute { sql, params } => execute(connection, &sql, params),
        SqlOperation::ListTables { schema: None } => {
            query(connection, scope, LIST_TABLES, SqlParams::Positional(Vec::new()))
        }
        SqlOperation::DescribeTable { table, schema: None } => {
            query(connection, scope, DESCRIBE_TABLE, SqlParams::Positional(vec![Json::from(table)]))
        }
        SqlOperation::ListTables { schema: Some(schema) }
        | SqlOperation::DescribeTable { schema: Some(schema), .. } => Err(SqliteError::Schema { schema }),
    }
}

fn query(connection: &Connection, scope: &Scope, sql: &str, params: SqlParams) -> Result<Json, SqliteError> {
    let mut statement = prepare(connection, sql).map_err(SqliteError::Prepare)?;
    values::bind(&mut statement, params).map_err(SqliteError::Query)?;
    let options = &scope.services.options;
    values::rows(&mut statement, options.max_rows, options.max_result_bytes).map_err(SqliteError::Row)
}

fn execute(connection: &Connection, sql: &str, params: SqlParams) -> Result<Json, SqliteError> {
    let mut statement = prepare(connection, sql).map_err(SqliteError::PrepareExecute)?;
    // Asked before the first step: a statement that both writes and answers has written by then.
    if statement.column_count() > 0 && statement.readonly() {
        return Err(SqliteError::ReturnsRows);
    }
    values::bind(&mut statement, params).map_err(SqliteError::Execute)?;
    let before = connection.total_changes();
    let failed = |error: rusqlite::Error| SqliteError::Execute(error.into());
    let mut rows = statement.raw_query();
    while rows.next().map_err(failed)?.is_some() {}
    drop(rows);
    // `changes` is of the last statement that could change rows, which need not be this one.
    let changed = if connection.total_changes() == before { 0 } else { connection.changes() };
    Ok(Json::from(changed))
}

/// One statement, and no more: what came after it would silently be left out.
fn prepare<'a>(connection: &'a Connection, sql: &str) -> Result<Statement<'a>, PrepareError> {
    let mut batch = Batch::new(connection, sql);
    let statement = batch.next().map_err(PrepareError::Sqlite)?.ok_or(PrepareError::Nothing)?;
    // A second one that does not even compile, such as one that needs the first, is also a second one.
    match batch.next() {
        Ok(None) => Ok(statement),
        _ => Err(PrepareError::Several),
    }
}
