//! Values that JSON has no type for, as text. What is written here the server reads back.

use std::net::{Ipv4Addr, Ipv6Addr};

const MICROS_PER_SECOND: i64 = 1_000_000;
const MICROS_PER_DAY: i64 = 86_400 * MICROS_PER_SECOND;

/// Days from 1970-01-01 to 2000-01-01, where the server starts to count.
const EPOCH_DAYS: i64 = 10_957;

pub(super) fn uuid(bytes: [u8; 16]) -> String {
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
}

/// The one-byte type of the system catalogs.
pub(super) fn char([byte]: [u8; 1]) -> String {
    match byte {
        0 => String::new(),
        1..=127 => char::from(byte).to_string(),
        128.. => format!("\\{byte:03o}"),
    }
}

pub(super) fn date(days: i32) -> String {
    match days {
        i32::MAX => "infinity".to_owned(),
        i32::MIN => "-infinity".to_owned(),
        days => {
            let (date, era) = civil(i64::from(days));
            format!("{date}{era}")
        }
    }
}

pub(super) fn timestamp(micros: i64, zone: &str) -> String {
    match micros {
        i64::MAX => "infinity".to_owned(),
        i64::MIN => "-infinity".to_owned(),
        micros => {
            let (date, era) = civil(micros.div_euclid(MICROS_PER_DAY));
            format!("{date}T{}{zone}{era}", time(micros.rem_euclid(MICROS_PER_DAY)))
        }
    }
}

/// Year, month and day, and a mark for years before the first. There is no year 0.
fn civil(days: i64) -> (String, &'static str) {
    // Howard Hinnant's days_from_civil, the other way round: years that start in March, in groups of 400.
    let days = days + EPOCH_DAYS + 719_468;
    let group = days.div_euclid(146_097);
    let day_of_group = days.rem_euclid(146_097);
    let year_of_group =
        (day_of_group - day_of_group / 1460 + day_of_group / 36_524 - day_of_group / 146_096) / 365;
    let day_of_year = day_of_group - (365 * year_of_group + year_of_group / 4 - year_of_group / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_group + group * 400 + i64::from(month <= 2);
    let (year, era) = if year > 0 { (year, "") } else { (1 - year, " BC") };
    (format!("{year:04}-{month:02}-{day:02}"), era)
}

pub(super) fn time(micros: i64) -> String {
    let (seconds, fraction) = (micros / MICROS_PER_SECOND, micros % MICROS_PER_SECOND);
    let text = format!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
    with_fraction(text, fraction)
}

fn with_fraction(text: String, micros: i64) -> String {
    if micros == 0 {
        return text;
    }
    format!("{text}.{}", format!("{micros:06}").trim_end_matches('0'))
}

/// The server counts zones in seconds to the west.
pub(super) fn time_tz(micros: i64, west: i32) -> String {
    let sign = if west > 0 { '-' } else { '+' };
    let offset = west.unsigned_abs();
    let zone = format!("{sign}{:02}:{:02}", offset / 3600, offset / 60 % 60);
    let seconds = if offset.is_multiple_of(60) { String::new() } else { format!(":{:02}", offset % 60) };
    format!("{}{zone}{seconds}", time(micros))
}

/// In the server's own default style: `1 year 2 mons 3 days 04:05:06.7`.
pub(super) fn interval(micros: i64, days: i32, months: i32) -> String {
    match (micros, days, months) {
        (i64::MAX, i32::MAX, i32::MAX) => return "infinity".to_owned(),
        (i64::MIN, i32::MIN, i32::MIN) => return "-infinity".to_owned(),
        _ => {}
    }
    let mut parts: Vec<String> = Vec::new();
    // After a negative part the next positive one carries its sign.
    let mut after_negative = false;
    for (value, unit) in [(months / 12, "year"), (months % 12, "mon"), (days, "day")] {
        if value != 0 {
            let sign = if after_negative && value > 0 { "+" } else { "" };
            let plural = if value == 1 { "" } else { "s" };
            parts.push(format!("{sign}{value} {unit}{plural}"));
            after_negative = value < 0;
        }
    }
    if micros != 0 || parts.is_empty() {
        let sign = match (micros < 0, after_negative) {
            (true, _) => "-",
            (false, true) => "+",
            (false, false) => "",
        };
        let micros = micros.unsigned_abs();
        let seconds = micros / MICROS_PER_SECOND as u64;
        let text = format!("{sign}{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
        parts.push(with_fraction(text, (micros % MICROS_PER_SECOND as u64) as i64));
    }
    parts.join(" ")
}

/// `inet` shows the size of the network only where it is not a single host, `cidr` always.
pub(super) fn inet(bytes: &[u8], is_cidr: bool) -> Option<String> {
    let [_family, bits, _is_cidr, _length, address @ ..] = bytes else {
        return None;
    };
    let text = if let Ok(address) = <[u8; 4]>::try_from(address) {
        Ipv4Addr::from(address).to_string()
    } else {
        Ipv6Addr::from(<[u8; 16]>::try_from(address).ok()?).to_string()
    };
    let is_host = usize::from(*bits) == address.len() * 8;
    Some(if is_host && !is_cidr { text } else { format!("{text}/{bits}") })
}

pub(super) fn mac_address(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(":")
}

/// All digits, as many after the point as the value says it has.
pub(super) fn numeric(bytes: &[u8]) -> Option<String> {
    let words: Vec<u16> = bytes.chunks_exact(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]])).collect();
    let [count, weight, sign, scale, groups @ ..] = words.as_slice() else {
        return None;
    };
    match sign {
        0xC000 => return Some("NaN".to_owned()),
        0xD000 => return Some("Infinity".to_owned()),
        0xF000 => return Some("-Infinity".to_owned()),
        _ => {}
    }
    if groups.len() != usize::from(*count) || groups.iter().any(|group| *group > 9999) {
        return None;
    }
    // Each group is four digits; the weight is how many groups more than one stand before the point.
    let before = i32::from(weight.cast_signed()) + 1;
    let group =
        |index: i32| usize::try_from(index).ok().and_then(|index| groups.get(index)).copied().unwrap_or(0);
    let whole: String = (0..before).map(|index| format!("{:04}", group(index))).collect();
    let whole = whole.trim_start_matches('0');
    let scale = usize::from(*scale);
    let after_count = i32::try_from(scale.div_ceil(4)).ok()?;
    let mut fraction: String =
        (before..before + after_count).map(|index| format!("{:04}", group(index))).collect();
    fraction.truncate(scale);
    let sign = if *sign == 0x4000 { "-" } else { "" };
    let whole = if whole.is_empty() { "0" } else { whole };
    Some(if scale == 0 { format!("{sign}{whole}") } else { format!("{sign}{whole}.{fraction}") })
}
