//! What can go wrong with a database, told without secrets.

use std::error::Error;
use std::time::Duration;

use tokio_postgres::error::DbError;
use tokio_postgres::types::Type;

use crate::grants::Denied;
use crate::resolve::ResolveError;
use crate::tls::TlsError;

#[derive(Debug, thiserror::Error)]
pub(super) enum PostgresError {
    #[error("{0}")]
    Denied(#[from] Denied),
    #[error("Failed to connect to PostgreSQL: {0}")]
    Connect(String),
    #[error("{stage}: {reason}")]
    Statement { stage: Stage, reason: String },
    #[error("PostgreSQL parameters are positional: write $1, $2, … and give the values as a list")]
    NamedParams,
    #[error("the statement has {wanted} parameters, and {given} values were given")]
    ParamCount { wanted: usize, given: usize },
    #[error("${place} needs {}: {problem}", type_name(wanted))]
    Param { place: String, wanted: Type, problem: String },
    #[error("column `{column}`: {problem}")]
    Column { column: String, problem: String },
    #[error("the query gives more than {limit} rows")]
    TooManyRows { limit: usize },
    #[error("the query gives more than {limit} bytes")]
    TooManyBytes { limit: usize },
    #[error("timed out after {} s", timeout.as_secs_f64())]
    TimedOut { timeout: Duration },
    /// Not the server's word: nobody knows what the connection will bring next.
    #[error("{stage}: {reason}")]
    Derailed { stage: Stage, reason: String },
    #[error("the call was stopped")]
    Stopped,
    /// Nothing has been done yet, and another connection may be better.
    #[error("{stage}: the connection was lost")]
    Lost { stage: Stage },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    Query,
    Execute,
}

impl std::fmt::Display for Stage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Stage::Query => "Query execution failed",
            Stage::Execute => "Statement execution failed",
        })
    }
}

impl From<ResolveError> for PostgresError {
    fn from(error: ResolveError) -> PostgresError {
        PostgresError::Connect(error.to_string())
    }
}

impl From<TlsError> for PostgresError {
    fn from(error: TlsError) -> PostgresError {
        PostgresError::Connect(error.to_string())
    }
}

impl PostgresError {
    pub(super) fn connect(error: &tokio_postgres::Error) -> PostgresError {
        PostgresError::Connect(reason(error))
    }

    pub(super) fn statement(stage: Stage, error: &tokio_postgres::Error) -> PostgresError {
        let reason = reason(error);
        match error.as_db_error() {
            Some(_) => PostgresError::Statement { stage, reason },
            None => PostgresError::Derailed { stage, reason },
        }
    }

    /// As [`PostgresError::statement`], and tells which parameter the server stumbled over.
    pub(super) fn bound(stage: Stage, error: &tokio_postgres::Error, types: &[Type]) -> PostgresError {
        match error.as_db_error().and_then(|server| parameter(server, types)) {
            Some((number, wanted)) => {
                let problem = format!("{stage}: {}", reason(error));
                PostgresError::Param { place: number.to_string(), wanted, problem }
            }
            None => PostgresError::statement(stage, error),
        }
    }
}

/// The server's context for a bad parameter reads `unnamed portal parameter $1 = '…'`.
fn parameter(error: &DbError, types: &[Type]) -> Option<(usize, Type)> {
    let (_, after) = error.where_()?.split_once("portal parameter $")?;
    let digits: String = after.chars().take_while(char::is_ascii_digit).collect();
    let number: usize = digits.parse().ok()?;
    let wanted = types.get(number.checked_sub(1)?)?.clone();
    Some((number, wanted))
}

fn reason(error: &tokio_postgres::Error) -> String {
    let text = match error.as_db_error() {
        Some(error) => server_reason(error),
        None => {
            let mut cause: &dyn Error = error;
            while let Some(next) = cause.source() {
                cause = next;
            }
            cause.to_string()
        }
    };
    text.replace(['\n', '\r'], " ")
}

fn server_reason(error: &DbError) -> String {
    let mut text = format!("{} (SQLSTATE {})", error.message(), error.code().code());
    if let Some(detail) = error.detail() {
        text.push_str(&format!("; detail: {detail}"));
    }
    if let Some(hint) = error.hint() {
        text.push_str(&format!("; hint: {hint}"));
    }
    text
}

/// As people write it: `int4[]` rather than `_int4`.
pub(super) fn type_name(wanted: &Type) -> String {
    match wanted.kind() {
        tokio_postgres::types::Kind::Array(element) => format!("{}[]", type_name(element)),
        _ => wanted.name().to_owned(),
    }
}
