//! `crypto`: digests and message authentication codes.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, Mac};
use md5::Md5;
use sha1::Sha1;
use sha2::{Digest, Sha256, Sha512};
use starlark::environment::GlobalsBuilder;
use starlark::values::Value;
use starloom_builtins_macro::builtins;

use super::arguments::bytes_of;

fn digest<D: Digest>(function: &str, data: Value, encoding: &str) -> anyhow::Result<String> {
    let data = bytes_of(&format!("crypto.{function}: data"), data)?;
    written(function, &D::digest(data), encoding)
}

fn authenticate<M: Mac + hmac::digest::KeyInit>(
    function: &str,
    key: Value,
    message: Value,
    encoding: &str,
) -> anyhow::Result<String> {
    let key = bytes_of(&format!("crypto.{function}: key"), key)?;
    let message = bytes_of(&format!("crypto.{function}: message"), message)?;
    let mut mac =
        <M as Mac>::new_from_slice(key).map_err(|error| anyhow::anyhow!("crypto.{function}: {error}"))?;
    mac.update(message);
    written(function, &mac.finalize().into_bytes(), encoding)
}

fn written(function: &str, bytes: &[u8], encoding: &str) -> anyhow::Result<String> {
    match encoding {
        "hex" => Ok(hex(bytes)),
        "base64" => Ok(STANDARD.encode(bytes)),
        other => anyhow::bail!("crypto.{function}: encoding must be \"hex\" or \"base64\", got: {other:?}"),
    }
}

pub(super) fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits.map(|digit| char::from(DIGITS[usize::from(digit)])).collect()
}

/// A fingerprint whose comparison takes the same time whatever the bytes are.
fn fingerprint(what: &str, value: Value) -> anyhow::Result<hmac::digest::CtOutput<Hmac<Sha256>>> {
    let mut mac = <Hmac<Sha256> as Mac>::new_from_slice(b"crypto.equal")?;
    mac.update(bytes_of(what, value)?);
    Ok(mac.finalize())
}

#[builtins]
pub(crate) fn register(globals: &mut GlobalsBuilder) {
    /// The SHA-256 digest.
    ///
    /// Args:
    ///     data: string or bytes
    ///     encoding: `hex` or `base64`
    fn sha256(
        data: Value,
        #[starlark(require = named, default = "hex")] encoding: &str,
    ) -> anyhow::Result<String> {
        digest::<Sha256>("sha256", data, encoding)
    }

    /// The SHA-512 digest.
    ///
    /// Args:
    ///     data: string or bytes
    ///     encoding: `hex` or `base64`
    fn sha512(
        data: Value,
        #[starlark(require = named, default = "hex")] encoding: &str,
    ) -> anyhow::Result<String> {
        digest::<Sha512>("sha512", data, encoding)
    }

    /// The SHA-1 digest. Broken for signatures; kept for the systems that still ask for it.
    ///
    /// Args:
    ///     data: string or bytes
    ///     encoding: `hex` or `base64`
    fn sha1(
        data: Value,
        #[starlark(require = named, default = "hex")] encoding: &str,
    ) -> anyhow::Result<String> {
        digest::<Sha1>("sha1", data, encoding)
    }

    /// The MD5 digest. Broken for anything that must be safe; kept for checksums.
    ///
    /// Args:
    ///     data: string or bytes
    ///     encoding: `hex` or `base64`
    fn md5(
        data: Value,
        #[starlark(require = named, default = "hex")] encoding: &str,
    ) -> anyhow::Result<String> {
        digest::<Md5>("md5", data, encoding)
    }

    /// The HMAC of a message with SHA-256.
    ///
    /// Args:
    ///     key: the secret, string or bytes
    ///     message: string or bytes
    ///     encoding: `hex` or `base64`
    fn hmac_sha256(
        key: Value,
        message: Value,
        #[starlark(require = named, default = "hex")] encoding: &str,
    ) -> anyhow::Result<String> {
        authenticate::<Hmac<Sha256>>("hmac_sha256", key, message, encoding)
    }

    /// The HMAC of a message with SHA-512.
    ///
    /// Args:
    ///     key: the secret, string or bytes
    ///     message: string or bytes
    ///     encoding: `hex` or `base64`
    fn hmac_sha512(
        key: Value,
        message: Value,
        #[starlark(require = named, default = "hex")] encoding: &str,
    ) -> anyhow::Result<String> {
        authenticate::<Hmac<Sha512>>("hmac_sha512", key, message, encoding)
    }

    /// The HMAC of a message with SHA-1, as old webhooks use it.
    ///
    /// Args:
    ///     key: the secret, string or bytes
    ///     message: string or bytes
    ///     encoding: `hex` or `base64`
    fn hmac_sha1(
        key: Value,
        message: Value,
        #[starlark(require = named, default = "hex")] encoding: &str,
    ) -> anyhow::Result<String> {
        authenticate::<Hmac<Sha1>>("hmac_sha1", key, message, encoding)
    }

    /// Whether two secrets are the same, in a time that tells nothing about where they differ.
    ///
    /// Args:
    ///     a: string or bytes
    ///     b: string or bytes
    fn equal(a: Value, b: Value) -> anyhow::Result<bool> {
        Ok(fingerprint("crypto.equal: a", a)? == fingerprint("crypto.equal: b", b)?)
    }
}
