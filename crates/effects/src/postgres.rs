//! PostgreSQL.

mod decode;
mod error;
mod params;
mod pool;
mod statement;
mod target;
mod text;

use std::time::Duration;

use starloom_engine::{EffectError, Json, SqlOperation, SqlParams};

pub(crate) use self::pool::Pools;

use self::error::PostgresError;
use self::statement::{Limits, Statement, Wanted};
use self::target::Target;
use crate::Scope;
use crate::scope::timeout_from;

const LIST_TABLES: &str =
    "SELECT tablename::text FROM pg_catalog.pg_tables WHERE schemaname = $1 ORDER BY tablename";
const DESCRIBE_TABLE: &str = "SELECT column_name::text, data_type::text, is_nullable::text, \
     column_default::text, character_maximum_length::int4 FROM information_schema.columns \
     WHERE table_schema = $1 AND table_name = $2 ORDER BY ordinal_position";

/// How much later than us the server gives up by itself, should our word to it get lost.
const SERVER_SLACK: Duration = Duration::from_millis(500);

#[inline(never)]
pub(crate) fn run(
    scope: &Scope,
    connection: &str,
    operation: SqlOperation,
    timeout: Option<f64>,
) -> Result<Json, EffectError> {
    let timeout = timeout_from(timeout, Duration::MAX)?;
    let target = Target::parse(connection)?;
    let label = target.label.clone();
    perform(scope, connection, target, operation, timeout).map_err(|error| match error {
        PostgresError::Stopped => EffectError::Stopped,
        error => EffectError::Failed(format!("PostgreSQL operation failed ({label}): {error}")),
    })
}

fn perform(
    scope: &Scope,
    connection: &str,
    target: Target,
    operation: SqlOperation,
    timeout: Duration,
) -> Result<Json, PostgresError> {
    let statement = to_statement(operation)?;
    let pool = scope.services.postgres.get(scope, connection, target)?;
    let options = &scope.services.options;
    let limits = Limits {
        statement_timeout: timeout.min(scope.stop.remaining()) + SERVER_SLACK,
        max_rows: options.max_rows,
        max_bytes: options.max_result_bytes,
    };
    match scope.wait_at_most(timeout, pool::run(&pool, scope.runtime, &statement, &limits)) {
        Ok(Some(answer)) => answer,
        Ok(None) => Err(PostgresError::TimedOut { timeout }),
        Err(_) => Err(PostgresError::Stopped),
    }
}

fn to_statement(operation: SqlOperation) -> Result<Statement, PostgresError> {
    let schema = |schema: Option<String>| Json::from(schema.unwrap_or_else(|| "public".to_owned()));
    Ok(match operation {
        SqlOperation::Query { sql, params } => {
            Statement { sql, params: positional(params)?, wanted: Wanted::Rows }
        }
        SqlOperation::Execute { sql, params } => {
            Statement { sql, params: positional(params)?, wanted: Wanted::Count }
        }
        SqlOperation::ListTables { schema: name } => {
            Statement { sql: LIST_TABLES.to_owned(), params: vec![schema(name)], wanted: Wanted::Rows }
        }
        SqlOperation::DescribeTable { table, schema: name } => Statement {
            sql: DESCRIBE_TABLE.to_owned(),
            params: vec![schema(name), Json::from(table)],
            wanted: Wanted::Rows,
        },
    })
}

fn positional(params: SqlParams) -> Result<Vec<Json>, PostgresError> {
    match params {
        SqlParams::Positional(values) => Ok(values),
        SqlParams::Named(values) if values.is_empty() => Ok(Vec::new()),
        SqlParams::Named(_) => Err(PostgresError::NamedParams),
    }
}
