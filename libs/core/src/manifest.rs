//! What a dataset consists of: its shards in order and the number of samples in each.

use serde::{Deserialize, Serialize};

use crate::{Digest, Digester, SampleId, SampleRef};

/// Largest number of shards of one dataset.
pub const SHARDS_MAX: usize = 1 << 24;
/// Largest number of samples of one shard.
pub const SHARD_SAMPLES_MAX: u32 = 1 << 30;

/// One shard of a dataset.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShardEntry {
    /// File name without the folder, unique within the dataset.
    pub name: String,
    /// Number of samples.
    pub samples: u32,
    /// Size of the file in bytes.
    pub bytes: u64,
    /// Digest of the shard's index: keys, fields, offsets and sizes of all samples.
    pub digest: Digest,
}

/// A dataset as the storage tier found it. Immutable; its digest is its identity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    dataset: String,
    fields: Vec<String>,
    shards: Vec<ShardEntry>,
    /// `starts[i]` = samples in all shards before `i`; one longer than `shards`.
    starts: Vec<u64>,
    digest: Digest,
    is_of_files: bool,
    is_in_order: bool,
    classes: Vec<String>,
}

/// Why a list of shards is not a manifest.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    /// No shard at all, or none with a sample.
    #[error("dataset `{dataset}` has no samples: check its shards")]
    Empty {
        /// Name of the dataset.
        dataset: String,
    },
    /// Two shards of one name.
    #[error("dataset `{dataset}` has two shards named `{shard}`: names must be unique")]
    Twice {
        /// Name of the dataset.
        dataset: String,
        /// Name of the shard.
        shard: String,
    },
    /// More than the limits allow.
    #[error("dataset `{dataset}`: {what} {value} is over the limit of {limit}")]
    TooLarge {
        /// Name of the dataset.
        dataset: String,
        /// What is too large.
        what: &'static str,
        /// How large it is.
        value: u64,
        /// How large it may be.
        limit: u64,
    },
}

// === impl Manifest ===

impl Manifest {
    /// Checks the shards and computes the digest. `fields` is the union of the fields seen.
    ///
    /// # Errors
    /// No sample, a shard named twice, or a number over its limit.
    pub fn new(
        dataset: String,
        mut fields: Vec<String>,
        shards: Vec<ShardEntry>,
    ) -> Result<Self, ManifestError> {
        fields.sort_unstable();
        fields.dedup();
        check_limits(&dataset, &shards)?;
        let mut names: Vec<&str> = shards.iter().map(|s| s.name.as_str()).collect();
        names.sort_unstable();
        if let Some(pair) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            let shard = pair[0].to_owned();
            return Err(ManifestError::Twice { dataset, shard });
        }
        let mut starts = Vec::with_capacity(shards.len() + 1);
        let mut total = 0u64;
        starts.push(0);
        for shard in &shards {
            total += u64::from(shard.samples);
            starts.push(total);
        }
        if total == 0 {
            return Err(ManifestError::Empty { dataset });
        }
        let digest = digest_of(&dataset, &shards);
        let (is_of_files, is_in_order, classes) = (false, false, Vec::new());
        Ok(Self { dataset, fields, shards, starts, digest, is_of_files, is_in_order, classes })
    }

    /// The same as a dataset whose samples are files of their own. They can be read in any order, and lie sorted, by
    /// class as a rule. Its digest is the same.
    #[must_use]
    pub fn of_files(self) -> Self {
        Self { is_of_files: true, ..self }
    }

    /// Whether samples are files of their own.
    #[must_use]
    pub fn is_of_files(&self) -> bool {
        self.is_of_files
    }

    /// The same as a dataset whose samples lie in the order in which they have to be read, as Megatron's: nobody
    /// shuffles them unless asked to. Its digest is the same.
    #[must_use]
    pub fn in_order(self) -> Self {
        Self { is_in_order: true, ..self }
    }

    /// Whether samples lie in the order in which they have to be read.
    #[must_use]
    pub fn is_in_order(&self) -> bool {
        self.is_in_order
    }

    /// The same with names of its classes. Its digest is the same.
    #[must_use]
    pub fn with_classes(self, classes: Vec<String>) -> Self {
        Self { classes, ..self }
    }

    /// Names of the classes by their numbers. Empty: none are known.
    #[must_use]
    pub fn classes(&self) -> &[String] {
        &self.classes
    }

    /// Name of the dataset.
    #[must_use]
    pub fn dataset(&self) -> &str {
        &self.dataset
    }

    /// Names of the fields that occur in the samples, sorted.
    #[must_use]
    pub fn fields(&self) -> &[String] {
        &self.fields
    }

    /// The shards in order.
    #[must_use]
    pub fn shards(&self) -> &[ShardEntry] {
        &self.shards
    }

    /// Number of samples of the dataset; at least 1.
    #[must_use]
    pub fn samples(&self) -> u64 {
        self.starts[self.shards.len()]
    }

    /// Identity of the dataset: equal digests mean equal shards in equal order.
    #[must_use]
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// Running number of a shard's first sample.
    #[must_use]
    pub fn shard_start(&self, shard: u32) -> u64 {
        self.starts[shard as usize]
    }

    /// The shard, and the position in it, of a running number below [`Manifest::samples`].
    ///
    /// # Panics
    /// There is no such number.
    #[must_use]
    pub fn locate(&self, running: u64) -> (u32, u32) {
        let shard = self.starts.partition_point(|&start| start <= running) - 1;
        assert!(shard < self.shards.len(), "dataset `{}` has no sample {running}", self.dataset);
        (shard as u32, (running - self.starts[shard]) as u32)
    }

    /// The number that keys a sample's random draws; `None` if the sample does not exist.
    #[must_use]
    pub fn sample_id(&self, sample: &SampleRef) -> Option<SampleId> {
        let shard = self.shards.get(sample.shard as usize)?;
        let running = self.starts[sample.shard as usize] + u64::from(sample.index);
        (sample.index < shard.samples).then(|| SampleId::new(sample.dataset, running))
    }
}

fn check_limits(dataset: &str, shards: &[ShardEntry]) -> Result<(), ManifestError> {
    let too_large = |what, value: u64, limit: u64| ManifestError::TooLarge {
        dataset: dataset.to_owned(),
        what,
        value,
        limit,
    };
    if shards.len() > SHARDS_MAX {
        return Err(too_large("number of shards", shards.len() as u64, SHARDS_MAX as u64));
    }
    if let Some(shard) = shards.iter().find(|s| s.samples > SHARD_SAMPLES_MAX) {
        let (value, limit) = (shard.samples.into(), SHARD_SAMPLES_MAX.into());
        return Err(too_large("number of samples in one shard", value, limit));
    }
    // A larger number would not fit a `SampleId`, and two samples would share their random draws.
    let (samples, limit) =
        (shards.iter().map(|s| u64::from(s.samples)).sum(), SampleId::DATASET_SAMPLES);
    if samples > limit { Err(too_large("number of samples", samples, limit)) } else { Ok(()) }
}

fn digest_of(dataset: &str, shards: &[ShardEntry]) -> Digest {
    let mut digester = Digester::new("headwater manifest 1");
    digester.bytes(dataset.as_bytes()).number(shards.len() as u64);
    for shard in shards {
        digester.bytes(shard.name.as_bytes());
        digester.number(shard.samples.into()).number(shard.bytes);
        digester.bytes(&shard.digest.to_bytes());
    }
    digester.finish()
}
