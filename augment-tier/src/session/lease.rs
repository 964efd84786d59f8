//! One lease from its arrival to its end.

use std::sync::Arc;
use std::time::Instant;

use headwater_core::SampleRef;
use headwater_proto::augment::{Failure, FailureKind, PartDone, PartLease, WorkTimes};
use headwater_storage_client::StorageClientError;
use headwater_transport::{LeaseId, LinkError, PartBuffer, PartPlace, SlotId};
use tokio_util::sync::CancellationToken;

use super::open::Session;
use super::read::{self, Found, Wanted};
use crate::error::sentence;
use crate::part::PartScales;
use crate::pool::Turn;

/// A lease that is being worked on.
pub(crate) struct LeaseWork {
    pub(super) session: Arc<Session>,
    pub(super) lease: PartLease,
    /// Its place among the session's leases.
    pub(super) turn: Turn,
    /// The receiver has taken it back, or the session ends.
    pub(super) withdrawn: CancellationToken,
}

/// Why a lease is not delivered.
#[derive(Debug)]
pub(crate) enum LeaseError {
    Withdrawn,
    Retry(String),
    Fatal(String),
}

// === impl LeaseWork ===

impl LeaseWork {
    /// Does the work. When it returns, nothing writes for this lease any more.
    pub(crate) async fn run(self) -> Result<PartDone, Failure> {
        self.deliver().await.map_err(|error| error.into_failure(self.lease.lease))
    }

    async fn deliver(&self) -> Result<PartDone, LeaseError> {
        let wanted = self.wanted()?;
        let scales = Arc::new(self.scales()?);
        let mut times = WorkTimes::default();
        let room = self.unless_withdrawn(self.session.worker.staging(self.encoded_bytes())).await?;
        let found = self.read(wanted, &mut times).await?;
        // Held until the pool is done with the part: what is beyond it has been read ahead. The
        // semaphore is never closed.
        let place = self.unless_withdrawn(self.session.parts.acquire()).await?;
        let buffer = self.begin().await?;
        let (part, checksum, samples) = self.fill(buffer, found, &scales, &mut times).await?;
        drop((room, place));
        let started = Instant::now();
        self.commit(part).await?;
        times.deliver_us = micros(started);
        let fp8_amaxes = scales.amaxes();
        Ok(PartDone { lease: self.lease.lease, checksum, samples, times, fp8_amaxes })
    }

    fn scales(&self) -> Result<PartScales, LeaseError> {
        let recipe = self.session.plan.recipe();
        let given = &self.lease.fp8_scales;
        PartScales::new(recipe, given.clone()).ok_or_else(|| {
            let (given, wanted) = (given.len(), recipe.fp8_tensors().count());
            LeaseError::Fatal(format!("the lease has {given} FP8 scales, the recipe {wanted}"))
        })
    }

    /// The samples, each checked to be in its manifest.
    fn wanted(&self) -> Result<Vec<Wanted>, LeaseError> {
        let wanted = |(position, &asked): (usize, &SampleRef)| {
            let datasets = &self.session.datasets;
            let known = datasets
                .get(usize::from(asked.dataset))
                .and_then(|dataset| dataset.manifest.sample_id(&asked));
            let SampleRef { dataset, shard, index, .. } = asked;
            known.map(|_| Wanted { position, asked, index }).ok_or_else(|| {
                let sample = format!("dataset {dataset} shard {shard} number {index}");
                LeaseError::Fatal(format!("there is no sample {sample}: sampler and worker differ"))
            })
        };
        self.lease.samples.iter().enumerate().map(wanted).collect()
    }

    /// Encoded bytes of the lease, estimated by the mean of each shard.
    fn encoded_bytes(&self) -> u64 {
        let mean = |sample: &SampleRef| {
            let manifest = &self.session.datasets[usize::from(sample.dataset)].manifest;
            let shard = &manifest.shards()[sample.shard as usize];
            shard.bytes / u64::from(shard.samples.max(1))
        };
        self.lease.samples.iter().map(mean).sum()
    }

    pub(super) async fn read(
        &self,
        wanted: Vec<Wanted>,
        times: &mut WorkTimes,
    ) -> Result<Vec<Found>, LeaseError> {
        let started = Instant::now();
        let Session { datasets, fields, .. } = &*self.session;
        let found = self.unless_withdrawn(read::read(datasets, fields, wanted)).await??;
        times.read_us += micros(started);
        let bytes = found.iter().filter_map(|found| found.input.as_ref().ok());
        times.encoded_bytes += bytes.map(|input| input.encoded.len() as u64).sum::<u64>();
        Ok(found)
    }

    async fn begin(&self) -> Result<PartBuffer, LeaseError> {
        let PartLease { lease, slot, batch_samples, first, ref samples, .. } = self.lease;
        let layout = self.session.layout(batch_samples);
        let regions = layout.part_regions(first, samples.len() as u32).into();
        let place = PartPlace { lease: LeaseId(lease), slot: SlotId(slot), regions };
        Ok(self.unless_withdrawn(self.session.link.begin(place)).await??)
    }

    /// Once begun it runs to its end, unless the session's end makes it pointless: to drop the
    /// future is then to abandon the part.
    async fn commit(&self, part: PartBuffer) -> Result<(), LeaseError> {
        tokio::select! {
            biased;
            () = self.session.ending.cancelled() => Err(LeaseError::Withdrawn),
            committed = self.session.link.commit(part) => Ok(committed?),
        }
    }

    pub(super) async fn unless_withdrawn<T>(
        &self,
        work: impl Future<Output = T>,
    ) -> Result<T, LeaseError> {
        tokio::select! {
            biased;
            () = self.withdrawn.cancelled() => Err(LeaseError::Withdrawn),
            done = work => Ok(done),
        }
    }
}

// === impl LeaseError ===

impl LeaseError {
    fn into_failure(self, lease: u64) -> Failure {
        let (kind, message) = match self {
            Self::Withdrawn => (FailureKind::Withdrawn, format!("lease {lease} was withdrawn")),
            Self::Retry(message) => (FailureKind::Retry, message),
            Self::Fatal(message) => (FailureKind::Fatal, message),
        };
        Failure { lease, kind, message }
    }
}

impl From<StorageClientError> for LeaseError {
    fn from(error: StorageClientError) -> Self {
        let message = sentence(&error);
        if error.is_retryable() { Self::Retry(message) } else { Self::Fatal(message) }
    }
}

impl From<LinkError> for LeaseError {
    fn from(error: LinkError) -> Self {
        match error {
            LinkError::Withdrawn { .. } => Self::Withdrawn,
            LinkError::Place { .. } => Self::Fatal(error.to_string()),
            _ => Self::Retry(error.to_string()),
        }
    }
}

fn micros(since: Instant) -> u64 {
    since.elapsed().as_micros() as u64
}
