//! `time`: the clock, and dates as text.

use std::sync::LazyLock;

use jiff::civil::DateTime;
use jiff::fmt::{rfc2822, strtime, temporal};
use jiff::tz::{TimeZone, TimeZoneDatabase};
use jiff::{Timestamp, Zoned};
use starlark::environment::GlobalsBuilder;
use starlark::eval::Evaluator;
use starlark::values::Value;
use starlark::values::none::NoneOr;
use starloom_builtins_macro::builtins;

use super::arguments::Number;
use crate::Json;
use crate::context::perform;
use crate::effect::Effect;

/// The one inside the binary: the same dates on every machine, and no look at the file system.
static ZONES: LazyLock<TimeZoneDatabase> = LazyLock::new(TimeZoneDatabase::bundled);

const PARSER: temporal::DateTimeParser = temporal::DateTimeParser::new();

fn now(eval: &Evaluator) -> anyhow::Result<(i64, i64)> {
    let answer = perform(eval, Effect::Now)?;
    let part = |key: &str| answer.get(key).and_then(Json::as_i64);
    part("seconds").zip(part("nanoseconds")).ok_or_else(|| anyhow::anyhow!("time: the host gave no time"))
}

fn zone(function: &str, name: &str) -> anyhow::Result<TimeZone> {
    if name == "Z" {
        return Ok(TimeZone::UTC);
    }
    PARSER.parse_time_zone_with(&ZONES, name).map_err(|_| {
        let names: Vec<String> = ZONES.available().map(|name| name.to_string()).collect();
        let hint = match crate::nearest(name, names.iter().map(String::as_str)) {
            Some(known) => format!("did you mean `{known}`?"),
            None => "use a name such as `Europe/Berlin`, or an offset such as `+02:00`".to_owned(),
        };
        anyhow::anyhow!("time.{function}: there is no time zone `{name}`; {hint}")
    })
}

fn instant(function: &str, number: Number) -> anyhow::Result<Timestamp> {
    let instant = match &number {
        Number::Int(seconds) => {
            i64::try_from(seconds).ok().and_then(|seconds| Timestamp::from_second(seconds).ok())
        }
        // A float of today's seconds is good for microseconds; more digits would be noise.
        Number::Float(seconds) if seconds.is_finite() => {
            Timestamp::from_microsecond((seconds * 1e6).round() as i64).ok()
        }
        Number::Float(_) => None,
    };
    instant.ok_or_else(|| {
        anyhow::anyhow!("time.{function}: the timestamp is outside of the years -9999 to 9999")
    })
}

/// RFC 3339: `Z` in UTC, the offset elsewhere.
fn rfc3339(instant: Timestamp, zone: TimeZone) -> String {
    if zone == TimeZone::UTC {
        return instant.to_string();
    }
    instant.display_with_offset(zone.to_offset(instant)).to_string()
}

fn in_zone(function: &str, text: &str, civil: DateTime, zone: TimeZone) -> anyhow::Result<Timestamp> {
    zone.to_timestamp(civil).map_err(|error| anyhow::anyhow!("time.{function}: `{text}`: {error}"))
}

fn parse_any(text: &str, zone: TimeZone) -> anyhow::Result<Timestamp> {
    let known = PARSER
        .parse_timestamp(text)
        .or_else(|_| PARSER.parse_zoned_with(&ZONES, text).map(|zoned: Zoned| zoned.timestamp()))
        .or_else(|_| rfc2822::DateTimeParser::new().parse_timestamp(text));
    match (known, PARSER.parse_datetime(text)) {
        (Ok(instant), _) => Ok(instant),
        (Err(_), Ok(civil)) => in_zone("parse", text, civil, zone),
        (Err(_), Err(_)) => anyhow::bail!(
            "time.parse: `{text}` is neither RFC 3339 (2024-05-01T12:00:00Z), nor a date (2024-05-01), nor RFC 2822; \
             give its `format`"
        ),
    }
}

fn parse_as(text: &str, format: &str, zone: TimeZone) -> anyhow::Result<Timestamp> {
    let parsed = strtime::parse(format, text)
        .map_err(|error| anyhow::anyhow!("time.parse: `{text}` is not of the format `{format}`: {error}"))?;
    let incomplete = |error: jiff::Error| {
        anyhow::anyhow!("time.parse: `{text}` read as `{format}` gives no date: {error}")
    };
    if parsed.timestamp().is_some() || parsed.offset().is_some() || parsed.iana_time_zone().is_some() {
        return parsed.to_zoned_with(&ZONES).map(|zoned| zoned.timestamp()).map_err(incomplete);
    }
    in_zone("parse", text, parsed.to_datetime().map_err(incomplete)?, zone)
}

#[builtins]
pub(crate) fn register(globals: &mut GlobalsBuilder) {
    /// Seconds since the Unix epoch.
    fn now<'v>(eval: &mut Evaluator<'v, '_, '_>) -> anyhow::Result<i64> {
        Ok(self::now(eval)?.0)
    }

    /// Milliseconds since the Unix epoch.
    fn now_ms<'v>(eval: &mut Evaluator<'v, '_, '_>) -> anyhow::Result<i64> {
        let (seconds, nanoseconds) = self::now(eval)?;
        Ok(seconds.saturating_mul(1000).saturating_add(nanoseconds / 1_000_000))
    }

    /// Seconds on a clock that never goes backwards. Only differences mean something.
    fn monotonic<'v>(eval: &mut Evaluator<'v, '_, '_>) -> anyhow::Result<f64> {
        let nanoseconds = perform(eval, Effect::Monotonic)?;
        let nanoseconds =
            nanoseconds.as_u64().ok_or_else(|| anyhow::anyhow!("time: the host gave no time"))?;
        Ok(nanoseconds as f64 / 1e9)
    }

    /// A moment as RFC 3339 text, such as `2024-05-01T12:00:00Z`.
    ///
    /// Args:
    ///     timestamp: seconds since the Unix epoch, int or float; without it, now
    ///     tz: time zone: a name such as `Europe/Berlin`, or an offset such as `+02:00`
    fn iso<'v>(
        #[starlark(default = NoneOr::None)] timestamp: NoneOr<Number>,
        #[starlark(default = "UTC")] tz: &str,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> anyhow::Result<String> {
        let zone = zone("iso", tz)?;
        let instant = match timestamp.into_option() {
            Some(number) => instant("iso", number)?,
            None => instant("iso", Number::Int(self::now(eval)?.0.into()))?,
        };
        Ok(rfc3339(instant, zone))
    }

    /// A moment as text of any form.
    ///
    /// Args:
    ///     timestamp: seconds since the Unix epoch, int or float
    ///     format: as of `strftime`: `%Y`, `%m`, `%d`, `%H`, `%M`, `%S`, `%z`, `%A`, `%B` and so on; the
    ///         default is RFC 3339, `%Y-%m-%dT%H:%M:%SZ` in UTC
    ///     tz: time zone: a name such as `Europe/Berlin`, or an offset such as `+02:00`
    fn format(
        timestamp: Number,
        #[starlark(default = NoneOr::None)] format: NoneOr<&str>,
        #[starlark(default = "UTC")] tz: &str,
    ) -> anyhow::Result<String> {
        let zone = zone("format", tz)?;
        let instant = instant("format", timestamp)?;
        match format.into_option() {
            None => Ok(rfc3339(instant, zone)),
            Some(format) => strtime::format(format, &instant.to_zoned(zone))
                .map_err(|error| anyhow::anyhow!("time.format: `{format}` is not a format: {error}")),
        }
    }

    /// The seconds since the Unix epoch a text stands for: an int, or a float when it has a fraction.
    ///
    /// Args:
    ///     text: the date
    ///     format: as of `strptime`; without it RFC 3339, `YYYY-MM-DD` and RFC 2822 are understood
    ///     tz: time zone of a text that names none itself
    fn parse<'v>(
        text: &str,
        #[starlark(default = NoneOr::None)] format: NoneOr<&str>,
        #[starlark(default = "UTC")] tz: &str,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> anyhow::Result<Value<'v>> {
        let zone = zone("parse", tz)?;
        let instant = match format.into_option() {
            None => parse_any(text, zone)?,
            Some(format) => parse_as(text, format, zone)?,
        };
        if instant.subsec_nanosecond() == 0 {
            return Ok(eval.heap().alloc(instant.as_second()));
        }
        // In two steps: all nanoseconds at once are more than a float can hold.
        let fraction = f64::from(instant.subsec_nanosecond()) / 1e9;
        Ok(eval.heap().alloc(instant.as_second() as f64 + fraction))
    }
}
