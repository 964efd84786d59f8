//! binary32 to FP8 E4M3 (finite only: no infinities, 0x7f is NaN), rounded half to even,
//! saturating at 448.

/// Exponent bias of E4M3.
const BIAS: i32 = 7;
/// Bits of the significand behind the point.
const FRACTION_BITS: i32 = 3;

/// The nearest E4M3 value; beyond 448 it is 448 with the sign. NaN gives 0x7f.
#[must_use]
pub fn from_f32(value: f32) -> u8 {
    let sign = ((value.to_bits() >> 24) & 0x80) as u8;
    if value.is_nan() {
        return sign | 0x7f;
    }
    let magnitude = f64::from(value.abs());
    if magnitude >= 448.0 {
        return sign | 0x7e;
    }
    // The exponent of the value, not below that of the smallest normal number.
    let exponent = ((value.to_bits() >> 23) & 0xff) as i32 - 127;
    let exponent = exponent.max(1 - BIAS);
    // Steps of 2^(exponent - 3): below 8 the number is subnormal; a sum of 16 carries into the
    // next exponent, which the addition below does without extra code.
    let steps = (magnitude * 2f64.powi(FRACTION_BITS - exponent)).round_ties_even() as i32;
    let biased = exponent + BIAS - 1;
    sign | ((biased << FRACTION_BITS) + steps) as u8
}

/// The value of an E4M3 number.
#[must_use]
pub fn to_f32(bits: u8) -> f32 {
    let exponent = i32::from(bits >> FRACTION_BITS & 0xf);
    let fraction = f32::from(bits & 0x7);
    let magnitude = match (exponent, bits & 0x7) {
        (0xf, 0x7) => f32::NAN,
        (0, _) => fraction * 2f32.powi(1 - BIAS - FRACTION_BITS),
        _ => (8.0 + fraction) * 2f32.powi(exponent - BIAS - FRACTION_BITS),
    };
    if bits & 0x80 == 0 { magnitude } else { -magnitude }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every finite non-negative E4M3 number, ascending with its bits.
    fn numbers() -> Vec<f32> {
        (0..=0x7eu8).map(to_f32).collect()
    }

    #[test]
    fn every_number_comes_back() {
        for bits in (0..=0xffu8).filter(|bits| bits & 0x7f != 0x7f) {
            assert_eq!(from_f32(to_f32(bits)), bits, "{bits:#04x}");
        }
    }

    #[test]
    fn values_between_two_numbers_go_to_the_nearer_and_ties_to_the_even_one() {
        let numbers = numbers();
        for (low, pair) in numbers.windows(2).enumerate() {
            let middle = (pair[0] + pair[1]) / 2.0;
            let even = if low % 2 == 0 { low } else { low + 1 };
            assert_eq!(usize::from(from_f32(middle)), even, "tie at {middle}");
            assert_eq!(usize::from(from_f32(middle.next_down())), low, "below {middle}");
            assert_eq!(usize::from(from_f32(middle.next_up())), low + 1, "above {middle}");
        }
    }

    #[test]
    fn beyond_the_largest_number_it_saturates_with_the_sign() {
        for value in [448.1, 464.0, 1e30, f32::INFINITY] {
            assert_eq!(to_f32(from_f32(value)), 448.0);
            assert_eq!(to_f32(from_f32(-value)), -448.0);
        }
    }
}
