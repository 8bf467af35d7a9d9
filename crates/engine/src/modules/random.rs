//! `random`: numbers and bytes nobody can guess.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use num_bigint::{BigInt, BigUint, Sign};
use starlark::environment::GlobalsBuilder;
use starlark::eval::Evaluator;
use starlark::values::Value;
use starlark::values::dict::DictRef;
use starlark::values::list::AllocList;
use starloom_builtins_macro::builtins;

use crate::context::{Rounds, perform};
use crate::effect::Effect;

/// The most bytes one call may ask for.
const MAX_BYTES: usize = 1 << 20;

/// A draw fails half of the time at worst; so many in a row never happens.
const MAX_DRAWS: usize = 256;

fn random_bytes(function: &str, count: usize, eval: &Evaluator) -> anyhow::Result<Vec<u8>> {
    let answer = perform(eval, Effect::RandomBytes { count })?;
    let bytes = answer.as_str().and_then(|text| STANDARD.decode(text).ok());
    match bytes.filter(|bytes| bytes.len() == count) {
        Some(bytes) => Ok(bytes),
        None => anyhow::bail!("random.{function}: the host gave no random bytes"),
    }
}

fn checked_count(function: &str, count: i64) -> anyhow::Result<usize> {
    match usize::try_from(count) {
        Ok(count) if count <= MAX_BYTES => Ok(count),
        _ => anyhow::bail!("random.{function}: n must be from 0 to {MAX_BYTES}, got: {count}"),
    }
}

/// Random bytes, asked for in bulk.
struct Source<'a, 'v, 'e, 'x> {
    function: &'static str,
    eval: &'a Evaluator<'v, 'e, 'x>,
    bytes: Vec<u8>,
}

impl<'a, 'v, 'e, 'x> Source<'a, 'v, 'e, 'x> {
    fn new(function: &'static str, eval: &'a Evaluator<'v, 'e, 'x>) -> Self {
        Source { function, eval, bytes: Vec::new() }
    }

    /// The next `count` bytes; `expected` of them will be wanted from now on.
    fn take(&mut self, count: usize, expected: usize) -> anyhow::Result<Vec<u8>> {
        if self.bytes.len() < count {
            let bulk = expected.clamp(count, MAX_BYTES.max(count));
            self.bytes = random_bytes(self.function, bulk, self.eval)?;
        }
        Ok(self.bytes.split_off(self.bytes.len() - count))
    }

    /// A number from 0 up to, without, `range`, each as likely as the others; `more` will follow.
    ///
    /// Draws as many bits as the range has and throws away what is too large: a remainder would make
    /// small numbers likelier.
    fn below(&mut self, range: &BigUint, more: usize) -> anyhow::Result<BigUint> {
        let largest = range - 1_u32;
        let count = largest.bits().div_ceil(8) as usize;
        if count == 0 {
            return Ok(BigUint::ZERO);
        }
        let mask = 0xff_u8 >> (count as u64 * 8 - largest.bits());
        for _ in 0..MAX_DRAWS {
            let mut bytes =
                self.take(count, count.saturating_mul(2).saturating_mul(more.saturating_add(2)))?;
            bytes[count - 1] &= mask;
            let drawn = BigUint::from_bytes_le(&bytes);
            if drawn <= largest {
                return Ok(drawn);
            }
        }
        anyhow::bail!("random.{}: the host's bytes are not random", self.function)
    }

    fn index(&mut self, len: usize, more: usize) -> anyhow::Result<usize> {
        Ok(usize::try_from(self.below(&BigUint::from(len), more)?)?)
    }
}

#[builtins]
pub(crate) fn register(globals: &mut GlobalsBuilder) {
    /// An integer from `low` to `high`, both included, each as likely as the others.
    ///
    /// Args:
    ///     low: the smallest it may be
    ///     high: the largest it may be
    fn int<'v>(low: BigInt, high: BigInt, eval: &mut Evaluator<'v, '_, '_>) -> anyhow::Result<Value<'v>> {
        anyhow::ensure!(low <= high, "random.int: low must not be above high");
        let range = (&high - &low + 1_u32).magnitude().clone();
        anyhow::ensure!(
            range.bits() <= MAX_BYTES as u64,
            "random.int: a range of more than {MAX_BYTES} bits is not supported"
        );
        let drawn = Source::new("int", eval).below(&range, 0)?;
        Ok(eval.heap().alloc(low + BigInt::from_biguint(Sign::Plus, drawn)))
    }

    /// A float from 0 up to, without, 1.
    fn float<'v>(eval: &mut Evaluator<'v, '_, '_>) -> anyhow::Result<f64> {
        let bytes = random_bytes("float", 8, eval)?;
        let number = bytes.iter().fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
        // A float holds 53 bits.
        Ok((number >> 11) as f64 / (1_u64 << 53) as f64)
    }

    /// One member of a sequence, each as likely as the others.
    ///
    /// Args:
    ///     seq: list, tuple, range, set, dict (its keys) or string (its characters)
    fn choice<'v>(seq: Value<'v>, eval: &mut Evaluator<'v, '_, '_>) -> anyhow::Result<Value<'v>> {
        let problem = || anyhow::anyhow!("random.choice: seq must be a sequence, got: {}", seq.get_type());
        let len = usize::try_from(seq.length().map_err(|_| problem())?)?;
        anyhow::ensure!(len > 0, "random.choice: the sequence is empty");
        let index = Source::new("choice", eval).index(len, 0)?;
        let heap = eval.heap();
        if DictRef::from_value(seq).is_some() || seq.get_type() == "set" {
            return seq.iterate(heap).map_err(|_| problem())?.nth(index).ok_or_else(problem);
        }
        seq.at(heap.alloc(index as i64), heap).map_err(|_| problem())
    }

    /// A new list of the same members in another order, each order as likely as the others.
    ///
    /// Args:
    ///     items: list, or anything a `for` can walk
    fn shuffle<'v>(items: Value<'v>, eval: &mut Evaluator<'v, '_, '_>) -> anyhow::Result<Value<'v>> {
        let mut shuffled: Vec<Value> = items
            .iterate(eval.heap())
            .map_err(|_| anyhow::anyhow!("random.shuffle: items must be a list, got: {}", items.get_type()))?
            .collect();
        let mut rounds = Rounds::default();
        let mut source = Source::new("shuffle", eval);
        for last in (1..shuffled.len()).rev() {
            rounds.tick()?;
            let index = source.index(last + 1, last)?;
            shuffled.swap(last, index);
        }
        Ok(eval.heap().alloc(AllocList(shuffled)))
    }

    /// So many random bytes.
    ///
    /// Args:
    ///     n: how many, up to 1048576
    fn bytes<'v>(n: i64, eval: &mut Evaluator<'v, '_, '_>) -> anyhow::Result<Vec<u8>> {
        random_bytes("bytes", checked_count("bytes", n)?, eval)
    }

    /// So many random bytes as hexadecimal text, two characters each.
    ///
    /// Args:
    ///     n: how many bytes, up to 1048576
    fn hex<'v>(n: i64, eval: &mut Evaluator<'v, '_, '_>) -> anyhow::Result<String> {
        Ok(super::crypto::hex(&random_bytes("hex", checked_count("hex", n)?, eval)?))
    }

    /// A random UUID (version 4).
    fn uuid<'v>(eval: &mut Evaluator<'v, '_, '_>) -> anyhow::Result<String> {
        let mut bytes = random_bytes("uuid", 16, eval)?;
        bytes[6] = bytes[6] & 0x0f | 0x40;
        bytes[8] = bytes[8] & 0x3f | 0x80;
        let hex = super::crypto::hex(&bytes);
        Ok([&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-"))
    }
}
