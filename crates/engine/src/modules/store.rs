//! `store`: values that outlive a call, shared by the calls of one source.

use starlark::environment::GlobalsBuilder;
use starlark::eval::Evaluator;
use starlark::values::float::UnpackFloat;
use starlark::values::none::{NoneOr, NoneType};
use starlark::values::{UnpackValue, Value};
use starloom_builtins_macro::builtins;

use super::arguments::seconds;
use crate::Json;
use crate::context::{argument_json, perform, perform_value};
use crate::effect::{Effect, StoreOperation};

fn ask(eval: &Evaluator, operation: StoreOperation) -> anyhow::Result<Json> {
    perform(eval, Effect::Store(operation))
}

fn yes_or_no(function: &str, answer: Json) -> anyhow::Result<bool> {
    answer.as_bool().ok_or_else(|| anyhow::anyhow!("store.{function}: the host gave no yes or no"))
}

fn checked_key(function: &str, key: &str) -> anyhow::Result<String> {
    anyhow::ensure!(!key.is_empty(), "store.{function}: the key must not be empty");
    Ok(key.to_owned())
}

#[builtins]
pub(crate) fn register(globals: &mut GlobalsBuilder) {
    /// The value kept under a key, or `default` when there is none.
    ///
    /// Args:
    ///     key: the name it was kept under
    ///     default: returned when there is no value, or when it has expired
    fn get<'v>(
        key: &str,
        #[starlark(default = NoneOr::None)] default: NoneOr<Value<'v>>,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> anyhow::Result<Value<'v>> {
        let key = checked_key("get", key)?;
        let value = perform_value(eval, Effect::Store(StoreOperation::Get { key }))?;
        Ok(if value.is_none() { default.into_option().unwrap_or(value) } else { value })
    }

    /// Keeps a value under a key.
    ///
    /// Args:
    ///     key: the name to keep it under
    ///     value: anything JSON can hold; `None` is the same as no value
    ///     ttl: seconds after which it is forgotten; without it, never
    fn set<'v>(
        key: &str,
        value: Value<'v>,
        #[starlark(default = NoneOr::None)] ttl: NoneOr<UnpackFloat>,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> anyhow::Result<NoneType> {
        let key = checked_key("set", key)?;
        let ttl = seconds("store.set: ttl", ttl)?;
        let value = argument_json("store.set: value", value, eval)?;
        ask(eval, StoreOperation::Set { key, value, ttl })?;
        Ok(NoneType)
    }

    /// Forgets a key and returns whether there was something to forget.
    ///
    /// Args:
    ///     key: the name it was kept under
    fn delete<'v>(key: &str, eval: &mut Evaluator<'v, '_, '_>) -> anyhow::Result<bool> {
        let key = checked_key("delete", key)?;
        yes_or_no("delete", ask(eval, StoreOperation::Delete { key })?)
    }

    /// The keys that have a value, in order.
    ///
    /// Args:
    ///     prefix: what they begin with
    fn keys<'v>(
        #[starlark(default = "")] prefix: &str,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> anyhow::Result<Value<'v>> {
        perform_value(eval, Effect::Store(StoreOperation::Keys { prefix: prefix.to_owned() }))
    }

    /// Adds to an integer in one step and returns the new value. Two calls at once never lose one.
    ///
    /// Args:
    ///     key: the name it is kept under; a missing one counts from 0
    ///     by: what to add; negative to subtract
    ///     ttl: seconds after which it is forgotten
    fn increment<'v>(
        key: &str,
        #[starlark(default = 1)] by: i64,
        #[starlark(default = NoneOr::None)] ttl: NoneOr<UnpackFloat>,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> anyhow::Result<Value<'v>> {
        let key = checked_key("increment", key)?;
        let ttl = seconds("store.increment: ttl", ttl)?;
        let value = perform_value(eval, Effect::Store(StoreOperation::Increment { key, by, ttl }))?;
        match num_bigint::BigInt::unpack_value(value) {
            Ok(Some(_)) => Ok(value),
            _ => anyhow::bail!("store.increment: the host gave no integer"),
        }
    }

    /// Keeps a value only if the present one is as expected. Returns whether it did.
    ///
    /// Args:
    ///     key: the name it is kept under
    ///     expected: the value that must be there now; `None` for no value
    ///     value: the value to keep
    fn compare_and_set<'v>(
        key: &str,
        expected: Value<'v>,
        value: Value<'v>,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> anyhow::Result<bool> {
        let key = checked_key("compare_and_set", key)?;
        let expected = argument_json("store.compare_and_set: expected", expected, eval)?;
        let value = argument_json("store.compare_and_set: value", value, eval)?;
        let answer = ask(eval, StoreOperation::CompareAndSet { key, expected, value })?;
        yes_or_no("compare_and_set", answer)
    }
}
