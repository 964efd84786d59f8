//! Samples that a device renders together, on their way through it.

use headwater_core::Recipe;
use headwater_core::draw::Extent;

use headwater_render::{PartSample, RenderError, Rendered, ViewSink};

/// Samples, where each goes, and what has become of it.
pub(super) struct Job<'a, 's> {
    pub(super) recipe: &'a Recipe,
    pub(super) samples: &'a [PartSample<'a>],
    pub(super) sinks: &'a mut [&'s mut dyn ViewSink],
    /// Of each sample, as soon as it is known.
    pub(super) outcomes: Vec<Option<Result<Rendered, RenderError>>>,
}

/// An image as it lies in the decoder.
#[derive(Clone, Copy, Debug)]
pub(super) struct Decoded {
    /// Size in the file.
    pub(super) source: Extent,
    /// Size in memory.
    pub(super) extent: Extent,
    /// What the sides have been divided by.
    pub(super) reduction: u32,
}

/// A JPEG that has a place on the device, but no pixels there yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pending {
    /// Number of its sample.
    pub(super) number: usize,
    pub(super) extent: Extent,
    pub(super) offset: u64,
}

// === impl Job ===

impl<'a, 's> Job<'a, 's> {
    pub(super) fn new(
        recipe: &'a Recipe,
        samples: &'a [PartSample<'a>],
        sinks: &'a mut [&'s mut dyn ViewSink],
    ) -> Self {
        Self { recipe, samples, sinks, outcomes: vec![None; samples.len()] }
    }

    /// Notes what has become of a sample, the last word counting.
    pub(super) fn note(&mut self, number: usize, outcome: Result<Rendered, RenderError>) {
        self.outcomes[number] = Some(outcome);
    }

    /// Whether a sample's rows stay as kernels have made them: it is not bad, nor among those that are done again.
    pub(super) fn is_final(&self, number: usize, amiss: &[(usize, u64)]) -> bool {
        let is_bad = matches!(self.outcomes[number], Some(Err(_)));
        !is_bad && amiss.iter().all(|(again, _)| *again != number)
    }
}
