//! Filter weights of one axis, as Pillow computes them.
//!
//! Source: Pillow `Resample.c`, `precompute_coeffs`, `normalize_coeffs_8bpc` and the filters; for the nearest
//! pixel `ImagingScaleAffine` in `Geometry.c`.

use headwater_core::draw::Filter as Kind;

use crate::ops::level::rounded_to_zero;
use crate::ops::resize::Axis;
use crate::simd::{Simd, twin};

/// Bits behind the point of a weight.
pub(super) const PRECISION_BITS: u32 = 32 - 8 - 2;

/// Some twins compute the weights of this many outputs together.
const OUTPUTS_TOGETHER: u64 = 16;
/// Bytes of a weight in all tables of a twin together, at most.
const TAP_BYTES: u64 = 12;
/// Bytes of one tap of the outputs that are computed together, before these become weights.
const SHARE_BYTES: u64 = 128;

/// Weights are computed in groups of this many, which become vectors.
const GROUP: usize = 8;

/// For each output position of a window of one axis: the first source position and the weights
/// from there on. Keeps its memory between views.
#[derive(Debug, Default)]
pub struct Taps {
    spans: Vec<Span>,
    weights: Vec<[i32; GROUP]>,
    precise: Vec<[f64; GROUP]>,
    /// Weights of [`Taps::compute_shares`].
    shares: Vec<f64>,
}

/// The filter of an axis: where it lies over the source for each output position.
pub(super) struct Filter {
    /// Source positions in all, and where the first output position begins among them.
    pub(super) len: u32,
    pub(super) begin: f64,
    /// Source positions for one output position.
    pub(super) step: f64,
    /// The factor by which the filter is wider than it is at scale 1.
    pub(super) scale: f64,
    pub(super) support: f64,
    pub(super) kind: Kind,
}

#[derive(Clone, Copy, Debug)]
struct Span {
    first: usize,
    /// Index of the first weight, and number of weights.
    start: usize,
    count: usize,
}

// === impl Filter ===

impl Filter {
    #[inline(always)]
    pub(super) fn new(axis: &Axis) -> Self {
        let [begin, end] = axis.stretch;
        let step = (end - begin) / f64::from(axis.to);
        let scale = step.max(1.0);
        let kind = axis.filter;
        Self { len: axis.len, begin, step, scale, support: reach(kind) * scale, kind }
    }

    #[inline(always)]
    pub(super) fn centre(&self, position: u32) -> f64 {
        self.begin + (f64::from(position) + 0.5) * self.step
    }

    /// The nearest source position. Pillow adds up steps, and so do we.
    fn nearest(&self, position: u32) -> usize {
        let first = self.begin + self.step * 0.5;
        let at = (0..position).fold(first, |at, _| at + self.step);
        (at as usize).min(self.len as usize - 1)
    }

    /// First source position, and one past the last.
    #[inline(always)]
    pub(super) fn span(&self, position: u32) -> (usize, usize) {
        if self.kind == Kind::Nearest {
            let first = self.nearest(position);
            return (first, first + 1);
        }
        let centre = self.centre(position);
        let first = (centre - self.support + 0.5).max(0.0) as usize;
        let end = ((centre + self.support + 0.5) as usize).min(self.len as usize);
        (first, end)
    }

    /// What a source position counts for, at `x` pixels of scale 1 from an output's centre.
    #[inline(always)]
    pub(super) fn share(&self, x: f64) -> f64 {
        match self.kind {
            Kind::Nearest | Kind::Box => covered(x),
            Kind::Bilinear => bilinear(x),
            Kind::Bicubic => bicubic(x),
        }
    }
}

// === impl Axis ===

impl Axis {
    /// The source positions that the wanted outputs need, counted from the base: first and one past
    /// the last. Equal to [`Taps::reach`].
    #[must_use]
    pub fn reach(&self) -> (u32, u32) {
        let filter = Filter::new(self);
        let (first, _) = filter.span(self.start);
        let (_, end) = filter.span(self.start + self.count - 1);
        (first as u32, end as u32)
    }

    /// Minimum bytes that hold the weights of the wanted outputs, whichever the instructions.
    #[must_use]
    pub fn table_bytes(&self) -> u64 {
        let outputs = u64::from(self.count).next_multiple_of(OUTPUTS_TOGETHER);
        self.taps_max() * (outputs * TAP_BYTES + SHARE_BYTES)
    }

    /// Source positions that one output needs, at most.
    fn taps_max(&self) -> u64 {
        let filter = Filter::new(self);
        (2.0 * filter.support + 2.0).min(f64::from(self.len)).ceil() as u64
    }

    /// Source positions that all wanted outputs need, at most.
    pub(super) fn reach_max(&self) -> u64 {
        let filter = Filter::new(self);
        let outputs = f64::from(self.count) * filter.step + 2.0 * filter.support + 2.0;
        outputs.min(f64::from(self.len)).ceil() as u64
    }
}

// === impl Taps ===

impl Taps {
    /// Weights for the wanted outputs of an axis.
    ///
    /// # Panics
    /// The stretch is empty, or becomes nothing.
    pub fn compute(&mut self, axis: &Axis) {
        self.compute_inlined(axis);
    }

    /// The same by a set of instructions.
    ///
    /// # Panics
    /// As [`Taps::compute`].
    pub fn compute_by(&mut self, simd: Simd, axis: &Axis) {
        compute(simd, self, axis);
    }

    #[inline(always)]
    fn compute_inlined(&mut self, axis: &Axis) {
        let [begin, end] = axis.stretch;
        assert!(begin < end && axis.to > 0, "{axis:?}");
        self.spans.clear();
        self.weights.clear();
        let filter = Filter::new(axis);
        if filter.kind == Kind::Nearest {
            return self.compute_nearest(axis, &filter);
        }
        for position in axis.start..axis.start + axis.count {
            let (first, end) = filter.span(position);
            let (centre, inverse_scale) = (filter.centre(position), 1.0 / filter.scale);
            // One loop for each filter: no choice is left within it.
            match filter.kind {
                Kind::Bicubic => self.push(first, end - first, centre, inverse_scale, bicubic),
                Kind::Bilinear => self.push(first, end - first, centre, inverse_scale, bilinear),
                Kind::Box | Kind::Nearest => {
                    self.push(first, end - first, centre, inverse_scale, covered);
                }
            }
        }
    }

    fn compute_nearest(&mut self, axis: &Axis, filter: &Filter) {
        let mut at = filter.begin + filter.step * 0.5;
        for position in 0..axis.start + axis.count {
            if position >= axis.start {
                let first = (at as usize).min(filter.len as usize - 1);
                let mut weights = [0; GROUP];
                weights[0] = 1 << PRECISION_BITS;
                self.spans.push(Span { first, start: self.weights.len() * GROUP, count: 1 });
                self.weights.push(weights);
            }
            at += filter.step;
        }
    }

    /// The last group is filled up with numbers that no one looks at.
    #[inline(always)]
    fn push(
        &mut self,
        first: usize,
        count: usize,
        centre: f64,
        inverse_scale: f64,
        share: impl Fn(f64) -> f64,
    ) {
        let groups = count.div_ceil(GROUP);
        self.precise.resize(self.precise.len().max(groups), [0.0; GROUP]);
        let precise = &mut self.precise[..groups];
        for (number, group) in precise.iter_mut().enumerate() {
            let before = (first + number * GROUP) as f64;
            for (k, weight) in group.iter_mut().enumerate() {
                let at = before + k as f64;
                *weight = share((at - centre + 0.5) * inverse_scale);
            }
        }
        // One after the other, as Pillow adds them.
        let sum: f64 = precise.as_flattened()[..count].iter().sum();
        let sum = if sum == 0.0 { 1.0 } else { sum };
        let start = self.weights.len() * GROUP;
        for group in precise {
            let mut weights = [0; GROUP];
            for (weight, precise) in weights.iter_mut().zip(group) {
                *weight = fixed(*precise / sum);
            }
            self.weights.push(weights);
        }
        self.spans.push(Span { first, start, count });
    }

    /// As [`Taps::compute`], with weights as they are before they become fixed-point numbers: see [`Taps::shares_at`].
    ///
    /// # Panics
    /// As [`Taps::compute`].
    pub fn compute_shares(&mut self, axis: &Axis) {
        let [begin, end] = axis.stretch;
        assert!(begin < end && axis.to > 0, "{axis:?}");
        self.spans.clear();
        self.shares.clear();
        let filter = Filter::new(axis);
        let share: fn(f64) -> f64 = match filter.kind {
            Kind::Nearest | Kind::Box => covered,
            Kind::Bilinear => bilinear,
            Kind::Bicubic => bicubic,
        };
        for position in axis.start..axis.start + axis.count {
            let (first, end) = filter.span(position);
            let (centre, inverse_scale) = (filter.centre(position), 1.0 / filter.scale);
            let start = self.shares.len();
            let at = |at: usize| share((at as f64 - centre + 0.5) * inverse_scale);
            self.shares.extend((first..end).map(at));
            let shares = &mut self.shares[start..];
            let sum: f64 = shares.iter().sum();
            if sum != 0.0 {
                shares.iter_mut().for_each(|share| *share /= sum);
            }
            self.spans.push(Span { first, start, count: end - first });
        }
    }

    /// First source position and weights, whose sum is 1, of an output position of the window.
    #[must_use]
    pub fn shares_at(&self, position: usize) -> (usize, &[f64]) {
        let span = self.spans[position];
        (span.first, &self.shares[span.start..][..span.count])
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
        (span.first, &self.weights.as_flattened()[span.start..][..span.count])
    }

    /// The source positions that the window needs: first and one past the last.
    #[must_use]
    pub fn reach(&self) -> (usize, usize) {
        let end = |span: &Span| span.first + span.count;
        match (self.spans.first(), self.spans.last()) {
            (Some(first), Some(last)) => (first.first, end(last)),
            _ => (0, 0),
        }
    }
}

twin! {
    /// [`Taps::compute`] for a set of instructions.
    pub(super) fn compute(taps: &mut Taps, axis: &Axis) = Taps::compute_inlined;
}

/// The share in fixed point, rounded half away from 0. Shares of real filters are below 2.
#[inline(always)]
pub(super) fn fixed(share: f64) -> i32 {
    let half = 0.5f64.copysign(share);
    rounded_to_zero(share * f64::from(1 << PRECISION_BITS) + half)
}

/// How far a filter reaches at scale 1, in pixels.
#[inline(always)]
fn reach(kind: Kind) -> f64 {
    match kind {
        Kind::Nearest => 0.0,
        Kind::Box => 0.5,
        Kind::Bilinear => 1.0,
        Kind::Bicubic => 2.0,
    }
}

/// The box: 1 over one pixel.
#[inline(always)]
fn covered(x: f64) -> f64 {
    if x > -0.5 && x <= 0.5 { 1.0 } else { 0.0 }
}

/// The triangle.
#[inline(always)]
fn bilinear(x: f64) -> f64 {
    (1.0 - x.abs()).max(0.0)
}

/// Keys' cubic with a = -0.5.
#[inline(always)]
fn bicubic(x: f64) -> f64 {
    const A: f64 = -0.5;
    let x = x.abs();
    let near = ((A + 2.0) * x - (A + 3.0)) * x * x + 1.0;
    let far = (((x - 5.0) * x + 8.0) * x - 4.0) * A;
    let beyond = if x < 2.0 { far } else { 0.0 };
    if x < 1.0 { near } else { beyond }
}
