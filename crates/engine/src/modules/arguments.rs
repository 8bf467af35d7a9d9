//! What several modules ask of their arguments.

use num_bigint::BigInt;
use starlark::typing::Ty;
use starlark::values::bytes::StarlarkBytes;
use starlark::values::dict::DictRef;
use starlark::values::float::{StarlarkFloat, UnpackFloat};
use starlark::values::list::ListRef;
use starlark::values::none::NoneOr;
use starlark::values::tuple::TupleRef;
use starlark::values::type_repr::StarlarkTypeRepr;
use starlark::values::{UnpackValue, Value, ValueLike};

use crate::builtins::printable;

/// A number that is still what the script wrote: an integer of any size, or a float.
pub(super) enum Number {
    Int(BigInt),
    Float(f64),
}

impl StarlarkTypeRepr for Number {
    type Canonical = <UnpackFloat as StarlarkTypeRepr>::Canonical;

    fn starlark_type_repr() -> Ty {
        UnpackFloat::starlark_type_repr()
    }
}

impl<'v> UnpackValue<'v> for Number {
    type Error = <BigInt as UnpackValue<'v>>::Error;

    fn unpack_value_impl(value: Value<'v>) -> Result<Option<Number>, Self::Error> {
        if let Some(float) = value.downcast_ref::<StarlarkFloat>() {
            return Ok(Some(Number::Float(float.0)));
        }
        Ok(BigInt::unpack_value_impl(value)?.map(Number::Int))
    }
}

/// The bytes of a string (its UTF-8) or of a `bytes` value.
pub(super) fn bytes_of<'v>(what: &str, value: Value<'v>) -> anyhow::Result<&'v [u8]> {
    if let Some(text) = value.unpack_str() {
        return Ok(text.as_bytes());
    }
    match value.downcast_ref::<StarlarkBytes>() {
        Some(bytes) => Ok(bytes.as_bytes()),
        None => anyhow::bail!("{what} must be a string or bytes, got: {}", value.get_type()),
    }
}

/// A number of seconds that makes sense as a timeout or a lifetime.
pub(super) fn seconds(what: &str, value: NoneOr<UnpackFloat>) -> anyhow::Result<Option<f64>> {
    match value.into_option() {
        Some(UnpackFloat(seconds)) if seconds.is_finite() && seconds > 0.0 => Ok(Some(seconds)),
        Some(_) => anyhow::bail!("{what} must be a positive number of seconds"),
        None => Ok(None),
    }
}

/// The entries of a dict as texts. A list repeats its key, `None` leaves it out.
pub(super) fn pairs(what: &str, value: NoneOr<Value>) -> anyhow::Result<Vec<(String, String)>> {
    let Some(value) = value.into_option() else { return Ok(Vec::new()) };
    let Some(dict) = DictRef::from_value(value) else {
        anyhow::bail!("{what} must be a dict, got: {}", value.get_type());
    };
    let mut pairs = Vec::with_capacity(dict.len());
    for (key, item) in dict.iter() {
        let key = printable(key)?;
        if let Some(list) = ListRef::from_value(item) {
            push_each(&mut pairs, &key, list.iter())?;
        } else if let Some(tuple) = TupleRef::from_value(item) {
            push_each(&mut pairs, &key, tuple.iter())?;
        } else {
            push_each(&mut pairs, &key, [item])?;
        }
    }
    Ok(pairs)
}

fn push_each<'v>(
    pairs: &mut Vec<(String, String)>,
    key: &str,
    items: impl IntoIterator<Item = Value<'v>>,
) -> anyhow::Result<()> {
    for item in items.into_iter().filter(|item| !item.is_none()) {
        pairs.push((key.to_owned(), printable(item)?));
    }
    Ok(())
}
