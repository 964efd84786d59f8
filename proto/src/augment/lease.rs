//! A part of a batch, given to a worker.

use headwater_core::SampleRef;
use headwater_core::recipe::BUCKETS_MAX;
use headwater_core::sampler::BATCH_SAMPLES_MAX;

use super::{MessageError, fault};
use crate::v1;

/// Most samples of one lease.
pub const LEASE_SAMPLES_MAX: usize = 4096;
/// Most FP8 tensors of a recipe: as many as there are views at most.
pub(super) const FP8_TENSORS_MAX: usize = 256;

/// A part to be made.
#[derive(Clone, Debug, PartialEq)]
pub struct PartLease {
    /// Number of the lease.
    pub lease: u64,
    /// Epoch, a key of the draws.
    pub epoch: u32,
    /// Step within the epoch, for logs.
    pub step: u64,
    /// Samples of the whole batch; with the recipe and the bucket it gives the layout.
    pub batch_samples: u32,
    /// First sample of the part within the batch.
    pub first: u32,
    /// The samples; `first + samples.len() <= batch_samples`, never empty.
    pub samples: Vec<SampleRef>,
    /// Slot that receives the batch.
    pub slot: u32,
    /// One for each FP8 tensor of the recipe, finite and above 0.
    pub fp8_scales: Vec<f32>,
    /// Number of the size that the recipe's tensors have in this batch; 0 where they have one.
    pub bucket: u32,
}

// === impl PartLease ===

impl TryFrom<v1::Lease> for PartLease {
    type Error = MessageError;

    fn try_from(lease: v1::Lease) -> Result<Self, MessageError> {
        let count = lease.dataset.len();
        if count == 0 || count > LEASE_SAMPLES_MAX {
            return Err(fault("dataset", format!("has {count} entries, not 1 to 4096")));
        }
        let columns = [("shard", &lease.shard), ("index", &lease.index), ("pass", &lease.pass)];
        if let Some((field, column)) = columns.into_iter().find(|(_, c)| c.len() != count) {
            return Err(fault(field, format!("has {} entries, not {count}", column.len())));
        }
        let end = u64::from(lease.first) + count as u64;
        if lease.batch_samples > BATCH_SAMPLES_MAX || end > u64::from(lease.batch_samples) {
            let what = format!("is {}, part ends at {end}", lease.batch_samples);
            return Err(fault("batch_samples", what));
        }
        let epoch = u32::try_from(lease.epoch)
            .map_err(|_| fault("epoch", format!("is {}, over 32 bits", lease.epoch)))?;
        let scales = lease.fp8_scales.iter();
        if lease.fp8_scales.len() > FP8_TENSORS_MAX
            || !scales.clone().all(|s| s.is_finite() && *s > 0.0)
        {
            let what = "must have a finite number above 0 for each tensor";
            return Err(fault("fp8_scales", what));
        }
        if lease.bucket as usize >= BUCKETS_MAX {
            return Err(fault("bucket", format!("is {}, not 0 to 255", lease.bucket)));
        }
        let sample = |i: usize| -> Result<SampleRef, MessageError> {
            let dataset = u16::try_from(lease.dataset[i])
                .map_err(|_| fault("dataset", format!("is {}, over 16 bits", lease.dataset[i])))?;
            Ok(SampleRef {
                dataset,
                shard: lease.shard[i],
                index: lease.index[i],
                pass: lease.pass[i],
            })
        };
        Ok(Self {
            lease: lease.lease,
            epoch,
            step: lease.step,
            batch_samples: lease.batch_samples,
            first: lease.first,
            samples: (0..count).map(sample).collect::<Result<_, _>>()?,
            slot: lease.slot,
            fp8_scales: lease.fp8_scales,
            bucket: lease.bucket,
        })
    }
}

impl From<PartLease> for v1::Lease {
    fn from(lease: PartLease) -> Self {
        let column = |value: fn(&SampleRef) -> u32| lease.samples.iter().map(value).collect();
        Self {
            dataset: column(|s| s.dataset.into()),
            shard: column(|s| s.shard),
            index: column(|s| s.index),
            pass: column(|s| s.pass),
            lease: lease.lease,
            epoch: lease.epoch.into(),
            step: lease.step,
            batch_samples: lease.batch_samples,
            first: lease.first,
            slot: lease.slot,
            fp8_scales: lease.fp8_scales,
            bucket: lease.bucket,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lease(batch_samples: u32, count: usize) -> v1::Lease {
        PartLease {
            lease: 1,
            epoch: 0,
            step: 0,
            batch_samples,
            first: 0,
            samples: vec![SampleRef { dataset: 0, shard: 0, index: 0, pass: 0 }; count],
            slot: 0,
            fp8_scales: Vec::new(),
            bucket: 0,
        }
        .into()
    }

    #[test]
    fn a_part_or_a_batch_beyond_its_limit_is_refused() {
        assert!(PartLease::try_from(lease(65_536, 4096)).is_ok());
        for (batch_samples, count, said) in [
            (65_536, 4097, "`dataset` has 4097 entries"),
            (65_536, 0, "`dataset` has 0 entries"),
            (65_537, 1, "`batch_samples` is 65537"),
            (3, 4, "`batch_samples` is 3"),
        ] {
            let error = PartLease::try_from(lease(batch_samples, count)).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
        assert!(PartLease::try_from(v1::Lease { bucket: 255, ..lease(1, 1) }).is_ok());
        let error = PartLease::try_from(v1::Lease { bucket: 256, ..lease(1, 1) }).unwrap_err();
        assert!(error.to_string().contains("`bucket` is 256"), "{error}");
    }
}
