//! How far ahead batches are made, and the memory that they lie in.

use headwater_config_derive::Section;

/// How far ahead batches are made, and the memory that they lie in.
#[derive(Clone, Debug, PartialEq, Section)]
pub struct WindowConfig {
    /// Batches made in advance of the one the trainer holds.
    #[key(unit = "batches", default = 4)]
    pub window_batches: u32,
    /// Maximum steps ahead of the slowest receiver that wants the same parts of the same workers;
    /// 0: no limit. Receivers that are farther ahead wait, so that workers need not make parts
    /// again. A receiver that ends or dies delays nobody.
    #[key(unit = "steps")]
    pub max_lead: u32,
    /// Maximum slots, each for one batch. Those beyond `window_batches` are for batches that the
    /// trainer holds, that a late writer keeps or that a GPU still uses. 0: `window_batches + 4`.
    #[key(unit = "slots")]
    pub slots_max: u32,
    /// Maximum samples of one part, the unit of work.
    #[key(unit = "samples", default = 8)]
    pub part_samples: u32,
    /// Puts slots in huge pages, as far as the kernel has them; a log line says how far.
    pub huge_pages: bool,
    /// Trials of this host that want the same batches share one copy: a separate process makes them
    /// once, and each trial maps them. A trial that wants other batches makes its own.
    pub host_share: bool,
    /// Batches that this process keeps for trials that are behind the first one.
    #[key(unit = "batches", default = 8)]
    pub host_batches: u32,
    /// Continues into the next epoch while the trainer finishes this one.
    #[key(default = true)]
    pub prefetch_next_epoch: bool,
}

// === impl WindowConfig ===

impl WindowConfig {
    /// Most slots there will be.
    #[must_use]
    pub fn slots_limit(&self) -> usize {
        let most = if self.slots_max == 0 { self.window_batches + 4 } else { self.slots_max };
        most as usize
    }
}
