//! `base64`: bytes as text.

use base64::alphabet;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig, STANDARD, URL_SAFE_NO_PAD};
use base64::engine::{DecodePaddingMode, Engine as _};
use starlark::environment::GlobalsBuilder;
use starlark::values::Value;
use starloom_builtins_macro::builtins;

use super::arguments::bytes_of;

/// Padding is optional: half of the world leaves it out.
const LENIENT: GeneralPurposeConfig =
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
const STANDARD_LENIENT: GeneralPurpose = GeneralPurpose::new(&alphabet::STANDARD, LENIENT);
const URL_SAFE_LENIENT: GeneralPurpose = GeneralPurpose::new(&alphabet::URL_SAFE, LENIENT);

/// Decodes text that may be broken into lines, as mail and many APIs do.
fn decode_lines(function: &str, text: &str, engine: &GeneralPurpose) -> anyhow::Result<Vec<u8>> {
    let compact: Vec<u8> = text.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    engine.decode(compact).map_err(|error| {
        // The one mistake everybody makes has its own remedy.
        let hint = match function {
            "decode" if text.contains(['-', '_']) => "; use `base64.url_decode` for text with `-` and `_`",
            "url_decode" if text.contains(['+', '/']) => "; use `base64.decode` for text with `+` and `/`",
            _ => "",
        };
        anyhow::anyhow!("base64.{function}: not base64: {error}{hint}")
    })
}

fn utf8(function: &str, bytes: Vec<u8>) -> anyhow::Result<String> {
    String::from_utf8(bytes).map_err(|_| {
        anyhow::anyhow!("base64.{function}: the bytes are not UTF-8 text; use `base64.decode_bytes`")
    })
}

#[builtins]
pub(crate) fn register(globals: &mut GlobalsBuilder) {
    /// The base64 of a string's UTF-8 or of bytes, with padding.
    ///
    /// Args:
    ///     data: string or bytes
    fn encode(data: Value) -> anyhow::Result<String> {
        Ok(STANDARD.encode(bytes_of("base64.encode: data", data)?))
    }

    /// The text a base64 text stands for. Line breaks and missing padding are fine.
    ///
    /// Args:
    ///     text: the base64 text
    fn decode(text: &str) -> anyhow::Result<String> {
        utf8("decode", decode_lines("decode", text, &STANDARD_LENIENT)?)
    }

    /// The bytes a base64 text stands for, in either alphabet.
    ///
    /// Args:
    ///     text: the base64 text
    fn decode_bytes(text: &str) -> anyhow::Result<Vec<u8>> {
        let engine = if text.contains(['-', '_']) { &URL_SAFE_LENIENT } else { &STANDARD_LENIENT };
        decode_lines("decode_bytes", text, engine)
    }

    /// The base64 of a string's UTF-8 or of bytes, safe for URLs: `-` and `_`, without padding.
    ///
    /// Args:
    ///     data: string or bytes
    fn url_encode(data: Value) -> anyhow::Result<String> {
        Ok(URL_SAFE_NO_PAD.encode(bytes_of("base64.url_encode: data", data)?))
    }

    /// The text that `url_encode` was given. Padding is fine.
    ///
    /// Args:
    ///     text: the base64 text
    fn url_decode(text: &str) -> anyhow::Result<String> {
        utf8("url_decode", decode_lines("url_decode", text, &URL_SAFE_LENIENT)?)
    }
}
