//! Rendering by a preset for tests that measure the memory of their process.

use std::sync::Arc;

use headwater_core::{Dtype, Layout, Recipe, SampleId};
use headwater_part_rows::SliceRow;
use headwater_render::decode::DecodeLimits;
use headwater_render::part::{PartPlan, PartScales};
use headwater_render::{PartSample, RenderKey, Renderer};

/// A line of `/proc/self/status`, in bytes.
pub(crate) fn status(line: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let found = status.lines().find_map(|l| l.strip_prefix(line)).expect("a line of status");
    found.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") * 1024
}

/// A part of one sample, which each image is rendered to.
pub(crate) struct Target {
    plan: PartPlan,
    scales: PartScales,
    memory: Vec<Vec<u8>>,
}

// === impl Target ===

impl Target {
    pub(crate) fn new(preset: &str, pixels_max: u64) -> Self {
        let recipe = Recipe::preset(preset, Dtype::Bf16).expect("a preset");
        let decode_limits = DecodeLimits { pixels_max, ..DecodeLimits::default() };
        let recipe = Recipe { decode_limits, ..recipe };
        let regions = Layout::new(&recipe, 1).part_regions(0, 1);
        let memory = regions.iter().map(|r| vec![0u8; r.len_bytes as usize]).collect();
        let plan = PartPlan::new(Arc::new(recipe));
        let scales = PartScales::of(plan.recipe());
        Self { plan, scales, memory }
    }

    pub(crate) fn render(&mut self, renderer: &mut Renderer, number: u64, encoded: &[u8]) {
        let key = RenderKey { seed: 3, epoch: 1, pass: 0, sample: SampleId(number) };
        let sample = PartSample::of_image(key, encoded, 0);
        let mut rows: Vec<&mut [u8]> = self.memory.iter_mut().map(Vec::as_mut_slice).collect();
        let mut row = SliceRow::new(&mut rows, 0, 1);
        self.plan.render_sample(renderer, &sample, &self.scales, &mut row).expect("an image");
    }
}
