//! Numbers of the symmetric beta and Dirichlet distributions.

use super::key::DrawRng;

/// Draws from Beta(alpha, alpha), as G1 / (G1 + G2) of two gamma variates. Computed with logarithms,
/// because variates of a small alpha are too small for a float.
pub(crate) fn beta(alpha: f64, rng: &mut DrawRng) -> f64 {
    let (one, other) = (log_gamma(alpha, rng), log_gamma(alpha, rng));
    1.0 / (1.0 + libm::exp(other - one))
}

/// Draws from the Dirichlet distribution with all parameters `alpha`: shares that add up to 1.
pub(crate) fn dirichlet<const N: usize>(alpha: f64, count: usize, rng: &mut DrawRng) -> [f64; N] {
    let mut shares = [0.0; N];
    let shares_drawn = &mut shares[..count];
    shares_drawn.fill_with(|| log_gamma(alpha, rng));
    let most = shares_drawn.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    shares_drawn.iter_mut().for_each(|share| *share = libm::exp(*share - most));
    let sum: f64 = shares_drawn.iter().sum();
    shares_drawn.iter_mut().for_each(|share| *share /= sum);
    shares
}

/// The logarithm of a variate of Gamma(shape, 1).
///
/// Marsaglia and Tsang, "A Simple Method for Generating Gamma Variables", 2000; shapes below 1 by that of
/// shape + 1 and a power of a uniform number, as in its section 6.
fn log_gamma(shape: f64, rng: &mut DrawRng) -> f64 {
    if shape < 1.0 {
        let above = log_gamma(shape + 1.0, rng);
        return above + libm::log(1.0 - rng.unit()) / shape;
    }
    let d = shape - 1.0 / 3.0;
    let c = 1.0 / (9.0 * d).sqrt();
    loop {
        let x = rng.normal();
        let v = 1.0 + c * x;
        let v = v * v * v;
        // Above 0, so that its logarithm is a number.
        let u = 1.0 - rng.unit();
        if v > 0.0 && libm::log(u) < 0.5 * x * x + d - d * v + d * libm::log(v) {
            return libm::log(d * v);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SampleId;
    use crate::draw::DrawKey;

    fn values(alpha: f64, count: usize) -> Vec<f64> {
        let key = DrawKey { seed: 3, epoch: 0, pass: 0, sample: SampleId(1), stream: 9 };
        let mut rng = key.rng();
        (0..count).map(|_| beta(alpha, &mut rng)).collect()
    }

    #[test]
    fn moments_are_those_of_the_distribution() {
        let count = 100_000;
        for alpha in [0.01, 0.2, 0.8, 1.0, 3.0, 40.0] {
            let values = values(alpha, count);
            assert!(values.iter().all(|value| (0.0..=1.0).contains(value)), "{alpha}");
            let mean = values.iter().sum::<f64>() / count as f64;
            let squares = values.iter().map(|v| (v - 0.5) * (v - 0.5));
            let found = squares.sum::<f64>() / count as f64;
            let variance = 1.0 / (4.0 * (2.0 * alpha + 1.0));
            let error = 5.0 * (variance / count as f64).sqrt();
            assert!((mean - 0.5).abs() < error, "{alpha}: mean {mean}");
            // The fourth moment is 1/16 at most.
            let error = 5.0 * (1.0 / 16.0 / count as f64).sqrt();
            assert!((found - variance).abs() < error, "{alpha}: variance {found}");
        }
    }

    #[test]
    fn quantiles_are_exact_where_they_are_known() {
        let count = 100_000;
        let below = |alpha, at: f64| {
            let below = values(alpha, count).into_iter().filter(|value| *value < at).count();
            below as f64 / count as f64
        };
        // Beta(1, 1) is uniform; Beta(1/2, 1/2) is the arcsine distribution; Beta(2, 2) is 3x² - 2x³.
        for at in [0.01, 0.1, 0.25, 0.6, 0.9, 0.99f64] {
            let arcsine = 2.0 / std::f64::consts::PI * at.sqrt().asin();
            let known = [(1.0, at), (0.5, arcsine), (2.0, 3.0 * at * at - 2.0 * at * at * at)];
            for (alpha, expected) in known {
                let error = 5.0 * (expected * (1.0 - expected) / count as f64).sqrt();
                let found = below(alpha, at);
                assert!((found - expected).abs() < error, "{alpha} below {at}: {found}");
            }
        }
    }

    #[test]
    fn shares_add_up_to_one_and_each_is_of_a_beta_distribution() {
        let key = DrawKey { seed: 5, epoch: 0, pass: 0, sample: SampleId(1), stream: 9 };
        let (mut rng, count) = (key.rng(), 100_000);
        // A share of three with alpha 1 is of Beta(1, 2): mean 1/3, variance 1/18.
        let (mut sums, mut squares) = ([0.0; 3], [0.0; 3]);
        for _ in 0..count {
            let shares: [f64; 4] = dirichlet(1.0, 3, &mut rng);
            assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-12 && shares[3] == 0.0);
            for (n, share) in shares[..3].iter().enumerate() {
                sums[n] += share;
                squares[n] += (share - 1.0 / 3.0) * (share - 1.0 / 3.0);
            }
        }
        let error = 5.0 * (1.0 / 18.0 / f64::from(count)).sqrt();
        for n in 0..3 {
            let (mean, variance) = (sums[n] / f64::from(count), squares[n] / f64::from(count));
            assert!((mean - 1.0 / 3.0).abs() < error, "mean {mean}");
            // The fourth central moment of Beta(1, 2) is 1/135.
            let error = 5.0 * (1.0 / 135.0 / f64::from(count)).sqrt();
            assert!((variance - 1.0 / 18.0).abs() < error, "variance {variance}");
        }
    }
}
