//! Numbers of the normal distribution.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::key::DrawRng;

/// Independent numbers of the standard normal distribution, as many as are asked for: equal for
/// equal seeds, on any machine.
///
/// The transform of Box and Muller, "A Note on the Generation of Random Normal Deviates", 1958.
#[derive(Clone, Debug)]
pub struct Normals {
    chacha: ChaCha8Rng,
    other: Option<f64>,
}

// === impl Normals ===

impl Normals {
    /// The numbers of a seed.
    #[must_use]
    pub fn new(seed: [u64; 2]) -> Self {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&seed[0].to_le_bytes());
        bytes[8..16].copy_from_slice(&seed[1].to_le_bytes());
        Self { chacha: ChaCha8Rng::from_seed(bytes), other: None }
    }
}

impl Iterator for Normals {
    type Item = f64;

    fn next(&mut self) -> Option<f64> {
        let kept = self.other.take();
        kept.or_else(|| {
            let (one, other) = pair(self.chacha.next_u64(), self.chacha.next_u64());
            self.other = Some(other);
            Some(one)
        })
    }
}

// === impl DrawRng ===

impl DrawRng {
    /// Of the standard normal distribution. Draws two numbers.
    pub fn normal(&mut self) -> f64 {
        pair(self.word(), self.word()).0
    }
}

/// Two independent numbers from 128 bits.
fn pair(one: u64, other: u64) -> (f64, f64) {
    const UNIT: f64 = 1.0 / (1u64 << 53) as f64;
    // Above 0, at most 1.
    let radius = ((one >> 11) + 1) as f64 * UNIT;
    let angle = std::f64::consts::TAU * ((other >> 11) as f64 * UNIT);
    let radius = (-2.0 * libm::log(radius)).sqrt();
    (radius * libm::cos(angle), radius * libm::sin(angle))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn their_moments_are_those_of_the_distribution() {
        let count = 200_000;
        let values: Vec<f64> = Normals::new([3, 4]).take(count).collect();
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
        let of = |seed| Normals::new(seed).take(7).collect::<Vec<f64>>();
        assert_eq!(of([1, 2]), of([1, 2]));
        assert_ne!(of([1, 2]), of([2, 1]));
        assert_eq!(of([1, 2])[..6], Normals::new([1, 2]).take(6).collect::<Vec<f64>>());
    }
}
