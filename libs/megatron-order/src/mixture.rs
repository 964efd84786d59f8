//! Several corpora together: `BlendedMegatronDatasetBuilder`.

use std::ops::Range;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::numpy::normalize;
use crate::{Blend, CorpusSize, Pick, Split};

/// Most samples of a mixture: two to the power of 40.
const SAMPLES_MAX: u64 = 1 << 40;
/// Most bytes of the order of one corpus, which is in memory while it is used.
const ORDER_BYTES_MAX: u64 = 16 << 30;

/// What is asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct Wanted {
    /// Number of samples; `None` for those of one epoch of each corpus.
    pub samples: Option<u64>,
    /// Tokens of a sequence.
    pub sequence_length: u32,
    /// Whether a sequence has the token that follows it, too.
    pub extra_token: bool,
    /// Share of samples that each weighted corpus has in reserve: `mid_level_dataset_surplus`.
    pub surplus: f64,
}

/// A part of a split.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Part {
    /// The first share.
    #[default]
    Train,
    /// The second.
    Valid,
    /// The third.
    Test,
}

/// Corpora, and the order in which their samples come.
#[derive(Debug)]
pub struct Mixture {
    sizes: Vec<CorpusSize>,
    /// `None` for one corpus without a weight.
    blend: Option<Blend>,
}

/// Why corpora cannot be mixed.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum MixtureFault {
    /// Weights need a number of samples.
    #[error("its corpora have weights: say how many `samples` are wanted")]
    NoSize,
    /// A number out of range.
    #[error("{samples} samples are wanted: between 1 and {SAMPLES_MAX}")]
    Samples {
        /// The number.
        samples: u64,
    },
    /// A corpus gives no sample.
    #[error(
        "corpus {corpus} has {tokens} tokens in {documents} documents of this part of the split, \
         fewer than a sequence: leave it out, or give the part a larger share"
    )]
    Short {
        /// Number of the corpus, from 0.
        corpus: usize,
        /// Its tokens.
        tokens: u64,
        /// Its documents.
        documents: u64,
    },
    /// The order of a corpus is too long.
    #[error(
        "corpus {corpus} would be read so often that the order of its {documents} documents does \
         not fit {ORDER_BYTES_MAX} bytes: lower its weight or `samples`"
    )]
    Long {
        /// Number of the corpus, from 0.
        corpus: usize,
        /// Its documents.
        documents: u64,
    },
    /// Megatron raises `IndexError`.
    #[error(
        "corpus {corpus} has {samples} samples, and {taken} are wanted: raise `surplus`, two- or tenfold"
    )]
    Oversampled {
        /// Number of the corpus, from 0.
        corpus: usize,
        /// Its samples.
        samples: u64,
        /// Samples that the order takes.
        taken: u64,
    },
}

// === impl MixtureFault ===

impl MixtureFault {
    /// The corpus that it is about.
    #[must_use]
    pub fn corpus(&self) -> Option<usize> {
        match self {
            Self::NoSize | Self::Samples { .. } => None,
            Self::Short { corpus, .. }
            | Self::Long { corpus, .. }
            | Self::Oversampled { corpus, .. } => Some(*corpus),
        }
    }
}

// === impl Part ===

impl Part {
    /// Documents of this part, out of `documents`.
    #[must_use]
    pub fn of(self, split: &Split, documents: u64) -> Range<u64> {
        split.documents(self as usize, documents)
    }
}

// === impl Mixture ===

impl Mixture {
    /// Mixes corpora, given by their documents and tokens in the part of the split.
    ///
    /// # Errors
    /// Weights without a number of samples, a corpus without a sequence, one that has too few.
    pub fn new(
        wanted: &Wanted,
        weights: Option<&[f64]>,
        corpora: &[(u64, u64)],
    ) -> Result<Self, MixtureFault> {
        if let Some(samples) = wanted.samples.filter(|samples| !(1..=SAMPLES_MAX).contains(samples))
        {
            return Err(MixtureFault::Samples { samples });
        }
        let Some(weights) = weights else { return Self::by_sizes(wanted, corpora) };
        let samples = wanted.samples.ok_or(MixtureFault::NoSize)?;
        let weights = normalize(weights);
        let least = |weight: f64| (samples as f64 * weight).ceil();
        let reserved = |weight: f64| (least(weight) * (1.0 + wanted.surplus)).ceil() as u64;
        let each = weights.iter().map(|&weight| Some(reserved(weight)));
        let sizes = sizes(wanted, corpora, each)?;
        let size = weights.iter().map(|&weight| least(weight) as u64).sum();
        let weights = normalize(&weights);
        let blend = Blend::weighted(&weights, size);
        Self::checked(sizes, blend, &weights)
    }

    /// Without weights, corpora are mixed by their numbers of samples.
    fn by_sizes(wanted: &Wanted, corpora: &[(u64, u64)]) -> Result<Self, MixtureFault> {
        if corpora.len() == 1 {
            let sizes = sizes(wanted, corpora, std::iter::once(wanted.samples))?;
            return Ok(Self { sizes, blend: None });
        }
        let sizes = sizes(wanted, corpora, std::iter::repeat(None))?;
        let samples: Vec<u64> = sizes.iter().map(|size| size.samples).collect();
        let Some(size) = wanted.samples else {
            return Ok(Self { sizes, blend: Some(Blend::exhaustive(&samples)) });
        };
        let size = size.min(samples.iter().sum());
        let weights = normalize(&samples.iter().map(|&samples| samples as f64).collect::<Vec<_>>());
        let blend = Blend::weighted(&weights, size);
        Self::checked(sizes, blend, &weights)
    }

    /// No corpus is asked for more than it has. After s samples a corpus of weight w gave at most `w s + 1`; only
    /// where that is too many, all steps are counted.
    fn checked(
        sizes: Vec<CorpusSize>,
        blend: Blend,
        weights: &[f64],
    ) -> Result<Self, MixtureFault> {
        let steps = blend.size() as f64;
        let is_safe = |(size, weight): (&CorpusSize, &f64)| {
            size.samples as f64 >= weight * steps * (1.0 + 1e-9) + 2.0
        };
        if !sizes.iter().zip(weights).all(is_safe) {
            let taken = blend.taken();
            let mut both = sizes.iter().zip(taken).enumerate();
            if let Some((corpus, (size, taken))) = both.find(|(_, (size, n))| size.samples < *n) {
                return Err(MixtureFault::Oversampled { corpus, samples: size.samples, taken });
            }
        }
        Ok(Self { sizes, blend: Some(blend) })
    }

    /// Number of samples.
    #[must_use]
    pub fn samples(&self) -> u64 {
        self.blend.as_ref().map_or_else(|| self.sizes[0].samples, Blend::size)
    }

    /// Sizes of the corpora.
    #[must_use]
    pub fn sizes(&self) -> &[CorpusSize] {
        &self.sizes
    }

    /// The samples at positions of the order, up to its end.
    #[must_use]
    pub fn window(&self, positions: Range<u64>) -> Vec<Pick> {
        match &self.blend {
            Some(blend) => blend.window(positions),
            None => {
                let end = positions.end.min(self.samples());
                (positions.start..end).map(|sample| Pick { corpus: 0, sample }).collect()
            }
        }
    }
}

fn sizes(
    wanted: &Wanted,
    corpora: &[(u64, u64)],
    each: impl Iterator<Item = Option<u64>>,
) -> Result<Vec<CorpusSize>, MixtureFault> {
    let size = |(corpus, (&(documents, tokens), samples)): (usize, (&(u64, u64), Option<u64>))| {
        let &Wanted { sequence_length, extra_token, .. } = wanted;
        let short = MixtureFault::Short { corpus, tokens, documents };
        if tokens == 0 {
            return Err(short);
        }
        match CorpusSize::new(documents, tokens, sequence_length, extra_token, samples) {
            Some(size) if size.samples == 0 => Err(short),
            Some(size) if size.order_bytes() <= ORDER_BYTES_MAX => Ok(size),
            _ => Err(MixtureFault::Long { corpus, documents }),
        }
    };
    corpora.iter().zip(each).enumerate().map(size).collect()
}
