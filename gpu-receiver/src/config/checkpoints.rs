//! Checkpoints of the position in the stream, and whether one is resumed.

use std::path::PathBuf;

use headwater_config_derive::Section;
use headwater_core::sampler::Term;

use super::Resume;
use crate::checkpoint::CheckpointFolder;

/// Checkpoints of the position in the stream, and whether one is resumed.
#[derive(Clone, Debug, PartialEq, Section)]
pub struct CheckpointConfig {
    /// Folder for checkpoints of the position in the stream; empty: none are written.
    pub checkpoint_dir: PathBuf,
    /// Steps between checkpoints, counted over epochs; rank 0 writes them.
    #[key(unit = "steps", default = 500)]
    pub checkpoint_every_steps: u32,
    /// Checkpoints that are kept.
    #[key(unit = "checkpoints", default = 3)]
    pub checkpoint_keep: u32,
    /// Begins at the newest complete checkpoint of `checkpoint_dir`, if there is one: `true`, or
    /// `"fresh"` to begin at the start if all of them are broken, which is otherwise an error.
    pub resume: Resume,
    /// What may differ between the checkpoint and this configuration: `seed`, `order`,
    /// `order-list`, `shuffle-block`, `global-batch`, `world-size`, `epoch-end`, `weights`, `manifest`, `recipe`.
    pub resume_allow: Vec<Term>,
}

// === impl CheckpointConfig ===

impl CheckpointConfig {
    /// The folder of checkpoints.
    pub(crate) fn folder(&self) -> CheckpointFolder {
        CheckpointFolder::new(&self.checkpoint_dir, self.checkpoint_keep as usize)
    }
}
