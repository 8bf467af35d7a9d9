//! Medians and percentiles, and numbers as people read them.

use std::time::Duration;

/// The value below which `percent` of the values lie. The slice must not be empty.
pub fn percentile<T: Copy + PartialOrd>(values: &[T], percent: usize) -> T {
    let mut sorted = values.to_vec();
    sorted.sort_by(|a, b| a.partial_cmp(b).expect("no measured value is NaN"));
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted[rank - 1]
}

pub fn median<T: Copy + PartialOrd>(values: &[T]) -> T {
    percentile(values, 50)
}

/// The median of the quotients of two interleaved series, pair by pair: what
/// slowed the machine for a while slowed both halves of the same pairs.
pub fn median_ratio(ours: &[f64], theirs: &[f64]) -> f64 {
    let ratios: Vec<f64> = ours.iter().zip(theirs).map(|(our, their)| our / their).collect();
    median(&ratios)
}

pub fn seconds(times: &[Duration]) -> Vec<f64> {
    times.iter().map(Duration::as_secs_f64).collect()
}

pub fn show_seconds(seconds: f64) -> String {
    match seconds {
        s if s < 1e-3 => format!("{:.1} µs", s * 1e6),
        s if s < 1.0 => format!("{:.1} ms", s * 1e3),
        s => format!("{s:.2} s"),
    }
}

pub fn show_megabytes(bytes: u64) -> String {
    format!("{:.1} MB", bytes as f64 / 1e6)
}

#[test]
fn percentiles_are_measured_values() {
    let values: Vec<u32> = (1..=200).rev().collect();
    assert_eq!(median(&values), 100);
    assert_eq!(percentile(&values, 99), 198);
    assert_eq!(percentile(&[7], 99), 7);
    assert_eq!(median(&[3, 1, 2]), 2);
}

#[test]
fn times_have_a_fitting_unit() {
    assert_eq!([23.4e-6, 1.52e-3, 1.5].map(show_seconds), ["23.4 µs", "1.5 ms", "1.50 s"]);
}
