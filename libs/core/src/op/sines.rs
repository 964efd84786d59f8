//! Sines and cosines that are rounded to the nearest number, but for the rarest cases: a matrix that is one last place
//! off moves a pixel here and there.
//!
//! Numbers are sums of two: Dekker, "A Floating-Point Technique for Extending the Available Precision", 1971.

use std::f64::consts::FRAC_PI_2;

/// What π/2 has beyond [`FRAC_PI_2`].
const FRAC_PI_2_REST: f64 = 6.123_233_995_736_766e-17;
/// Terms of the series: the next would be below 1e-32.
const TERMS: u32 = 14;

/// The sum of a number and of what it lacks.
#[derive(Clone, Copy)]
struct Double(f64, f64);

/// Sine and cosine of an angle of a few turns at most, in radians.
pub(super) fn sin_cos(angle: f64) -> (f64, f64) {
    let quarters = (angle / FRAC_PI_2).round_ties_even();
    let rest =
        Double(angle, 0.0).plus(Double(FRAC_PI_2, FRAC_PI_2_REST).times(Double(-quarters, 0.0)));
    let (sin, cos) = (series(rest, 1), series(rest, 0));
    match quarters.rem_euclid(4.0) as u32 {
        0 => (sin, cos),
        1 => (cos, -sin),
        2 => (-sin, -cos),
        _ => (-cos, sin),
    }
}

/// Taylor's series about 0, from the power `first` on: 0 is the cosine, 1 the sine.
fn series(angle: Double, first: u32) -> f64 {
    let square = angle.times(angle);
    let mut term = if first == 0 { Double(1.0, 0.0) } else { angle };
    let mut sum = term;
    for n in 1..TERMS {
        let power = 2 * n + first;
        term = term.times(square).over(-f64::from(power * (power - 1)));
        sum = sum.plus(term);
    }
    sum.0 + sum.1
}

// === impl Double ===

impl Double {
    /// The sum of two numbers, and what it lacks.
    fn of_sum(a: f64, b: f64) -> Self {
        let sum = a + b;
        let back = sum - a;
        Self(sum, (a - (sum - back)) + (b - back))
    }

    fn plus(self, other: Self) -> Self {
        let Self(sum, rest) = Self::of_sum(self.0, other.0);
        Self::of_sum(sum, rest + self.1 + other.1)
    }

    fn times(self, other: Self) -> Self {
        let product = self.0 * other.0;
        let rest = self.0.mul_add(other.0, -product);
        Self::of_sum(product, rest + (self.0 * other.1 + self.1 * other.0))
    }

    fn over(self, by: f64) -> Self {
        let quotient = self.0 / by;
        let rest = (-quotient).mul_add(by, self.0) + self.1;
        Self::of_sum(quotient, rest / by)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_are_those_of_the_platform_within_its_last_place() {
        let mut equal = 0;
        for n in -20_000..20_000 {
            let angle = f64::from(n) * 0.000_347;
            let (sin, cos) = sin_cos(angle);
            for (found, expected) in [(sin, angle.sin()), (cos, angle.cos())] {
                let ulp = expected.abs().next_up() - expected.abs();
                assert!((found - expected).abs() <= ulp, "{angle}: {found} is not {expected}");
                equal += u32::from(found == expected);
            }
        }
        assert!(equal > 76_000, "{equal} of 80000");
    }

    #[test]
    fn an_eighth_of_a_turn_is_rounded_to_the_nearest() {
        // The angle is less than π/4 by 3e-17, so its sine is the smaller of the two neighbours.
        let (sin, cos) = sin_cos(45f64.to_radians());
        let nearest = std::f64::consts::FRAC_1_SQRT_2;
        assert_eq!((sin, cos), (nearest.next_down(), nearest));
        assert_eq!(sin_cos(0.0), (0.0, 1.0));
    }
}
