//! What a session's parts are made of, and the making of one: whoever it is for.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use headwater_core::{PartScope, SampleRef};
use headwater_proto::augment::{BadSamplePolicy, WorkTimes};
use headwater_render::part::{PartPlan, SampleFields};
use headwater_trace::{Span, Tier};
use tokio_util::sync::CancellationToken;

use super::error::{LeaseError, micros};
use super::read::{self, Found, Input, SessionDataset, Wanted};
use crate::pool::QueuePlace;
use crate::worker::{StagingRoom, Worker};

/// All that the parts of a session follow from. Stays as long as a part is made, which may be longer than
/// the session.
pub(crate) struct Source {
    pub(crate) worker: Arc<Worker>,
    pub(crate) seed: u64,
    pub(crate) on_bad_sample: BadSamplePolicy,
    /// One for each bucket of the recipe.
    pub(crate) plans: Vec<Arc<PartPlan>>,
    pub(crate) datasets: Vec<SessionDataset>,
    pub(crate) fields: SampleFields,
    pub(crate) scope: PartScope,
}

/// A part to make.
pub(super) struct PartWork {
    pub(super) source: Arc<Source>,
    /// That of the lease's bucket.
    pub(super) plan: Arc<PartPlan>,
    pub(super) epoch: u32,
    pub(super) samples: Vec<SampleRef>,
    /// Its bytes, all regions together.
    pub(super) part_bytes: u64,
    /// Where it stands in the pool's queue.
    pub(super) place: QueuePlace,
    /// Cancelled when the part is no longer wanted.
    pub(super) withdrawn: CancellationToken,
    /// The making, on a lane of its own.
    pub(super) span: Span,
}

/// Samples of a part that have been read ahead.
pub(super) struct Piece {
    pub(super) found: Vec<Found>,
    _room: StagingRoom,
}

// === impl PartWork ===

impl PartWork {
    /// The samples, each checked to be in its manifest.
    pub(super) fn wanted(&self) -> Result<Vec<Wanted>, LeaseError> {
        let wanted = |(position, &asked): (usize, &SampleRef)| {
            let datasets = &self.source.datasets;
            let known = datasets
                .get(usize::from(asked.dataset))
                .and_then(|dataset| dataset.manifest.sample_id(&asked));
            let SampleRef { dataset, shard, index, .. } = asked;
            known.map(|_| Wanted { position, asked, index }).ok_or_else(|| {
                let sample = format!("dataset {dataset} shard {shard} number {index}");
                LeaseError::Fatal(format!("there is no sample {sample}: sampler and worker differ"))
            })
        };
        self.samples.iter().enumerate().map(wanted).collect()
    }

    /// Encoded bytes of a sample, estimated by the mean of its shard.
    fn encoded_bytes(&self, sample: &SampleRef) -> u64 {
        let manifest = &self.source.datasets[usize::from(sample.dataset)].manifest;
        let shard = &manifest.shards()[sample.shard as usize];
        shard.bytes / u64::from(shard.samples.max(1))
    }

    /// The samples in pieces that are read at a time: a part of any size leaves room for other sessions.
    pub(super) fn pieces(&self, wanted: Vec<Wanted>) -> VecDeque<Vec<Wanted>> {
        let most = self.source.worker.staging.piece_bytes();
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
        let staging = &self.source.worker.staging;
        let waiting = self.span.child("wait for staging");
        let room = self.unless_withdrawn(staging.take(self.place.session, bytes)).await?;
        waiting.end();
        Ok(Piece { found: self.read(piece, false, times).await?, _room: room })
    }

    /// Reads samples; with `again` those that looked broken.
    pub(super) async fn read(
        &self,
        wanted: Vec<Wanted>,
        again: bool,
        times: &mut WorkTimes,
    ) -> Result<Vec<Found>, LeaseError> {
        let started = Instant::now();
        let Source { datasets, fields, .. } = &*self.source;
        let reading = self.span.child("read").with("samples", wanted.len());
        let read = read::read(datasets, fields, wanted, (again, reading.context()));
        let (found, fetch) = self.unless_withdrawn(read).await??;
        reading.end();
        let read_us = micros(started);
        times.read_us += read_us;
        times.fetch_us += read_us.min(fetch.as_micros() as u64);
        let bytes = found.iter().filter_map(|found| found.input.as_ref().ok());
        times.encoded_bytes += bytes.map(Input::len_bytes).sum::<u64>();
        Ok(found)
    }

    /// The same work, given up by another token. It may go on after the lease's end.
    pub(super) fn unwanted_by(&self, withdrawn: CancellationToken) -> Self {
        let (source, plan) = (Arc::clone(&self.source), Arc::clone(&self.plan));
        let samples = self.samples.clone();
        let span = Span::on_lane(Tier::Augment, "make shared part", "shared part");
        let span = span.within(self.span.context());
        let Self { epoch, part_bytes, place, .. } = *self;
        Self { source, plan, epoch, samples, part_bytes, place, withdrawn, span }
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
