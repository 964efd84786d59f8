//! What NumPy computes where Megatron calls it, to the bit.

use rand_mt::Mt;

/// Terms that are added without being divided again.
const BLOCK: usize = 128;
/// Partial sums of a block.
const LANES: usize = 8;

/// `numpy.random.RandomState`: the Mersenne Twister with the seeding of 2002.
#[derive(Debug)]
pub struct RandomState(Mt);

// === impl RandomState ===

impl RandomState {
    /// As `RandomState(seed)`.
    #[must_use]
    pub fn new(seed: u32) -> Self {
        Self(Mt::new(seed))
    }

    /// As `shuffle` of an array with one axis.
    pub fn shuffle<T>(&mut self, values: &mut [T]) {
        for last in (1..values.len()).rev() {
            values.swap(last, self.interval(last as u64) as usize);
        }
    }

    /// A number from 0 to `most`: bits are drawn until they are no larger.
    fn interval(&mut self, most: u64) -> u64 {
        let mask = u64::MAX.checked_shr(most.leading_zeros()).unwrap_or(0);
        loop {
            let low = |random: &mut Mt| u64::from(random.next_u32());
            let drawn = match u32::try_from(most) {
                Ok(_) => low(&mut self.0),
                Err(_) => (low(&mut self.0) << 32) | low(&mut self.0),
            };
            if drawn & mask <= most {
                return drawn & mask;
            }
        }
    }
}

/// `numpy.sum` of an array with one axis.
#[must_use]
pub fn pairwise_sum(values: &[f64]) -> f64 {
    if values.len() < LANES {
        return values.iter().fold(-0.0, |sum, value| sum + value);
    }
    if values.len() <= BLOCK {
        let mut lanes: [f64; LANES] = values[..LANES].try_into().expect("eight values");
        let rows = values[LANES..].chunks_exact(LANES);
        let rest = rows.remainder();
        for row in rows {
            for (lane, value) in lanes.iter_mut().zip(row) {
                *lane += value;
            }
        }
        let [a, b, c, d, e, f, g, h] = lanes;
        let sum = ((a + b) + (c + d)) + ((e + f) + (g + h));
        return rest.iter().fold(sum, |sum, value| sum + value);
    }
    let half = values.len() / 2;
    let (left, right) = values.split_at(half - half % LANES);
    pairwise_sum(left) + pairwise_sum(right)
}

/// Shares of the sum: Megatron's `normalize`.
pub(crate) fn normalize(weights: &[f64]) -> Vec<f64> {
    let sum = pairwise_sum(weights);
    weights.iter().map(|weight| weight / sum).collect()
}
