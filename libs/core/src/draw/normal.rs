//! Numbers of the normal distribution.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::key::DrawRng;

/// Independent numbers of the standard normal distribution, as many as are asked for: equal for
/// equal seeds, on any machine. None is beyond 6.7.
///
/// The transform of Box and Muller, "A Note on the Generation of Random Normal Deviates", 1958.
#[derive(Clone, Debug)]
pub struct Normals {
    chacha: ChaCha8Rng,
    made: [f32; MADE],
    next: usize,
}

/// Numbers that are made at once: vectors of the compiler's.
const MADE: usize = 32;

// === impl Normals ===

impl Normals {
    /// The numbers of a seed.
    #[must_use]
    pub fn new(seed: [u64; 2]) -> Self {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&seed[0].to_le_bytes());
        bytes[8..16].copy_from_slice(&seed[1].to_le_bytes());
        Self { chacha: ChaCha8Rng::from_seed(bytes), made: [0.0; MADE], next: MADE }
    }

    /// Writes the next numbers. It is compiled for the instructions of whoever calls it, which change no bit.
    #[inline(always)]
    pub fn fill(&mut self, mut to: &mut [f32]) {
        while !to.is_empty() {
            if self.next == MADE {
                self.make();
            }
            let count = to.len().min(MADE - self.next);
            let (now, rest) = to.split_at_mut(count);
            now.copy_from_slice(&self.made[self.next..][..count]);
            self.next += count;
            to = rest;
        }
    }

    #[inline(always)]
    fn make(&mut self) {
        let mut words = [0; MADE / 2];
        words.iter_mut().for_each(|word| *word = self.chacha.next_u64());
        let (ones, others) = self.made.split_at_mut(MADE / 2);
        for ((word, one), other) in words.iter().zip(ones).zip(others) {
            let (a, b) = pair(*word);
            (*one, *other) = (a as f32, b as f32);
        }
        self.next = 0;
    }
}

impl Iterator for Normals {
    type Item = f32;

    fn next(&mut self) -> Option<f32> {
        if self.next == MADE {
            self.make();
        }
        self.next += 1;
        Some(self.made[self.next - 1])
    }
}

// === impl DrawRng ===

impl DrawRng {
    /// Draws one number of the standard normal distribution.
    pub fn normal(&mut self) -> f64 {
        pair(self.word()).0
    }
}

/// What a word of 32 bits is a multiple of, from 0 to 1.
const UNIT: f64 = 1.0 / (1u64 << 32) as f64;

/// Two independent numbers from 64 bits: operations that are the same on all machines.
#[inline(always)]
fn pair(word: u64) -> (f64, f64) {
    // Above 0, at most 1, whose logarithm is 0: twice that below zero would be -0, and `max` may return either zero.
    let square = -2.0 * log((f64::from((word >> 32) as u32) + 1.0) * UNIT);
    let radius = if square > 0.0 { square } else { 0.0 }.sqrt();
    let (sin, cos) = turned(word as u32);
    (radius * cos, radius * sin)
}

/// The natural logarithm of a normal number above 0, within 1e-11: 2 artanh((m - 1) / (m + 1)) of the mantissa m.
#[inline(always)]
fn log(value: f64) -> f64 {
    const ROOT: u64 = 0x3fe6_a09e_667f_3bcd;
    // The exponent, such that the mantissa is between the square roots of 1/2 and 2. In the upper half: processors
    // without AVX-512 do not shift signed words of 64 bits.
    let exponent = value.to_bits().wrapping_sub(ROOT) & 0xfff0_0000_0000_0000;
    let mantissa = f64::from_bits(value.to_bits().wrapping_sub(exponent));
    let exponent = (exponent >> 32) as i32 >> 20;
    let s = (mantissa - 1.0) / (mantissa + 1.0);
    let z = s * s;
    let series = 1.0 + z * (1.0 / 3.0 + z * (0.2 + z * (1.0 / 7.0 + z * (1.0 / 9.0 + z / 11.0))));
    f64::from(exponent) * std::f64::consts::LN_2 + 2.0 * s * series
}

/// Sine and cosine of a share of a turn, in units of 2^-32, within 1e-11.
#[inline(always)]
fn turned(share: u32) -> (f64, f64) {
    // To the nearest.
    let quarter = ((share >> 30) + (share >> 29 & 1)) as i32;
    let r = (f64::from(share) * UNIT - f64::from(quarter) * 0.25) * std::f64::consts::TAU;
    let z = r * r;
    let sin = z * (1.0 / 362_880.0 - z / 39_916_800.0);
    let sin = r * (1.0 + z * (-1.0 / 6.0 + z * (1.0 / 120.0 + z * (-1.0 / 5040.0) + z * sin)));
    let cos = z * (1.0 / 40_320.0 + z * (-1.0 / 3_628_800.0 + z / 479_001_600.0));
    let cos = 1.0 + z * (-0.5 + z * (1.0 / 24.0 + z * (-1.0 / 720.0) + z * cos));
    let (one, other) = if quarter & 1 == 0 { (sin, cos) } else { (cos, sin) };
    let sin = if quarter & 2 == 0 { one } else { -one };
    let cos = if (quarter + 1) & 2 == 0 { other } else { -other };
    (sin, cos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn their_moments_are_those_of_the_distribution() {
        let count = 200_000;
        let values = Normals::new([3, 4]).take(count).map(f64::from);
        let values: Vec<f64> = values.collect();
        let moment = |power: i32| values.iter().map(|v| v.powi(power)).sum::<f64>() / count as f64;
        // Within five standard errors.
        let near = |found: f64, expected: f64, variance: f64| {
            let error = 5.0 * (variance / count as f64).sqrt();
            assert!((found - expected).abs() < error, "{found} is not {expected}");
        };
        near(moment(1), 0.0, 1.0);
        near(moment(2), 1.0, 2.0);
        near(moment(3), 0.0, 15.0);
        near(moment(4), 3.0, 96.0);
        let beyond = values.iter().filter(|v| v.abs() > 1.959_963_984_540_054).count();
        near(beyond as f64 / count as f64, 0.05, 0.05 * 0.95);
    }

    #[test]
    fn equal_seeds_give_equal_numbers() {
        let of = |seed| Normals::new(seed).take(70).collect::<Vec<f32>>();
        assert_eq!(of([1, 2]), of([1, 2]));
        assert_ne!(of([1, 2]), of([2, 1]));
        assert_eq!(of([1, 2])[..60], Normals::new([1, 2]).take(60).collect::<Vec<f32>>());
    }

    #[test]
    fn they_are_the_same_however_many_are_asked_for() {
        let one_by_one: Vec<f32> = Normals::new([5, 6]).take(400).collect();
        let mut normals = Normals::new([5, 6]);
        let mut at_once = vec![0.0; 300];
        at_once.chunks_mut(7).for_each(|some| normals.fill(some));
        at_once.extend(normals.take(100));
        assert_eq!(at_once, one_by_one);
    }

    #[test]
    fn they_are_what_the_transform_says() {
        for n in 0..100_000u64 {
            let word = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let unit = |bits: u64| bits as f64 / (1u64 << 32) as f64;
            let radius = (-2.0 * unit((word >> 32) + 1).ln()).sqrt();
            let (sin, cos) = (std::f64::consts::TAU * unit(word & 0xffff_ffff)).sin_cos();
            let (one, other) = pair(word);
            assert!((one - radius * cos).abs() < 1e-9, "{word:x}: {one}");
            assert!((other - radius * sin).abs() < 1e-9, "{word:x}: {other}");
        }
        let (one, other) = pair(u64::MAX - u64::from(u32::MAX));
        assert_eq!([one.to_bits(), other.to_bits()], [0, 0], "no -0");
        assert!(pair(0).0 < 6.7);
    }
}
