//! One lease from its arrival to its end.

use std::collections::VecDeque;
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
use crate::pool::QueuePlace;
use crate::worker::StagingRoom;

/// A lease that is being worked on.
pub(crate) struct LeaseWork {
    pub(super) session: Arc<Session>,
    pub(super) lease: PartLease,
    /// Where it stands in the pool's queue.
    pub(super) place: QueuePlace,
    /// The receiver has taken it back, or the session ends.
    pub(super) withdrawn: CancellationToken,
}

/// Samples of a lease that have been read ahead.
pub(super) struct Piece {
    pub(super) found: Vec<Found>,
    _room: StagingRoom,
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
    pub(crate) async fn fulfil(self) -> Result<PartDone, Failure> {
        self.deliver().await.map_err(|error| error.into_failure(self.lease.lease))
    }

    async fn deliver(&self) -> Result<PartDone, LeaseError> {
        let wanted = self.wanted()?;
        let part_bytes = self.part_bytes()?;
        let scales = Arc::new(self.scales()?);
        let mut times = WorkTimes::default();
        let mut pieces = self.pieces(wanted);
        let first = self.read_ahead(pieces.pop_front().unwrap_or_default(), &mut times).await?;
        // Held until the pool is done with the part: what is beyond it has been read ahead. The
        // semaphores are never closed.
        let place = self.unless_withdrawn(self.session.parts.acquire()).await?;
        // Held until the part is on its way.
        let memory = self.unless_withdrawn(self.session.memory_for(part_bytes)).await?;
        let buffer = self.begin().await?;
        let (part, checksum, samples) =
            self.fill(buffer, (first, pieces), &scales, &mut times).await?;
        drop(place);
        let started = Instant::now();
        self.commit(part).await?;
        drop(memory);
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

    /// Bytes of the part, which the receiver chooses within this worker's bound.
    pub(super) fn part_bytes(&self) -> Result<u64, LeaseError> {
        let samples = self.lease.samples.len();
        let layout = self.session.layout(self.lease.batch_samples);
        let regions = layout.part_regions(self.lease.first, samples as u32);
        let bytes = regions.iter().map(|region| region.len_bytes).sum();
        let most = self.session.worker.config.part_bytes_max;
        if bytes <= most {
            return Ok(bytes);
        }
        Err(LeaseError::Fatal(format!(
            "a part of {} has {bytes} bytes, and augment.part_bytes_max of worker {} is {most}: lower \
             receiver.part_samples, or raise augment.part_bytes_max",
            headwater_core::counted(samples, "sample"),
            self.session.worker.name
        )))
    }

    /// Encoded bytes of a sample, estimated by the mean of its shard.
    fn encoded_bytes(&self, sample: &SampleRef) -> u64 {
        let manifest = &self.session.datasets[usize::from(sample.dataset)].manifest;
        let shard = &manifest.shards()[sample.shard as usize];
        shard.bytes / u64::from(shard.samples.max(1))
    }

    /// The samples in pieces that are read at a time: a lease of any size leaves room for other sessions.
    fn pieces(&self, wanted: Vec<Wanted>) -> VecDeque<Vec<Wanted>> {
        let most = self.session.worker.staging.piece_bytes();
        let mut pieces: VecDeque<Vec<Wanted>> = VecDeque::new();
        let mut bytes = 0;
        for wanted in wanted {
            let of_sample = self.encoded_bytes(&wanted.asked);
            bytes += of_sample;
            match pieces.back_mut().filter(|_| bytes <= most) {
                Some(piece) => piece.push(wanted),
                None => {
                    bytes = of_sample;
                    pieces.push_back(vec![wanted]);
                }
            }
        }
        pieces
    }

    /// Reads a piece as soon as there is room for it; the room is held as long as what was read.
    pub(super) async fn read_ahead(
        &self,
        piece: Vec<Wanted>,
        times: &mut WorkTimes,
    ) -> Result<Piece, LeaseError> {
        let bytes = piece.iter().map(|wanted| self.encoded_bytes(&wanted.asked)).sum();
        let staging = &self.session.worker.staging;
        let room = self.unless_withdrawn(staging.take(self.session.id, bytes)).await?;
        Ok(Piece { found: self.read(piece, times).await?, _room: room })
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
