//! A clock that stands still until it is told otherwise.

use serde_json::{Value as Json, json};

const NANOSECONDS: i128 = 1_000_000_000;
/// Seconds; about the years -9999 to 9999, which is what `time` can write.
const FURTHEST: f64 = 3.2e11;

#[derive(Debug, Clone, Copy)]
pub struct Clock {
    /// Nanoseconds since the Unix epoch.
    now: i128,
    /// Goes on with it, but never back.
    monotonic: u64,
}

impl Clock {
    /// `monotonic` is where the clock that never goes back stands already.
    pub fn new(now: i128, monotonic: u64) -> Clock {
        Clock { now, monotonic }
    }

    pub fn nanoseconds(&self) -> i128 {
        self.now
    }

    pub fn set(&mut self, now: i128) {
        let forward = u64::try_from(now - self.now).unwrap_or(0);
        self.monotonic = self.monotonic.saturating_add(forward);
        self.now = now;
    }

    pub fn advance(&mut self, seconds: f64) {
        // The cast saturates: further than that nothing can be told apart.
        let by = (seconds.min(FURTHEST) * 1e9) as i128;
        self.set(self.now + by);
    }

    /// As [`starloom_engine::Effect::Now`] answers.
    pub fn now(&self) -> Json {
        let seconds = self.now.div_euclid(NANOSECONDS) as i64;
        json!({"seconds": seconds, "nanoseconds": self.now.rem_euclid(NANOSECONDS) as u32})
    }

    pub fn monotonic(&self) -> Json {
        Json::from(self.monotonic)
    }
}

/// A script's number of seconds. `None` when no date is that far away.
pub fn nanoseconds_from(seconds: &Json) -> Option<i128> {
    if let Some(whole) = seconds.as_i64() {
        return Some(i128::from(whole) * NANOSECONDS).filter(|_| (whole as f64).abs() <= FURTHEST);
    }
    let seconds = seconds.as_f64().filter(|seconds| seconds.abs() <= FURTHEST)?;
    // A float of today's seconds is good for microseconds; more digits would be noise.
    Some((seconds * 1e6).round() as i128 * 1_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_moves_only_when_told() {
        let mut clock = Clock::new(nanoseconds_from(&json!(1_700_000_000.25)).unwrap(), 7);
        assert_eq!(clock.now(), json!({"seconds": 1_700_000_000, "nanoseconds": 250_000_000}));
        clock.advance(1.5);
        assert_eq!(clock.now(), json!({"seconds": 1_700_000_001, "nanoseconds": 750_000_000}));
        assert_eq!(clock.monotonic(), json!(1_500_000_007));
        clock.set(-1);
        assert_eq!(clock.now(), json!({"seconds": -1, "nanoseconds": 999_999_999}));
        assert_eq!(clock.monotonic(), json!(1_500_000_007), "never back");
        assert_eq!(nanoseconds_from(&json!(1e300)), None);
        assert_eq!(nanoseconds_from(&json!(i64::MAX)), None);
    }
}
