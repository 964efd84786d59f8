//! What a trial and the service of its host say to each other: objects of JSON in frames.

use headwater_core::part::PartKey;
use headwater_proto::augment::{Provenance, Substitution};
use serde::{Deserialize, Serialize};

/// A trial's words.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Ask {
    /// This batch, after those that were asked for before.
    Want {
        /// Number of the question, higher than that of any before.
        ask: u64,
        /// Grows when the trial goes elsewhere. The word on the wire stays.
        #[serde(rename = "course")]
        generation: u64,
        epoch: u32,
        step: u64,
        /// The key of a part that is the whole batch.
        key: PartKey,
    },
    /// The trial is through with the batch that this question was answered with. A slot may hold the answer to
    /// several of them: it is free when the last one is released.
    Release { ask: u64 },
    /// The trial makes its batches by itself until it asks again: nobody waits for it. It keeps what it holds.
    Leave,
}

/// The service's words.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Answer {
    /// The memory of a slot, whose descriptor comes with it; once for each slot.
    Slot { slot: u32, len_bytes: u64 },
    /// The batch is in the slot.
    Batch {
        ask: u64,
        slot: u32,
        samples: Vec<Sample>,
        /// Bits of the largest magnitudes of FP8 tensors, which JSON has no infinities for.
        fp8_amaxes: Vec<u32>,
    },
    /// What was asked for is still waited for.
    Alive,
    /// It is not available here, nor is what was asked for after it.
    Gone { ask: u64, reason: String },
}

/// What stands in a batch for one sample.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Sample {
    key: String,
    label: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    used_instead: Option<(u32, String)>,
}

// === impl Sample ===

impl From<&Provenance> for Sample {
    fn from(of: &Provenance) -> Self {
        let used_instead = of.substituted.as_ref().map(|s| (s.used_index, s.reason.clone()));
        Self { key: of.key.clone(), label: of.label, used_instead }
    }
}

impl From<Sample> for Provenance {
    fn from(Sample { key, label, used_instead }: Sample) -> Self {
        let substituted =
            used_instead.map(|(used_index, reason)| Substitution { used_index, reason });
        Self { key, label, substituted }
    }
}
