//! From floating point to integers, in forms that become one instruction of a vector: plain casts
//! are taken apart into single values by the compiler.
#![allow(unsafe_code)]

/// The level from 0 to 255 that `value` truncates to, as a cast to `u8` does: below 0 and NaN are
/// 0, above 255 is 255.
#[inline(always)]
#[must_use]
#[expect(clippy::manual_clamp, reason = "`clamp` would leave NaN as it is")]
pub fn truncated(value: f32) -> u8 {
    let clipped = value.max(0.0).min(255.0);
    // SAFETY: `max` leaves no NaN, since it returns the other operand; after `min` the value is
    // from 0 to 255, which an `i32` can hold.
    let level = unsafe { clipped.to_int_unchecked::<i32>() };
    level as u8
}

/// As [`truncated`], of binary64.
#[inline(always)]
#[must_use]
#[expect(clippy::manual_clamp, reason = "`clamp` would leave NaN as it is")]
pub fn truncated_f64(value: f64) -> u8 {
    let clipped = value.max(0.0).min(255.0);
    // SAFETY: as in `truncated`.
    let level = unsafe { clipped.to_int_unchecked::<i32>() };
    level as u8
}

/// `value` without its fraction; beyond 2^30 it is 2^30 with its sign, NaN is 2^30.
#[inline(always)]
#[must_use]
#[expect(clippy::manual_clamp, reason = "`clamp` would leave NaN as it is")]
pub fn rounded_to_zero(value: f64) -> i32 {
    const LIMIT: f64 = (1 << 30) as f64;
    let clipped = value.min(LIMIT).max(-LIMIT);
    // SAFETY: `min` leaves no NaN, since it returns the other operand; after `max` the value is
    // within 2^30, which an `i32` can hold.
    unsafe { clipped.to_int_unchecked::<i32>() }
}

#[cfg(test)]
mod tests {
    use super::{rounded_to_zero, truncated, truncated_f64};

    #[test]
    fn it_is_the_saturating_cast() {
        let around =
            (-300..700).map(|n| n as f32 / 2.0).flat_map(|x| [x.next_down(), x, x.next_up()]);
        for value in around.chain([f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -0.0, 1e30]) {
            assert_eq!(truncated(value), value as u8, "{value}");
            assert_eq!(truncated_f64(value.into()), value as u8, "{value}");
        }
    }

    #[test]
    fn it_drops_the_fraction_of_both_signs() {
        for (value, whole) in [(0.99, 0), (-0.99, 0), (-7.5, -7), (7.5, 7), (-1e300, -(1 << 30))] {
            assert_eq!(rounded_to_zero(value), whole);
        }
    }
}
