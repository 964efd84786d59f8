//! Chains of operations that all begin with one view, blended: AugMix.

pub mod plain;

use headwater_core::op::{ChainMixed, MixBegun, Mixed};

use crate::image::Planes;
use crate::kernels::KernelOp;
use crate::ops::apply::Apply;
use crate::simd::{Simd, twin};

/// A view as it was before the chains, and what they have made of it so far.
#[derive(Debug)]
pub struct Mixture {
    kept: Planes,
    sums: Vec<f32>,
}

twin! {
    fn add(sums: &mut [f32], values: &[u8], weight: f32) = plain::add;
}

twin! {
    fn blend(sums: &[f32], values: &mut [u8], share: f32) = plain::blend;
}

// === impl Mixture ===

impl Mixture {
    /// An empty one.
    #[must_use]
    pub fn new() -> Self {
        Self { kept: Planes::new(), sums: Vec::new() }
    }

    /// Keeps a view, with which the chains begin.
    pub fn begin(&mut self, view: &Planes) {
        copy(view, &mut self.kept);
        self.sums.clear();
        self.sums.resize(view.values().len(), 0.0);
    }

    /// Adds what a chain has made of the view, times `weight`. The view is the kept one again.
    ///
    /// # Panics
    /// The view has another size than the kept one.
    pub fn end_chain(&mut self, simd: Simd, view: &mut Planes, weight: f32) {
        add(simd, &mut self.sums, view.values(), weight);
        copy(&self.kept, view);
    }

    /// Blends the view, which is the kept one, with the sum of the chains: `share` 0 is the view.
    pub fn end(&mut self, simd: Simd, view: &mut Planes, share: f32) {
        blend(simd, &self.sums, view.values_mut(), share);
    }
}

impl Default for Mixture {
    fn default() -> Self {
        Self::new()
    }
}

fn copy(from: &Planes, to: &mut Planes) {
    to.reset(from.extent());
    to.values_mut().copy_from_slice(from.values());
}

// === impl MixBegun ===

impl Apply for MixBegun {
    type Memory = Mixture;

    fn apply(self, _simd: Simd, view: &mut Planes, memory: &mut Self::Memory) {
        memory.begin(view);
    }

    fn records(self, _to: &mut Vec<KernelOp>) {}
}

// === impl ChainMixed ===

impl Apply for ChainMixed {
    type Memory = Mixture;

    fn apply(self, simd: Simd, view: &mut Planes, memory: &mut Self::Memory) {
        memory.end_chain(simd, view, self.weight);
    }

    fn records(self, _to: &mut Vec<KernelOp>) {}
}

// === impl Mixed ===

impl Apply for Mixed {
    type Memory = Mixture;

    fn apply(self, simd: Simd, view: &mut Planes, memory: &mut Self::Memory) {
        memory.end(simd, view, self.share);
    }

    fn records(self, _to: &mut Vec<KernelOp>) {}
}
