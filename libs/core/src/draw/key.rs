//! The counter-based generator behind every draw.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::SampleId;

/// What a stream of random numbers belongs to. Equal keys give equal streams, on any machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DrawKey {
    /// Seed of the job.
    pub seed: u64,
    /// Epoch.
    pub epoch: u32,
    /// Pass of the dataset within the epoch.
    pub pass: u32,
    /// The sample.
    pub sample: SampleId,
    /// What is drawn: the number of the view over all tensors, or a purpose from
    /// [`DrawKey::PURPOSES`] upwards.
    pub stream: u64,
}

/// ChaCha with 8 rounds, keyed by the 256 bits of a [`DrawKey`]: independent streams, no state
/// that anybody shares. The conversions to ranges are written out here, so that no release of
/// a library can change a byte of a batch.
#[derive(Clone, Debug)]
pub struct DrawRng {
    chacha: ChaCha8Rng,
}

// === impl DrawKey ===

impl DrawKey {
    /// Streams from here on are not views.
    pub const PURPOSES: u64 = 1 << 32;
    /// The masks of a batch: `pass` is the rank then, `sample` the step.
    pub const MASKS: u64 = Self::PURPOSES;
    /// Operations on the whole image.
    pub const IMAGE: u64 = Self::PURPOSES + 1;
    /// The mixing of a batch, as its masks.
    pub const MIXING: u64 = Self::PURPOSES + 1000;
    /// The patches of a batch, as its masks.
    pub const PATCHES: u64 = Self::PURPOSES + 1001;
    /// The sizes of a step's blocks: `pass` is 0 on every rank, `sample` the step.
    pub const BLOCK_SIZES: u64 = Self::PURPOSES + 1002;
    /// The order of sequences before they are packed, and of the packs of a window: `sample` is the window.
    pub const PACKS: u64 = Self::PURPOSES + 1003;
    /// Lengths of the sequences of batches, and their order in an epoch.
    pub const LENGTHS: u64 = Self::PURPOSES + 1004;
    /// The first base; others follow.
    pub const BASES: u64 = Self::PURPOSES + 2;

    /// The stream of numbers of this key.
    #[must_use]
    pub fn rng(&self) -> DrawRng {
        let mut seed = [0u8; 32];
        seed[..8].copy_from_slice(&self.seed.to_le_bytes());
        seed[8..12].copy_from_slice(&self.epoch.to_le_bytes());
        seed[12..16].copy_from_slice(&self.pass.to_le_bytes());
        seed[16..24].copy_from_slice(&self.sample.0.to_le_bytes());
        seed[24..].copy_from_slice(&self.stream.to_le_bytes());
        DrawRng { chacha: ChaCha8Rng::from_seed(seed) }
    }
}

// === impl DrawRng ===

impl DrawRng {
    /// 64 bits.
    pub fn word(&mut self) -> u64 {
        self.chacha.next_u64()
    }

    /// Uniform in [0, 1): 53 bits.
    pub fn unit(&mut self) -> f64 {
        (self.chacha.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// Uniform in [low, high).
    pub fn uniform(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.unit()
    }

    /// Uniform among `0..bound`, without bias (Lemire's multiply and reject).
    ///
    /// # Panics
    /// `bound` is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "a choice among nothing");
        let reject_under = bound.wrapping_neg() % bound;
        loop {
            let product = u128::from(self.chacha.next_u64()) * u128::from(bound);
            if product as u64 >= reject_under {
                return (product >> 64) as u64;
            }
        }
    }

    /// True with probability `p`. Draws one number whatever `p` is.
    pub fn gate(&mut self, p: f64) -> bool {
        self.unit() < p
    }
}
