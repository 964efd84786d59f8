//! From binary32 to a level.

/// The level from 0 to 255 that `value` truncates to; below 0 and NaN are 0, above 255 is 255.
///
/// The same as a cast to `u8`, in a form that becomes one instruction of a vector: the cast is
/// taken apart into single values by the compiler.
#[inline(always)]
#[must_use]
pub fn truncated(value: f32) -> u8 {
    let clipped = value.max(0.0).min(255.0);
    // SAFETY: `max` leaves no NaN, since it returns the other operand; after `min` the value is
    // from 0 to 255, which an `i32` can hold.
    let level = unsafe { clipped.to_int_unchecked::<i32>() };
    level as u8
}

#[cfg(test)]
mod tests {
    use super::truncated;

    #[test]
    fn it_is_the_saturating_cast() {
        let around = (-300..700).map(|n| n as f32 / 2.0).flat_map(|x| [x.next_down(), x, x.next_up()]);
        for value in around.chain([f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -0.0, 1e30]) {
            assert_eq!(truncated(value), value as u8, "{value}");
        }
    }
}
