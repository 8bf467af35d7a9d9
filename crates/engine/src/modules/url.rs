//! `url`: addresses taken apart and put together.

use starlark::collections::SmallMap;
use starlark::environment::GlobalsBuilder;
use starlark::eval::Evaluator;
use starlark::values::Value;
use starlark::values::none::NoneOr;
use starloom_builtins_macro::builtins;
use url::Url;
use url::form_urlencoded;

use super::arguments::pairs;
use crate::context::Rounds;
use crate::convert::alloc_dict;

fn parsed(function: &str, text: &str) -> anyhow::Result<Url> {
    Url::parse(text).map_err(|error| anyhow::anyhow!("url.{function}: `{text}` is not a URL: {error}"))
}

/// Everything but the letters, digits and marks RFC 3986 calls unreserved.
fn percent_encode(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push('%');
            out.push_str(&super::crypto::hex(&[byte]).to_ascii_uppercase());
        }
    }
    out
}

/// A `%` without two digits behind it stays as it is.
fn percent_decode(text: &str) -> Vec<u8> {
    let bytes = text.as_bytes();
    let digit = |at: usize| bytes.get(at).and_then(|byte| char::from(*byte).to_digit(16));
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        match (bytes[at], digit(at + 1), digit(at + 2)) {
            (b'%', Some(high), Some(low)) => {
                out.push((high * 16 + low) as u8);
                at += 3;
            }
            (byte, ..) => {
                out.push(byte);
                at += 1;
            }
        }
    }
    out
}

#[builtins]
pub(crate) fn register(globals: &mut GlobalsBuilder) {
    /// The parts of a URL: `{"scheme", "host", "port", "path", "query", "fragment", "username"}`.
    ///
    /// Parts that are absent are empty. `port` is the scheme's own when the text names none, and `None`
    /// when the scheme has none. Path, query and fragment stay percent-encoded.
    ///
    /// Args:
    ///     text: an absolute URL
    fn parse<'v>(text: &str, eval: &mut Evaluator<'v, '_, '_>) -> anyhow::Result<Value<'v>> {
        let url = parsed("parse", text)?;
        let heap = eval.heap();
        let port = url.port_or_known_default();
        Ok(alloc_dict(
            heap,
            [
                ("scheme", heap.alloc(url.scheme())),
                ("host", heap.alloc(url.host_str().unwrap_or(""))),
                ("port", port.map_or(Value::new_none(), |port| heap.alloc(i32::from(port)))),
                ("path", heap.alloc(url.path())),
                ("query", heap.alloc(url.query().unwrap_or(""))),
                ("fragment", heap.alloc(url.fragment().unwrap_or(""))),
                ("username", heap.alloc(url.username())),
            ],
        ))
    }

    /// The text with everything that means something in a URL percent-encoded, `/` and space too.
    ///
    /// Args:
    ///     text: one part of a path, or one value of a query
    fn encode(text: &str) -> anyhow::Result<String> {
        Ok(percent_encode(text))
    }

    /// The text a percent-encoded one stands for. `+` stays a plus.
    ///
    /// Args:
    ///     text: the encoded text
    fn decode(text: &str) -> anyhow::Result<String> {
        String::from_utf8(percent_decode(text))
            .map_err(|_| anyhow::anyhow!("url.decode: `{text}` does not stand for UTF-8 text"))
    }

    /// A dict as a query, without the `?`, in the order of the dict.
    ///
    /// Args:
    ///     params: dict; a list repeats its key, `None` leaves it out, anything else is written as text
    fn encode_query(params: Value) -> anyhow::Result<String> {
        let pairs = pairs("url.encode_query: params", NoneOr::Other(params))?;
        Ok(form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish())
    }

    /// A query as a dict of lists: every key with all of its values.
    ///
    /// Args:
    ///     text: the query, with or without the `?`
    fn parse_query<'v>(text: &str, eval: &mut Evaluator<'v, '_, '_>) -> anyhow::Result<Value<'v>> {
        let text = text.strip_prefix('?').unwrap_or(text);
        let mut rounds = Rounds::default();
        let mut values: SmallMap<String, Vec<String>> = SmallMap::new();
        for (key, value) in form_urlencoded::parse(text.as_bytes()) {
            rounds.tick()?;
            values.entry(key.into_owned()).or_default().push(value.into_owned());
        }
        Ok(eval.heap().alloc(values))
    }

    /// The address a link on a page leads to.
    ///
    /// Args:
    ///     base: the URL of the page
    ///     relative: the link: a URL, a path, or a query
    fn join(base: &str, relative: &str) -> anyhow::Result<String> {
        let joined = parsed("join", base)?
            .join(relative)
            .map_err(|error| anyhow::anyhow!("url.join: cannot join `{relative}` to `{base}`: {error}"))?;
        Ok(joined.into())
    }
}
