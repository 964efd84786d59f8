//! The measurements to make.

use headwater_core::{Dtype, Layout, Recipe, Region};
use headwater_transport::LinkKind;
use headwater_transport::links::{Demand, ListenOptions};

/// What is measured.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// Links to measure, each with its yardsticks; a link that this machine cannot have is left out.
    pub(crate) links: Vec<LinkKind>,
    /// Samples of a batch of the `dinov2` recipe in bf16; 32 make 33 MB.
    pub(crate) batch_samples: u32,
    /// Samples of a part.
    pub(crate) part_samples: u32,
    /// Batches of one measurement.
    pub(crate) batches: u32,
    /// Measurements of each way; the report gives the median.
    pub(crate) rounds: u32,
    /// Slots of the receiver.
    pub(crate) slots: u32,
    /// The receiver's ends. Encrypted links are measured only if it says how.
    pub(crate) options: ListenOptions,
}

// === impl Plan ===

impl Default for Plan {
    fn default() -> Self {
        Self {
            links: LinkKind::ALL.to_vec(),
            batch_samples: 32,
            part_samples: 8,
            batches: 40,
            rounds: 7,
            slots: 4,
            options: ListenOptions { demand: Demand::Measured, ..ListenOptions::default() },
        }
    }
}

impl Plan {
    /// Bytes of a slot.
    #[must_use]
    pub(crate) fn slot_bytes(&self) -> u64 {
        self.layout().len_bytes()
    }

    /// Bytes of all slots.
    #[must_use]
    pub(crate) fn slots_bytes(&self) -> u64 {
        self.slot_bytes() * u64::from(self.slots)
    }

    /// Regions of each part of a batch.
    #[must_use]
    pub(crate) fn parts(&self) -> Vec<Vec<Region>> {
        let layout = self.layout();
        (0..self.batch_samples)
            .step_by(self.part_samples as usize)
            .map(|first| {
                let count = self.part_samples.min(self.batch_samples - first);
                layout.part_regions(first, count)
            })
            .collect()
    }

    fn layout(&self) -> Layout {
        let recipe = Recipe::preset("dinov2", Dtype::Bf16).expect("a preset");
        Layout::new(&recipe, self.batch_samples)
    }
}
