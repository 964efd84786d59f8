//! Drawing a dataset by weights.

/// Entries of the guide: the interval [0, 1) is cut into so many equal ones.
const GUIDE: usize = 256;

/// The weights of one step, laid out for drawing.
#[derive(Clone, Debug, Default)]
pub(super) struct Wheel {
    weights: Vec<f64>,
    /// `bounds[i]`: sum of the weights up to and with `i`; infinite from the last positive on.
    bounds: Vec<f64>,
    /// The first dataset whose bound lies above the start of each interval.
    guide: Vec<u16>,
}

// === impl Wheel ===

impl Wheel {
    /// Takes weights of sum 1, at least one of them positive; free where they are the same.
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
