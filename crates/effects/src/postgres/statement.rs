//! One statement on one connection, from preparing it to leaving the connection as it was.

use std::time::Duration;

use futures_util::future::{join, try_join};
use futures_util::{StreamExt, pin_mut};
use starloom_engine::{Json, JsonObject};
use tokio_postgres::error::SqlState;
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Column};

use super::decode::{Raw, Shape};
use super::error::{PostgresError, Stage, type_name};
use super::params::{self, Param};
use crate::columns::distinct;

/// Undoes what a statement can do to its session. `DISCARD ALL` would also drop the driver's own
/// statements, and cannot be sent together with others.
const RESET: &str = "CLOSE ALL; SET SESSION AUTHORIZATION DEFAULT; RESET ALL; UNLISTEN *; \
     SELECT pg_catalog.pg_advisory_unlock_all(); DISCARD TEMP; DISCARD SEQUENCES";

pub(super) struct Statement {
    pub(super) sql: String,
    pub(super) params: Vec<Json>,
    pub(super) wanted: Wanted,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wanted {
    Rows,
    Count,
}

pub(super) struct Limits {
    pub(super) statement_timeout: Duration,
    pub(super) max_rows: usize,
    pub(super) max_bytes: usize,
}

pub(super) struct Done {
    pub(super) answer: Result<Json, PostgresError>,
    pub(super) after: After,
}

/// What the connection is good for afterwards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum After {
    /// Another statement.
    Clean,
    /// Nothing.
    Spent,
    /// The statement still runs.
    Busy,
}

/// A prepared statement with all that is needed to run it and read its rows.
struct Prepared {
    statement: tokio_postgres::Statement,
    params: Vec<Param>,
    columns: Vec<(String, Shape)>,
}

impl Statement {
    fn stage(&self) -> Stage {
        match self.wanted {
            Wanted::Rows => Stage::Query,
            Wanted::Count => Stage::Execute,
        }
    }

    pub(super) async fn run(&self, client: &Client, limits: &Limits) -> Done {
        let prepared = match self.prepare(client, limits).await {
            Ok(prepared) => prepared,
            Err(error) => {
                let spent = matches!(error, PostgresError::Lost { .. } | PostgresError::Derailed { .. });
                return Done { answer: Err(error), after: if spent { After::Spent } else { After::Clean } };
            }
        };
        // Both are sent at once and answered in order, so leaving the session clean costs no round trip.
        let work = async {
            match self.answer(client, &prepared, limits).await {
                // The server would go on sending rows nobody reads.
                Err(error @ (PostgresError::TooManyRows { .. } | PostgresError::TooManyBytes { .. })) => {
                    Err(error)
                }
                Err(PostgresError::Derailed { stage, .. })
                    if first_word(&self.sql).eq_ignore_ascii_case("COPY") =>
                {
                    let reason = "COPY can only read and write files of the server here".to_owned();
                    Err(PostgresError::Derailed { stage, reason })
                }
                Err(error @ PostgresError::Derailed { .. }) => Err(error),
                answer => Ok(answer),
            }
        };
        let reset = async { Ok(client.batch_execute(RESET).await) };
        match try_join(work, reset).await {
            Err(error) => Done { answer: Err(error), after: After::Busy },
            Ok((answer, reset)) => {
                let clean = reset.is_ok() && !outlives_reset(&self.sql);
                Done { answer, after: if clean { After::Clean } else { After::Spent } }
            }
        }
    }

    async fn prepare(&self, client: &Client, limits: &Limits) -> Result<Prepared, PostgresError> {
        let timeout = i32::try_from(limits.statement_timeout.as_millis()).unwrap_or(i32::MAX);
        let set = format!("SET statement_timeout = {timeout}");
        // Sent together, the setting first.
        let (set, prepared) = join(client.batch_execute(&set), client.prepare(&self.sql)).await;
        let failed = |error: tokio_postgres::Error| self.not_started(&error);
        set.map_err(failed)?;
        let mut statement = prepared.map_err(failed)?;
        let wanted = statement.params().to_vec();
        if wanted.len() != self.params.len() {
            return Err(PostgresError::ParamCount { wanted: wanted.len(), given: self.params.len() });
        }
        let params = params::encode(&self.params, &wanted)?;
        let mut columns = Vec::new();
        if self.wanted == Wanted::Rows {
            let names = distinct(statement.columns().iter().map(Column::name));
            if let Some(sql) = self.with_casts(statement.columns()) {
                statement = self.prepare_cast(client, &sql, &wanted, statement.columns()).await?;
            }
            let shapes = statement.columns().iter().map(|column| Shape::of(column.type_()));
            // After the casts there is none without a shape.
            columns = names.into_iter().zip(shapes.map(|shape| shape.unwrap_or(Shape::Text))).collect();
        }
        Ok(Prepared { statement, params, columns })
    }

    fn not_started(&self, error: &tokio_postgres::Error) -> PostgresError {
        let stage = self.stage();
        if error.is_closed() || error.code() == Some(&SqlState::ADMIN_SHUTDOWN) {
            return PostgresError::Lost { stage };
        }
        PostgresError::statement(stage, error)
    }

    /// The statement with columns whose binary form is not known here turned into text by the server.
    fn with_casts(&self, columns: &[Column]) -> Option<String> {
        if columns.iter().all(|column| Shape::of(column.type_()).is_some()) {
            return None;
        }
        let names: Vec<String> = (1..=columns.len()).map(|number| format!("c{number}")).collect();
        let casts: Vec<String> = columns
            .iter()
            .zip(&names)
            .map(|(column, name)| match (Shape::of(column.type_()), is_array(column.type_())) {
                (Some(_), _) => name.clone(),
                (None, true) => format!("{name}::text[]"),
                (None, false) => format!("{name}::text"),
            })
            .collect();
        let sql = self.sql.trim_end().trim_end_matches(';');
        Some(format!(
            "WITH starloom({}) AS (\n{sql}\n) SELECT {} FROM starloom",
            names.join(", "),
            casts.join(", ")
        ))
    }

    async fn prepare_cast(
        &self,
        client: &Client,
        sql: &str,
        types: &[Type],
        columns: &[Column],
    ) -> Result<tokio_postgres::Statement, PostgresError> {
        client.prepare_typed(sql, types).await.map_err(|error| {
            let odd = columns.iter().find(|column| Shape::of(column.type_()).is_none());
            match odd.filter(|_| !error.is_closed()) {
                Some(column) => PostgresError::Column {
                    column: column.name().to_owned(),
                    problem: format!(
                        "a value of type {} cannot be read here: cast it to text in the statement",
                        type_name(column.type_())
                    ),
                },
                None => self.not_started(&error),
            }
        })
    }

    async fn answer(
        &self,
        client: &Client,
        prepared: &Prepared,
        limits: &Limits,
    ) -> Result<Json, PostgresError> {
        let types = prepared.statement.params();
        let failed = |error: tokio_postgres::Error| PostgresError::bound(self.stage(), &error, types);
        if self.wanted == Wanted::Count {
            let changed = client.execute_raw(&prepared.statement, &prepared.params).await.map_err(failed)?;
            return Ok(Json::from(changed));
        }
        let rows = client.query_raw(&prepared.statement, &prepared.params).await.map_err(failed)?;
        pin_mut!(rows);
        let mut found = Vec::new();
        let mut bytes = 0;
        let mut problem = None;
        while let Some(row) = rows.next().await {
            let row = row.map_err(failed)?;
            // After a value that cannot be read the rest is only drained.
            if problem.is_some() {
                continue;
            }
            if found.len() == limits.max_rows {
                return Err(PostgresError::TooManyRows { limit: limits.max_rows });
            }
            bytes += row.raw_size_bytes();
            if bytes > limits.max_bytes {
                return Err(PostgresError::TooManyBytes { limit: limits.max_bytes });
            }
            match decode(&row, &prepared.columns) {
                Ok(object) => found.push(object),
                Err(error) => problem = Some(error),
            }
        }
        problem.map_or(Ok(Json::Array(found)), Err)
    }
}

fn decode(row: &tokio_postgres::Row, columns: &[(String, Shape)]) -> Result<Json, PostgresError> {
    let mut object = JsonObject::with_capacity(columns.len());
    for (index, (name, shape)) in columns.iter().enumerate() {
        let failed = |problem: String| PostgresError::Column { column: name.clone(), problem };
        let raw: Raw = row.try_get(index).map_err(|error| failed(error.to_string()))?;
        let value = match raw.0 {
            Some(bytes) => shape.decode(bytes).map_err(|error| failed(error.to_string()))?,
            None => Json::Null,
        };
        object.insert(name.clone(), value);
    }
    Ok(Json::Object(object))
}

fn is_array(column: &Type) -> bool {
    matches!(column.kind(), tokio_postgres::types::Kind::Array(_))
}

/// Whether the statement leaves something that [`RESET`] does not undo: an open transaction, a
/// prepared statement.
fn outlives_reset(sql: &str) -> bool {
    ["BEGIN", "START", "PREPARE"].iter().any(|keyword| first_word(sql).eq_ignore_ascii_case(keyword))
}

/// The first word after white space and comments.
fn first_word(sql: &str) -> &str {
    let mut rest = sql.trim_start();
    loop {
        rest = if rest.starts_with("--") {
            rest.split_once('\n').map_or("", |(_, after)| after).trim_start()
        } else if rest.starts_with("/*") {
            after_comment(rest).trim_start()
        } else {
            return rest.split(|c: char| !c.is_ascii_alphabetic()).next().unwrap_or("");
        };
    }
}

/// Comments nest in PostgreSQL.
fn after_comment(text: &str) -> &str {
    let mut depth = 0;
    let mut at = 0;
    while let Some(found) = text[at..].find(['/', '*']) {
        at += found;
        let step = match text.as_bytes().get(at..at + 2) {
            Some(b"/*") => 1,
            Some(b"*/") => -1,
            _ => 0,
        };
        depth += step;
        at += if step == 0 { 1 } else { 2 };
        if depth == 0 {
            return &text[at..];
        }
    }
    ""
}

#[cfg(test)]
mod tests {
    use super::first_word;

    #[test]
    fn first_words() {
        for (sql, word) in [
            ("begin", "begin"),
            ("  -- x\n BEGIN;", "BEGIN"),
            ("/* a /* b */ * / c */START TRANSACTION", "START"),
            ("/**/select 1", "select"),
            ("-- only", ""),
            ("/* open", ""),
            ("", ""),
        ] {
            assert_eq!(first_word(sql), word, "{sql}");
        }
    }
}
