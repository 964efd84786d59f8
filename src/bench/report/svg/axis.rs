//! Numbers beside an axis that begins at 0.

/// Fewest steps between 0 and the end of an axis.
const STEPS_MIN: f64 = 3.0;

/// An axis from 0.
pub(super) struct Axis {
    /// At 0 and after each step; the last is the end.
    pub(super) marks: Vec<f64>,
    pub(super) end: f64,
}

// === impl Axis ===

impl Axis {
    /// An axis on which all of these find room, in steps of 1, 2 or 5 times a power of ten.
    pub(super) fn for_all(values: impl Iterator<Item = f64>) -> Self {
        let largest = values.filter(|value| value.is_finite()).fold(0.0, f64::max);
        let largest = if largest > 0.0 { largest } else { 1.0 };
        let widest = largest / STEPS_MIN;
        let power = 10f64.powf(widest.log10().floor());
        let step = [5.0, 2.0, 1.0].into_iter().map(|factor| factor * power);
        let step = step.into_iter().find(|step| *step <= widest).unwrap_or(power);
        let steps = (largest / step).ceil();
        let marks: Vec<f64> = (0..=steps as u32).map(|number| f64::from(number) * step).collect();
        Self { marks, end: steps * step }
    }

    /// Position of a value on the axis, from 0 to 1.
    pub(super) fn share(&self, value: f64) -> f64 {
        value / self.end
    }
}

/// A figure with three digits or more, and a comma at each thousand.
pub(crate) fn figure(value: f64) -> String {
    if !value.is_finite() {
        return "-".to_owned();
    }
    let decimals = match value.abs() {
        magnitude if magnitude >= 99.95 => 0,
        magnitude if magnitude >= 9.995 => 1,
        _ => 2,
    };
    grouped(&format!("{value:.decimals$}"))
}

/// A mark of an axis, without digits that say nothing.
pub(super) fn mark(value: f64) -> String {
    // The step decides how many digits there are: a step of 0.5 gives 1.5.
    let text = format!("{value:.6}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    grouped(if text.is_empty() { "0" } else { text })
}

fn grouped(text: &str) -> String {
    let (whole, rest) = text.split_at(text.find('.').unwrap_or(text.len()));
    let mut grouped = String::new();
    for (at, digit) in whole.chars().enumerate() {
        let left = whole.len() - at;
        if at > 0 && left.is_multiple_of(3) && !grouped.ends_with('-') {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_round_and_hold_the_largest() {
        for (largest, marks) in [
            (941.0, vec!["0", "200", "400", "600", "800", "1,000"]),
            (7.9, vec!["0", "2", "4", "6", "8"]),
            (0.13, vec!["0", "0.02", "0.04", "0.06", "0.08", "0.1", "0.12", "0.14"]),
            (0.0, vec!["0", "0.2", "0.4", "0.6", "0.8", "1"]),
        ] {
            let axis = Axis::for_all([largest, f64::NAN].into_iter());
            let found: Vec<String> = axis.marks.iter().map(|at| mark(*at)).collect();
            assert_eq!(found, marks);
            assert!(axis.end >= largest && axis.share(axis.end) == 1.0);
        }
    }

    #[test]
    fn figures_have_three_digits_and_commas() {
        let figures = [1_234_567.0, 941.4, 12.34, 9.999, 0.126, f64::NAN].map(figure);
        assert_eq!(figures, ["1,234,567", "941", "12.3", "10.0", "0.13", "-"]);
    }
}
