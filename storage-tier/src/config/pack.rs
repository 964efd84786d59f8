//! How sequences of tokens share packs.

use serde::{Deserialize, Serialize};

/// Packs of sequences: what a pack has room for, and which sequences may share one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PackConfig {
    /// Tokens that a pack has room for.
    pub budget: u32,
    /// Sequences that are packed together, in the order of an epoch.
    #[serde(default = "window_default")]
    pub window: u32,
    /// Which sequences of a window share a pack.
    #[serde(default)]
    pub by: PackBy,
    /// Seed of the order.
    #[serde(default)]
    pub seed: u64,
    /// Epochs that the dataset consists of, each in another order.
    #[serde(default = "epochs_default")]
    pub epochs: u32,
    /// What to do with a sequence of more tokens than a pack has room for.
    #[serde(default)]
    pub long: LongSequences,
    /// Most sequences of a pack.
    #[serde(default = "sequences_default")]
    pub sequences_max: u32,
    /// Packs of a step, over all ranks. With `ranks`, the packs of a step are dealt so that ranks have equal loads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch: Option<u32>,
    /// The largest number of ranks that the packs of a step are dealt to; it divides `batch`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ranks: Option<u32>,
}

/// Which sequences share a pack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PackBy {
    /// The longest first, each into the fullest pack that has room for it.
    #[default]
    BestFit,
    /// In their order: one that does not fit begins the next pack.
    NextFit,
}

/// What to do with sequences that fit no pack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LongSequences {
    /// Do not start.
    #[default]
    Refuse,
    /// Make several sequences of one.
    Cut,
    /// Leave them out.
    Drop,
}

/// Most tokens of a pack, and most sequences of one.
const BUDGET_MAX: u32 = 1 << 22;
const SEQUENCES_MAX: u32 = 1 << 16;
const WINDOW_MAX: u32 = 1 << 20;
const EPOCHS_MAX: u32 = 1 << 16;
const BATCH_MAX: u32 = 1 << 16;

fn window_default() -> u32 {
    4096
}

fn epochs_default() -> u32 {
    1
}

fn sequences_default() -> u32 {
    256
}

// === impl PackConfig ===

impl PackConfig {
    /// # Errors
    /// What is wrong, for a message.
    pub(crate) fn check(&self) -> Result<(), String> {
        let limits = [
            ("budget", self.budget, BUDGET_MAX),
            ("window", self.window, WINDOW_MAX),
            ("epochs", self.epochs, EPOCHS_MAX),
            ("sequences_max", self.sequences_max, SEQUENCES_MAX),
            ("batch", self.batch.unwrap_or(1), BATCH_MAX),
            ("ranks", self.ranks.unwrap_or(1), SEQUENCES_MAX),
        ];
        if let Some((key, value, most)) =
            limits.into_iter().find(|(_, value, most)| !(1..=*most).contains(value))
        {
            return Err(format!("`{key}` of `pack` is {value}, and goes from 1 to {most}"));
        }
        match (self.batch, self.ranks) {
            (None, Some(_)) => {
                Err("`pack` has `ranks` and no `batch`: give the packs of a step over all ranks"
                    .to_owned())
            }
            (Some(batch), Some(ranks)) if !batch.is_multiple_of(ranks) => {
                Err(format!("`ranks` of `pack`, {ranks}, does not divide `batch`, {batch}"))
            }
            _ => Ok(()),
        }
    }
}
