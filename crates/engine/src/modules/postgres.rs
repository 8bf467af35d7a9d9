//! `postgres`: databases on servers the extension may reach.

use starlark::environment::GlobalsBuilder;
use starlark::eval::Evaluator;
use starlark::values::Value;
use starlark::values::float::UnpackFloat;
use starlark::values::none::NoneOr;
use starloom_builtins_macro::builtins;

use super::arguments::seconds;
use super::sql::sql_params;
use crate::context::perform_value;
use crate::effect::{Effect, SqlOperation, SqlParams};

fn run<'v>(
    connection: &str,
    operation: SqlOperation,
    timeout: Option<f64>,
    eval: &Evaluator<'v, '_, '_>,
) -> anyhow::Result<Value<'v>> {
    perform_value(eval, Effect::Postgres { connection: connection.to_owned(), operation, timeout })
}

fn positional<'v>(
    function: &str,
    params: NoneOr<Value<'v>>,
    eval: &Evaluator<'v, '_, '_>,
) -> anyhow::Result<SqlParams> {
    match sql_params(function, params, eval)? {
        SqlParams::Named(_) => {
            anyhow::bail!(
                "{function}: Postgres has no named parameters; use `$1`, `$2` and a list, got: dict"
            )
        }
        positional => Ok(positional),
    }
}

#[builtins]
pub(crate) fn register(globals: &mut GlobalsBuilder) {
    /// Runs a query and returns its rows as a list of dicts.
    ///
    /// Args:
    ///     connection_string: `postgresql://user:password@host:5432/database`, or `host=… user=…`
    ///     query: one SQL statement
    ///     params: list for `$1`, `$2` and so on; lists and dicts inside are sent as JSON
    ///     timeout: seconds the statement may take
    fn query<'v>(
        connection_string: &str,
        query: &str,
        #[starlark(default = NoneOr::None)] params: NoneOr<Value<'v>>,
        #[starlark(require = named, default = NoneOr::None)] timeout: NoneOr<UnpackFloat>,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> anyhow::Result<Value<'v>> {
        let params = positional("postgres.query", params, eval)?;
        let timeout = seconds("postgres.query: timeout", timeout)?;
        run(connection_string, SqlOperation::Query { sql: query.to_owned(), params }, timeout, eval)
    }

    /// Runs a statement and returns the number of rows it changed.
    ///
    /// Args:
    ///     connection_string: `postgresql://user:password@host:5432/database`, or `host=… user=…`
    ///     statement: one SQL statement
    ///     params: list for `$1`, `$2` and so on; lists and dicts inside are sent as JSON
    ///     timeout: seconds the statement may take
    fn execute<'v>(
        connection_string: &str,
        statement: &str,
        #[starlark(default = NoneOr::None)] params: NoneOr<Value<'v>>,
        #[starlark(require = named, default = NoneOr::None)] timeout: NoneOr<UnpackFloat>,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> anyhow::Result<Value<'v>> {
        let params = positional("postgres.execute", params, eval)?;
        let timeout = seconds("postgres.execute: timeout", timeout)?;
        run(connection_string, SqlOperation::Execute { sql: statement.to_owned(), params }, timeout, eval)
    }

    /// The tables of a schema: a list of `{"tablename"}`.
    ///
    /// Args:
    ///     connection_string: `postgresql://user:password@host:5432/database`, or `host=… user=…`
    ///     schema: the schema to look into
    fn list_tables<'v>(
        connection_string: &str,
        #[starlark(default = "public")] schema: &str,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> anyhow::Result<Value<'v>> {
        run(connection_string, SqlOperation::ListTables { schema: Some(schema.to_owned()) }, None, eval)
    }

    /// The columns of a table, in order.
    ///
    /// Returns a list of `{"column_name", "data_type", "is_nullable", "column_default",
    /// "character_maximum_length"}`.
    ///
    /// Args:
    ///     connection_string: `postgresql://user:password@host:5432/database`, or `host=… user=…`
    ///     table_name: the table
    ///     schema: the schema it is in
    fn describe_table<'v>(
        connection_string: &str,
        table_name: &str,
        #[starlark(default = "public")] schema: &str,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> anyhow::Result<Value<'v>> {
        let operation =
            SqlOperation::DescribeTable { table: table_name.to_owned(), schema: Some(schema.to_owned()) };
        run(connection_string, operation, None, eval)
    }
}
