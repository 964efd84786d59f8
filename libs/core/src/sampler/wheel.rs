//! Drawing a dataset by weights.

/// Entries of the guide: the interval [0, 1) is divided into this number of equal parts.
const GUIDE: usize = 256;

/// The weights of one step, laid out for drawing.
#[derive(Clone, Debug, Default)]
pub(super) struct Wheel {
    weights: Vec<f64>,
    /// `bounds[i]`: sum of the weights up to and with `i`; infinite from the last positive on.
    bounds: Vec<f64>,
    /// For each interval, the first dataset whose bound is above the interval's start.
    guide: Vec<u16>,
}

// === impl Wheel ===

impl Wheel {
    /// Takes weights with a sum of 1, at least one of them positive. Costs nothing if they did not
    /// change.
    pub(super) fn set(&mut self, weights: Vec<f64>) {
        if weights == self.weights {
            return;
        }
        let last = weights.iter().rposition(|&weight| weight > 0.0).unwrap_or(0);
        let mut sum = 0.0;
        self.bounds.clear();
        self.bounds.extend(weights.iter().enumerate().map(|(i, weight)| {
            sum += weight;
            if i < last { sum } else { f64::INFINITY }
        }));
        self.guide.clear();
        let mut dataset = 0;
        self.guide.extend((0..GUIDE).map(|interval| {
            while self.bounds[dataset] <= interval as f64 / GUIDE as f64 {
                dataset += 1;
            }
            dataset as u16
        }));
        self.weights = weights;
    }

    /// The dataset for a number in [0, 1); never one of weight 0.
    pub(super) fn pick(&self, unit: f64) -> usize {
        let mut dataset = usize::from(self.guide[(unit * GUIDE as f64) as usize]);
        while self.bounds[dataset] <= unit {
            dataset += 1;
        }
        dataset
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The definition: the first dataset at which the running sum exceeds the number.
    fn plain(weights: &[f64], unit: f64) -> usize {
        let mut sum = 0.0;
        let over = weights.iter().position(|weight| {
            sum += weight;
            unit < sum
        });
        over.unwrap_or_else(|| weights.iter().rposition(|&weight| weight > 0.0).unwrap())
    }

    #[test]
    fn the_guide_changes_no_choice() {
        let crowd: Vec<f64> = (0..1000).map(|i| f64::from(i % 7) / 2997.0).collect();
        let lists: [&[f64]; 7] = [
            &[1.0],
            &[0.0, 1.0, 0.0],
            &[0.5, 0.5],
            &[0.3, 0.7],
            &[1e-12, 0.3, 0.0, 0.7, 0.0],
            &[0.1; 10],
            &crowd,
        ];
        for weights in lists {
            let mut wheel = Wheel::default();
            wheel.set(vec![1.0; 3]);
            wheel.set(weights.to_vec());
            let below_one = 1.0 - f64::EPSILON / 2.0;
            for unit in (0..4096).map(|i| f64::from(i) / 4096.0).chain([1e-13, 0.3, below_one]) {
                let dataset = wheel.pick(unit);
                assert_eq!(dataset, plain(weights, unit), "{unit} by {weights:?}");
                assert!(weights[dataset] > 0.0);
            }
        }
    }
}
