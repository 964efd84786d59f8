//! Filter weights of one axis, as Pillow computes them.
//!
//! Source: Pillow `Resample.c`, `precompute_coeffs`, `normalize_coeffs_8bpc`, `bicubic_filter`.

/// Bits behind the point of a weight.
pub(super) const PRECISION_BITS: u32 = 32 - 8 - 2;

/// Reach of the bicubic filter at scale 1, in pixels.
const BICUBIC_SUPPORT: f64 = 2.0;

/// For each output position of a window of one axis: the first source position and the weights
/// from there on. Keeps its memory between views.
#[derive(Debug, Default)]
pub struct Taps {
    spans: Vec<Span>,
    weights: Vec<i32>,
    precise: Vec<f64>,
}

#[derive(Clone, Copy, Debug)]
struct Span {
    first: usize,
    weights_start: usize,
    weights_end: usize,
}

// === impl Taps ===

impl Taps {
    /// Weights for the outputs `start .. start + count` of an axis of `from` positions that is
    /// resized as a whole to `to` positions.
    ///
    /// # Panics
    /// `from` or `to` is 0.
    pub fn compute(&mut self, from: u32, to: u32, start: u32, count: u32) {
        assert!(from > 0 && to > 0, "an axis of {from} positions to {to}");
        self.spans.clear();
        self.weights.clear();
        let scale = f64::from(from) / f64::from(to);
        let filter_scale = scale.max(1.0);
        let support = BICUBIC_SUPPORT * filter_scale;
        for position in start..start + count {
            let centre = (f64::from(position) + 0.5) * scale;
            let first = (centre - support + 0.5).max(0.0) as usize;
            let end = ((centre + support + 0.5) as usize).min(from as usize);
            self.push(first, end, centre, 1.0 / filter_scale);
        }
    }

    fn push(&mut self, first: usize, end: usize, centre: f64, inverse_scale: f64) {
        self.precise.clear();
        let weight = |at: usize| bicubic((at as f64 - centre + 0.5) * inverse_scale);
        self.precise.extend((first..end).map(weight));
        let sum: f64 = self.precise.iter().sum();
        let weights_start = self.weights.len();
        let fixed = |&weight: &f64| {
            let share = if sum == 0.0 { weight } else { weight / sum };
            let scaled = share * f64::from(1 << PRECISION_BITS);
            (if share < 0.0 { scaled - 0.5 } else { scaled + 0.5 }) as i32
        };
        self.weights.extend(self.precise.iter().map(fixed));
        self.spans.push(Span { first, weights_start, weights_end: self.weights.len() });
    }

    /// Number of output positions.
    #[must_use]
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    /// Whether there is no output position.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// First source position and weights of an output position of the window.
    #[must_use]
    pub fn at(&self, position: usize) -> (usize, &[i32]) {
        let span = self.spans[position];
        (span.first, &self.weights[span.weights_start..span.weights_end])
    }

    /// The source positions that the window needs: first and one past the last.
    #[must_use]
    pub fn reach(&self) -> (usize, usize) {
        let end = |span: &Span| span.first + (span.weights_end - span.weights_start);
        match (self.spans.first(), self.spans.last()) {
            (Some(first), Some(last)) => (first.first, end(last)),
            _ => (0, 0),
        }
    }
}

/// Keys' cubic with a = -0.5.
fn bicubic(x: f64) -> f64 {
    const A: f64 = -0.5;
    let x = x.abs();
    if x < 1.0 {
        ((A + 2.0) * x - (A + 3.0)) * x * x + 1.0
    } else if x < 2.0 {
        (((x - 5.0) * x + 8.0) * x - 4.0) * A
    } else {
        0.0
    }
}
