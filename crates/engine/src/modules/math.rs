//! `math`: numbers beyond the operators.

use num_bigint::{BigInt, Sign};
use starlark::environment::GlobalsBuilder;
use starlark::eval::Evaluator;
use starlark::values::Value;
use starlark::values::float::UnpackFloat;
use starlark::values::none::NoneOr;
use starloom_builtins_macro::builtins;

use super::arguments::Number;
use crate::context::Rounds;

impl Number {
    /// The logarithm to base 2, also of integers too large for a float.
    fn log2(&self, function: &str) -> anyhow::Result<f64> {
        let (number, exponent) = match self {
            Number::Float(float) => (*float, 0),
            Number::Int(int) => {
                let exponent = int.bits().saturating_sub(64);
                let head = i128::try_from(int >> exponent).unwrap_or(i128::MAX);
                (head as f64, exponent)
            }
        };
        anyhow::ensure!(
            number.is_nan() || number > 0.0,
            "math domain error: {function} of a number that is not positive"
        );
        Ok(number.log2() + exponent as f64)
    }

    /// The number itself, where a float can hold it exactly enough for a logarithm of its own.
    fn as_small_float(&self) -> Option<f64> {
        match self {
            Number::Float(float) => Some(*float),
            Number::Int(int) => i64::try_from(int).ok().map(|small| small as f64),
        }
    }

    /// Rounds with `round`; an integer needs no rounding.
    fn into_integer(self, function: &str, round: fn(f64) -> f64) -> anyhow::Result<BigInt> {
        match self {
            Number::Int(int) => Ok(int),
            Number::Float(float) => {
                anyhow::ensure!(float.is_finite(), "math.{function}: {float} is not a finite number");
                Ok(exact_integer(round(float)))
            }
        }
    }
}

/// The integer a finite float without a fraction stands for.
fn exact_integer(float: f64) -> BigInt {
    if float.abs() < 9.0e18 {
        return BigInt::from(float as i64);
    }
    // Large enough to have no fraction: the mantissa, shifted.
    let bits = float.to_bits();
    let exponent = ((bits >> 52) & 0x7ff).saturating_sub(1075);
    let mantissa = BigInt::from((bits & ((1 << 52) - 1)) | (1 << 52)) << exponent;
    if float < 0.0 { -mantissa } else { mantissa }
}

/// The result, unless it is undefined for arguments that were not.
fn defined(result: f64, arguments: &[f64], problem: &str) -> anyhow::Result<f64> {
    let undefined = result.is_nan() && !arguments.iter().any(|argument| argument.is_nan());
    anyhow::ensure!(!undefined, "math domain error: {problem}");
    Ok(result)
}

#[builtins]
pub(crate) fn register(globals: &mut GlobalsBuilder) {
    const pi: f64 = std::f64::consts::PI;
    const e: f64 = std::f64::consts::E;
    const inf: f64 = f64::INFINITY;
    const nan: f64 = f64::NAN;

    /// `x` to the power of `y`, as a float.
    ///
    /// Args:
    ///     x: the base
    ///     y: the exponent
    fn pow(x: UnpackFloat, y: UnpackFloat) -> anyhow::Result<f64> {
        defined(x.0.powf(y.0), &[x.0, y.0], "pow of a negative number to a fraction")
    }

    /// The square root.
    ///
    /// Args:
    ///     x: a number that is not negative
    fn sqrt(x: UnpackFloat) -> anyhow::Result<f64> {
        defined(x.0.sqrt(), &[x.0], "sqrt of negative number")
    }

    /// The smallest integer that is not below `x`. Exact for numbers of any size.
    ///
    /// Args:
    ///     x: a finite number
    fn ceil(x: Number) -> anyhow::Result<BigInt> {
        x.into_integer("ceil", f64::ceil)
    }

    /// The largest integer that is not above `x`. Exact for numbers of any size.
    ///
    /// Args:
    ///     x: a finite number
    fn floor(x: Number) -> anyhow::Result<BigInt> {
        x.into_integer("floor", f64::floor)
    }

    /// `x` without its fraction, as an integer. Exact for numbers of any size.
    ///
    /// Args:
    ///     x: a finite number
    fn trunc(x: Number) -> anyhow::Result<BigInt> {
        x.into_integer("trunc", f64::trunc)
    }

    /// The nearest number with so many decimals, as a float. Halves go away from zero.
    ///
    /// Args:
    ///     x: the number
    ///     decimals: how many digits to keep after the point
    fn round(x: UnpackFloat, #[starlark(default = 0)] decimals: i32) -> anyhow::Result<f64> {
        anyhow::ensure!(decimals >= 0, "decimals must be non-negative");
        let factor = 10_f64.powi(decimals);
        let scaled = x.0 * factor;
        // Beyond what a float can hold there is no digit left to round.
        Ok(if scaled.is_finite() && factor.is_finite() { scaled.round() / factor } else { x.0 })
    }

    /// The number without its sign, as a float. The builtin `abs` keeps integers.
    ///
    /// Args:
    ///     x: the number
    fn abs(x: UnpackFloat) -> anyhow::Result<f64> {
        Ok(x.0.abs())
    }

    /// `e` to the power of `x`.
    ///
    /// Args:
    ///     x: the exponent
    fn exp(x: UnpackFloat) -> anyhow::Result<f64> {
        Ok(x.0.exp())
    }

    /// The natural logarithm, or the one to `base`.
    ///
    /// Args:
    ///     x: a positive number; integers may be of any size
    ///     base: a positive number other than 1
    fn log(x: Number, #[starlark(default = NoneOr::None)] base: NoneOr<Number>) -> anyhow::Result<f64> {
        let log2 = x.log2("log")?;
        match base.into_option() {
            None => Ok(x.as_small_float().map_or(log2 * std::f64::consts::LN_2, f64::ln)),
            Some(base) => {
                let base_log2 = base.log2("log to the base")?;
                anyhow::ensure!(base_log2 != 0.0, "math domain error: log to the base 1");
                match (x.as_small_float(), base.as_small_float()) {
                    (Some(x), Some(base)) => Ok(x.ln() / base.ln()),
                    _ => Ok(log2 / base_log2),
                }
            }
        }
    }

    /// The logarithm to base 2. Exact for powers of 2.
    ///
    /// Args:
    ///     x: a positive number; integers may be of any size
    fn log2(x: Number) -> anyhow::Result<f64> {
        x.log2("log2")
    }

    /// The logarithm to base 10. Exact for powers of 10 that a float can hold.
    ///
    /// Args:
    ///     x: a positive number; integers may be of any size
    fn log10(x: Number) -> anyhow::Result<f64> {
        let log2 = x.log2("log10")?;
        Ok(x.as_small_float().map_or(log2 * std::f64::consts::LOG10_2, f64::log10))
    }

    /// The sine.
    ///
    /// Args:
    ///     x: an angle in radians
    fn sin(x: UnpackFloat) -> anyhow::Result<f64> {
        defined(x.0.sin(), &[x.0], "sin of an infinite number")
    }

    /// The cosine.
    ///
    /// Args:
    ///     x: an angle in radians
    fn cos(x: UnpackFloat) -> anyhow::Result<f64> {
        defined(x.0.cos(), &[x.0], "cos of an infinite number")
    }

    /// The tangent.
    ///
    /// Args:
    ///     x: an angle in radians
    fn tan(x: UnpackFloat) -> anyhow::Result<f64> {
        defined(x.0.tan(), &[x.0], "tan of an infinite number")
    }

    /// The angle in radians whose sine is `x`.
    ///
    /// Args:
    ///     x: a number from -1 to 1
    fn asin(x: UnpackFloat) -> anyhow::Result<f64> {
        defined(x.0.asin(), &[x.0], "asin of a number outside of -1 to 1")
    }

    /// The angle in radians whose cosine is `x`.
    ///
    /// Args:
    ///     x: a number from -1 to 1
    fn acos(x: UnpackFloat) -> anyhow::Result<f64> {
        defined(x.0.acos(), &[x.0], "acos of a number outside of -1 to 1")
    }

    /// The angle in radians whose tangent is `x`.
    ///
    /// Args:
    ///     x: any number
    fn atan(x: UnpackFloat) -> anyhow::Result<f64> {
        Ok(x.0.atan())
    }

    /// The angle in radians of the point `(x, y)`, from -pi to pi.
    ///
    /// Args:
    ///     y: its height
    ///     x: its distance to the right
    fn atan2(y: UnpackFloat, x: UnpackFloat) -> anyhow::Result<f64> {
        Ok(y.0.atan2(x.0))
    }

    /// The length of the line from the origin to `(x, y)`.
    ///
    /// Args:
    ///     x: its distance to the right
    ///     y: its height
    fn hypot(x: UnpackFloat, y: UnpackFloat) -> anyhow::Result<f64> {
        Ok(x.0.hypot(y.0))
    }

    /// The remainder of `x / y` with the sign of `x`. The operator `%` takes the sign of `y`.
    ///
    /// Args:
    ///     x: a finite number
    ///     y: a number other than 0
    fn fmod(x: UnpackFloat, y: UnpackFloat) -> anyhow::Result<f64> {
        let problem = if y.0 == 0.0 { "fmod by zero" } else { "fmod of an infinite number" };
        defined(x.0 % y.0, &[x.0, y.0], problem)
    }

    /// The greatest integer that divides both. Never negative.
    ///
    /// Args:
    ///     a: an integer of any size
    ///     b: an integer of any size
    fn gcd<'v>(a: BigInt, b: BigInt, eval: &mut Evaluator<'v, '_, '_>) -> anyhow::Result<Value<'v>> {
        let mut rounds = Rounds::default();
        let (mut a, mut b) = (a, b);
        while b.sign() != Sign::NoSign {
            // Large numbers take long to divide.
            rounds.tick_by(1 + (b.bits() / 1024) as usize)?;
            let rest = &a % &b;
            a = std::mem::replace(&mut b, rest);
        }
        Ok(eval.heap().alloc(if a.sign() == Sign::Minus { -a } else { a }))
    }

    /// Whether `x` is "not a number".
    ///
    /// Args:
    ///     x: the number
    fn isnan(x: UnpackFloat) -> anyhow::Result<bool> {
        Ok(x.0.is_nan())
    }

    /// Whether `x` is infinite.
    ///
    /// Args:
    ///     x: the number
    fn isinf(x: Number) -> anyhow::Result<bool> {
        // An integer is finite, however large.
        Ok(matches!(x, Number::Float(float) if float.is_infinite()))
    }
}
