//! Parts: contiguous ranges of a rank's batch, and the key by which all receivers mean the same
//! part.

use std::fmt;
use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::{Digest, Digester, SampleRef};

/// Identity of a part: two parts with equal keys hold equal bytes, whichever job, rank, step or
/// position they were drawn for. The key of caches and of rendezvous.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct PartKey(pub Digest);

/// What to do with a sample that cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BadSamplePolicy {
    /// Take the next readable sample of its shard, count it and name it.
    Substitute,
    /// Fail the lease with the sample's name.
    Fail,
}

/// All settings of a job that the bytes and labels of its parts follow from.
#[derive(Clone, Copy, Debug)]
pub struct PartSettings<'a> {
    /// Digest of the recipe: views, operations, dtypes.
    pub recipe: Digest,
    /// Digests of the manifests, in the order of the configuration: [`SampleRef::dataset`] counts in it.
    pub manifests: &'a [Digest],
    /// Seed of all draws.
    pub seed: u64,
    /// Field that holds the image; `|` between alternatives.
    pub image_field: &'a str,
    /// Field that holds the label; empty if there are no labels.
    pub label_field: &'a str,
    /// Whether another sample replaces one that cannot be read.
    pub on_bad_sample: BadSamplePolicy,
}

/// What the parts of a job have in common, as the beginning of their keys.
///
/// Step, rank and the weights are not in a key: they decide which samples are drawn, and the
/// samples are in the key.
#[derive(Clone, Debug)]
pub struct PartScope {
    digester: Digester,
}

// === impl PartScope ===

impl PartScope {
    /// The scope of a job's parts.
    #[must_use]
    pub fn new(settings: &PartSettings<'_>) -> Self {
        // A setting that is added must be in the key as well: without it this does not compile.
        let PartSettings { recipe, manifests, seed, image_field, label_field, on_bad_sample } =
            settings;
        let mut digester = Digester::new("headwater part 3");
        digester.bytes(&recipe.to_bytes()).number(manifests.len() as u64);
        for manifest in *manifests {
            digester.bytes(&manifest.to_bytes());
        }
        digester.number(*seed);
        digester.bytes(image_field.as_bytes()).bytes(label_field.as_bytes());
        digester.number(match on_bad_sample {
            BadSamplePolicy::Substitute => 0,
            BadSamplePolicy::Fail => 1,
        });
        Self { digester }
    }

    /// The key of these samples, in this order, in this epoch and this bucket of the recipe, with these scales of
    /// its FP8 tensors.
    #[must_use]
    pub fn key(&self, epoch: u32, bucket: u32, samples: &[SampleRef], scales: &[f32]) -> PartKey {
        let mut digester = self.digester.clone();
        digester.number(epoch.into()).number(bucket.into()).number(samples.len() as u64);
        for sample in samples {
            digester.number(u64::from(sample.dataset) << 32 | u64::from(sample.shard));
            digester.number(u64::from(sample.pass) << 32 | u64::from(sample.index));
        }
        for scale in scales {
            digester.number(scale.to_bits().into());
        }
        PartKey(digester.finish())
    }
}

// === impl PartKey ===

impl fmt::Display for PartKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Cuts a batch into as few parts as possible, with at most `part_samples` samples each. The sizes
/// differ by at most one: 130 by 128 are 65 and 65, not 128 and 2, so that no part is late because
/// it is large. The ranges are in order and cover `0..batch_samples`; none is empty.
///
/// # Panics
/// `part_samples` is 0.
pub fn cut(batch_samples: u32, part_samples: u32) -> impl ExactSizeIterator<Item = Range<u32>> {
    assert!(part_samples > 0, "a part needs room for at least one sample");
    let parts = batch_samples.div_ceil(part_samples);
    (0..parts).map(move |part| {
        let bound = |i: u32| (u64::from(batch_samples) * u64::from(i) / u64::from(parts)) as u32;
        bound(part)..bound(part + 1)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_cover_the_batch_in_order_and_are_of_equal_size() {
        for batch in 0..200 {
            for most in 1..=batch + 2 {
                let parts: Vec<_> = cut(batch, most).collect();
                assert_eq!(parts.len() as u32, batch.div_ceil(most));
                let mut end = 0;
                for part in &parts {
                    assert_eq!(part.start, end);
                    assert!((1..=most).contains(&(part.len() as u32)));
                    assert!(part.len() + 1 >= parts[0].len() && part.len() <= parts[0].len() + 1);
                    end = part.end;
                }
                assert_eq!(end, batch);
            }
        }
        assert_eq!(cut(130, 128).collect::<Vec<_>>(), [0..65, 65..130]);
        assert_eq!(cut(u32::MAX, u32::MAX).next(), Some(0..u32::MAX));
    }

    #[test]
    fn a_key_changes_with_everything_that_changes_a_byte() {
        let [a, b, c] = [Digest(1), Digest(2), Digest(3)];
        let sample = SampleRef { dataset: 1, shard: 2, index: 3, pass: 4 };
        let settings = PartSettings {
            recipe: a,
            manifests: &[b, c],
            seed: 5,
            image_field: "jpg",
            label_field: "cls",
            on_bad_sample: BadSamplePolicy::Substitute,
        };
        let key = |recipe, manifests: &[Digest], seed, epoch, samples: &[SampleRef]| {
            let settings = PartSettings { recipe, manifests, seed, ..settings };
            PartScope::new(&settings).key(epoch, 0, samples, &[])
        };
        let scaled = |scale: f32| PartScope::new(&settings).key(6, 0, &[sample], &[scale]);
        let in_bucket = |bucket| PartScope::new(&settings).key(6, bucket, &[sample], &[]);
        let with = |settings| PartScope::new(&settings).key(6, 0, &[sample], &[]);
        let two = [sample, SampleRef { index: 9, ..sample }];
        let keys = [
            key(a, &[b, c], 5, 6, &[sample]),
            key(b, &[b, c], 5, 6, &[sample]),
            key(a, &[c, b], 5, 6, &[sample]),
            key(a, &[b], 5, 6, &[sample]),
            key(a, &[b, c], 6, 6, &[sample]),
            key(a, &[b, c], 5, 7, &[sample]),
            key(a, &[b, c], 5, 6, &[SampleRef { dataset: 0, ..sample }]),
            key(a, &[b, c], 5, 6, &[SampleRef { shard: 0, ..sample }]),
            key(a, &[b, c], 5, 6, &[SampleRef { index: 0, ..sample }]),
            key(a, &[b, c], 5, 6, &[SampleRef { pass: 0, ..sample }]),
            key(a, &[b, c], 5, 6, &two),
            key(a, &[b, c], 5, 6, &[two[1], two[0]]),
            key(a, &[b, c], 5, 6, &[]),
            scaled(1.0),
            scaled(2.0),
            in_bucket(1),
            in_bucket(2),
            with(PartSettings { image_field: "png", ..settings }),
            with(PartSettings { label_field: "", ..settings }),
            // The fields' names are not run together.
            with(PartSettings { image_field: "jpgc", label_field: "ls", ..settings }),
            with(PartSettings { on_bad_sample: BadSamplePolicy::Fail, ..settings }),
        ];
        for (i, one) in keys.iter().enumerate() {
            assert!(keys[..i].iter().all(|other| other != one), "key {i} came before");
        }
        assert_eq!(keys[0], key(a, &[b, c], 5, 6, &[sample]));
    }
}
