//! `sqlite`: databases in files the extension may open.

use starlark::environment::GlobalsBuilder;
use starlark::eval::Evaluator;
use starlark::values::Value;
use starlark::values::none::NoneOr;
use starloom_builtins_macro::builtins;

use super::sql::sql_params;
use crate::context::perform_value;
use crate::effect::{Effect, SqlOperation};

fn run<'v>(path: &str, operation: SqlOperation, eval: &Evaluator<'v, '_, '_>) -> anyhow::Result<Value<'v>> {
    perform_value(eval, Effect::Sqlite { path: path.to_owned(), operation })
}

#[builtins]
pub(crate) fn register(globals: &mut GlobalsBuilder) {
    /// Runs a query on a database opened for reading and returns its rows as a list of dicts.
    ///
    /// Args:
    ///     db_path: the database file; it must be in the extension's `allowed_paths`, if it has any
    ///     query: one SQL statement
    ///     params: list for `?`, or dict for `:name`; lists and dicts inside are stored as JSON text
    fn query<'v>(
        db_path: &str,
        query: &str,
        #[starlark(default = NoneOr::None)] params: NoneOr<Value<'v>>,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> anyhow::Result<Value<'v>> {
        let params = sql_params("sqlite.query", params, eval)?;
        run(db_path, SqlOperation::Query { sql: query.to_owned(), params }, eval)
    }

    /// Runs a statement and returns the number of rows it changed. Creates the file when it is missing.
    ///
    /// Args:
    ///     db_path: the database file; it must be in the extension's `allowed_paths`, if it has any
    ///     statement: one SQL statement
    ///     params: list for `?`, or dict for `:name`; lists and dicts inside are stored as JSON text
    fn execute<'v>(
        db_path: &str,
        statement: &str,
        #[starlark(default = NoneOr::None)] params: NoneOr<Value<'v>>,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> anyhow::Result<Value<'v>> {
        let params = sql_params("sqlite.execute", params, eval)?;
        run(db_path, SqlOperation::Execute { sql: statement.to_owned(), params }, eval)
    }

    /// The tables of a database, ordered by name: a list of `{"name"}`.
    ///
    /// Args:
    ///     db_path: the database file
    fn list_tables<'v>(db_path: &str, eval: &mut Evaluator<'v, '_, '_>) -> anyhow::Result<Value<'v>> {
        run(db_path, SqlOperation::ListTables { schema: None }, eval)
    }

    /// The columns of a table: a list of `{"cid", "name", "type", "notnull", "dflt_value", "pk"}`.
    ///
    /// Args:
    ///     db_path: the database file
    ///     table_name: the table; one that does not exist has no columns
    fn describe_table<'v>(
        db_path: &str,
        table_name: &str,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> anyhow::Result<Value<'v>> {
        run(db_path, SqlOperation::DescribeTable { table: table_name.to_owned(), schema: None }, eval)
    }
}
