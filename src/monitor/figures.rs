//! Numbers as people read them.

use headwater_core::pluralize;

/// Shown in place of an unknown number.
pub(crate) const UNKNOWN: &str = "-";

/// A rate with three digits: `8.41`, `950`, `1.20k`.
pub(crate) fn rate(value: Option<f64>) -> String {
    value.map_or_else(|| UNKNOWN.to_owned(), |value| scaled(value, ["", "k", "M", "G"]))
}

/// Bytes each second: `1.20 GB/s`.
pub(crate) fn bytes_rate(value: Option<f64>) -> String {
    let rate = |value| format!("{}/s", scaled(value, [" B", " kB", " MB", " GB"]));
    value.map_or_else(|| UNKNOWN.to_owned(), rate)
}

/// Bytes: `1.20 GB`.
pub(crate) fn bytes(value: Option<u64>) -> String {
    let bytes = |value| scaled(value as f64, [" B", " kB", " MB", " GB"]);
    value.map_or_else(|| UNKNOWN.to_owned(), bytes)
}

/// A share in percent: `31 %`.
pub(crate) fn share(value: Option<f64>) -> String {
    value.map_or_else(|| UNKNOWN.to_owned(), |share| format!("{:.0} %", 100.0 * share))
}

pub(crate) fn count(value: Option<u64>) -> String {
    value.map_or_else(|| UNKNOWN.to_owned(), |value| value.to_string())
}

/// Milliseconds: `12.3`.
pub(crate) fn ms(value: Option<f64>) -> String {
    value.map_or_else(|| UNKNOWN.to_owned(), |value| scaled(value, ["", "k", "M", "G"]))
}

/// A number with its noun: `8 threads`; `- threads` if it is not known.
pub(crate) fn of(value: Option<u64>, noun: &str) -> String {
    let unknown = || pluralize(0, noun).replacen('0', UNKNOWN, 1);
    value.map_or_else(unknown, |value| pluralize(value, noun))
}

fn scaled(value: f64, units: [&str; 4]) -> String {
    let mut value = value;
    let mut unit = units[0];
    for larger in &units[1..] {
        // Rounded to three digits it would be 1000.
        if value.abs() < 999.5 {
            break;
        }
        (value, unit) = (value / 1000.0, larger);
    }
    let digits = match value.abs() {
        0.0 => 0,
        value if value < 9.995 => 2,
        value if value < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.digits$}{unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits() {
        let rates = [0.0, 0.5, 8.414, 9.999, 99.97, 950.4, 999.7, 1204.0, 12_345_678.0].map(Some);
        let expected = ["0", "0.50", "8.41", "10.0", "100", "950", "1.00k", "1.20k", "12.3M"];
        assert_eq!(rates.map(rate), expected);
        assert_eq!(rate(None), "-");
        assert_eq!(bytes_rate(Some(1.5e9)), "1.50 GB/s");
        assert_eq!(bytes(Some(4 << 40)), "4398 GB");
        assert_eq!((share(Some(0.314)), share(None)), ("31 %".to_owned(), "-".to_owned()));
        assert_eq!(
            (of(Some(1), "batch"), of(None, "batch")),
            ("1 batch".to_owned(), "- batches".to_owned())
        );
    }
}
