//! In which order Megatron reads tokens.

use headwater_megatron_order::{Part, Split};
use serde::{Deserialize, Serialize};

/// The order in which Megatron would read tokens, as its arguments ask for it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MegatronConfig {
    /// Samples wanted; the order goes through corpora as often as they are needed for. Without a number, each corpus
    /// is read once; with weights there must be one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub samples: Option<u64>,
    /// Seed of the shuffles: `--seed`.
    pub seed: u32,
    /// Shares of training, validation and test, as `969,30,1`: `--split`.
    pub split: String,
    /// Which of these is read.
    pub part: Part,
    /// Whether a sample has the token that follows it, too, as its last label: `add_extra_token_to_sequence`.
    pub extra_token: bool,
    /// Share of samples that each corpus with a weight has in reserve: `mid_level_dataset_surplus`.
    pub surplus: f64,
}

/// Megatron's own default.
const SEED: u32 = 1234;
const SURPLUS: f64 = 0.005;

// === impl MegatronConfig ===

impl MegatronConfig {
    /// The split, once it is known to be one.
    ///
    /// # Errors
    /// What is wrong, for a message.
    pub(crate) fn split(&self) -> Result<Split, String> {
        if !(0.0..=100.0).contains(&self.surplus) {
            return Err(format!("`surplus` is {}, and goes from 0 to 100", self.surplus));
        }
        Split::parse(&self.split).map_err(|fault| fault.to_string())
    }
}

impl Default for MegatronConfig {
    fn default() -> Self {
        Self {
            samples: None,
            seed: SEED,
            split: "1".to_owned(),
            part: Part::default(),
            extra_token: true,
            surplus: SURPLUS,
        }
    }
}
