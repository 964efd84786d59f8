//! Filling a part: rendering its samples, and what stands in for bad ones.
//!
//! The rule for bad samples is a pure function of the sample asked for: the next one of its shard
//! that can be read and rendered, drawn with the key of the sample asked for. Where and when it
//! is found out changes nothing.

use std::collections::VecDeque;
use std::sync::Arc;

use headwater_core::SampleRef;
use headwater_proto::augment::{BadSamplePolicy, Provenance, Substitution, WorkTimes};
use headwater_render::part::{PartScales, SampleFault, next_substitute, substitutes_max};
use headwater_render::{RenderError, RenderKey};
use headwater_transport::{PartBuffer, PartRow, WrittenRow};

use super::error::LeaseError;
use super::read::{Found, Input, Wanted};
use super::source::{PartWork, Piece};
use crate::pool::{
    JobEnd, JobResult, QueuedSample, RenderInput, RenderJob, Spent, UndecodedSample,
};
use crate::worker::BadSample;

/// One place in a part, while it is filled.
struct Place {
    wanted: Wanted,
    /// Key and label of the sample that is tried now.
    key: String,
    label: i64,
    /// Its row, while no thread has it and it is not written.
    row: Option<PartRow>,
    /// Why the sample asked for is not there.
    reason: Option<String>,
    /// Whether the sample that is tried now was read a second time.
    is_again: bool,
}

// === impl PartWork ===

impl PartWork {
    /// Renders the part and seals it: its bytes, their checksum, and what the samples are.
    pub(super) async fn fill(
        &self,
        buffer: PartBuffer,
        (mut piece, mut pieces): (Piece, VecDeque<Vec<Wanted>>),
        scales: &Arc<PartScales>,
        times: &mut WorkTimes,
    ) -> Result<(PartBuffer, u64, Vec<Provenance>), LeaseError> {
        let mut places = self.places(buffer);
        let mut written = Vec::new();
        loop {
            let found = std::mem::take(&mut piece.found);
            let (samples, mut bad) = self.queued(&mut places, found);
            // Where a sample is bad already, others follow: then these are not the last.
            let last = bad.is_empty() && pieces.is_empty();
            let rest = last.then(|| std::mem::take(&mut written));
            let end = self.render(samples, rest, scales).await?;
            end.add_to(times);
            match end.result {
                JobResult::Sealed { part, checksum } => {
                    return Ok((part, checksum, places.into_iter().map(Into::into).collect()));
                }
                JobResult::Rows { good, bad: undecoded } => {
                    written.extend(good);
                    for UndecodedSample { position, row, error } in undecoded {
                        places[position].row = Some(row);
                        bad.push((position, SampleFault::Image(error)));
                    }
                }
                JobResult::TakenBack => return Err(LeaseError::Withdrawn),
                JobResult::Broken { position, reason } => {
                    return Err(LeaseError::Fatal(self.named(&places[position], &reason)));
                }
                JobResult::Passing { position, error } => {
                    if let RenderError::DeviceLost { reason } = &error {
                        self.source.worker.lose_device(reason);
                    }
                    return Err(LeaseError::Retry(self.named(&places[position], &error)));
                }
            }
            let (mut again, mut next) = (Vec::new(), Vec::new());
            for (position, fault) in bad {
                let place = &mut places[position];
                // Bytes that came wrong over one connection are no word on the sample.
                match std::mem::replace(&mut place.is_again, true) {
                    false => again.push(place.wanted),
                    true => next.push(self.replace(place, &fault)?),
                }
            }
            if !again.is_empty() {
                piece.found = self.read(again, true, times).await?;
            }
            if !next.is_empty() {
                piece.found.extend(self.read(next, false, times).await?);
            }
            if !piece.found.is_empty() {
                continue;
            }
            if let Some(next) = pieces.pop_front() {
                // Its room goes first: a session that waits for more while it holds some may wait for itself.
                drop(piece);
                piece = self.read_ahead(next, times).await?;
            }
        }
    }

    fn places(&self, buffer: PartBuffer) -> Vec<Place> {
        let samples = &self.samples;
        let rows = buffer.into_rows(samples.len());
        let place = |(row, &asked): (PartRow, &SampleRef)| Place {
            wanted: Wanted { position: row.row(), asked, index: asked.index },
            key: String::new(),
            label: -1,
            row: Some(row),
            reason: None,
            is_again: false,
        };
        rows.into_iter().zip(samples).map(place).collect()
    }

    /// Turns what was read into samples for the pool; the others are bad.
    fn queued(
        &self,
        places: &mut [Place],
        found: Vec<Found>,
    ) -> (Vec<QueuedSample>, Vec<(usize, SampleFault)>) {
        let mut samples = Vec::with_capacity(found.len());
        let mut bad = Vec::new();
        for Found { wanted, key, input } in found {
            let position = wanted.position;
            let place = &mut places[position];
            place.key = key;
            match input {
                Ok(Input { encoded, entries, label, extra_fields }) => {
                    place.label = label;
                    let row = place.row.take().expect("a row is written once");
                    let key = self.render_key(&wanted.asked);
                    let input = RenderInput { key, encoded, entries, extra_fields, label };
                    samples.push(QueuedSample { position, input, row });
                }
                Err(fault) => bad.push((position, fault)),
            }
        }
        (samples, bad)
    }

    async fn render(
        &self,
        samples: Vec<QueuedSample>,
        rest: Option<Vec<WrittenRow>>,
        scales: &Arc<PartScales>,
    ) -> Result<JobEnd, LeaseError> {
        let count = samples.len();
        let pool = &self.source.worker.pool;
        let plan = self.plan.clone();
        let rendering = self.span.child("render part").with("samples", count);
        let at_once = pool.samples_at_once();
        let (job, mut end) =
            RenderJob::new(plan, scales.clone(), at_once, samples, rest, rendering.context());
        if count == 0 {
            let result = JobResult::Rows { good: Vec::new(), bad: Vec::new() };
            return Ok(JobEnd { result, spent: Spent::default() });
        }
        let bytes = self.part_bytes * count as u64 / self.samples.len() as u64;
        pool.submit(self.place, job.clone(), job.units(), bytes / job.units() as u64);
        let ended = tokio::select! {
            ended = &mut end => ended,
            () = self.withdrawn.cancelled() => {
                pool.take_back(self.place, &*job);
                // Samples under way run to their end: until then their threads write.
                end.await.map(|JobEnd { spent, .. }| JobEnd { result: JobResult::TakenBack, spent })
            }
        };
        rendering.end();
        ended.map_err(|_| {
            LeaseError::Fatal("sealing the part panicked: see this worker's log".into())
        })
    }

    /// Goes on to the next candidate for a place whose sample is bad.
    fn replace(&self, place: &mut Place, fault: &SampleFault) -> Result<Wanted, LeaseError> {
        let sentence = self.named(place, fault);
        let asked = place.wanted.asked;
        let dataset = &self.source.datasets[usize::from(asked.dataset)];
        let samples = dataset.manifest.shards()[asked.shard as usize].samples;
        let first = place.reason.get_or_insert_with(|| sentence.clone());
        if self.source.on_bad_sample == BadSamplePolicy::Fail {
            let remedy = "on_bad_sample = \"substitute\" would replace it";
            return Err(LeaseError::Fatal(format!("{sentence}; {remedy}")));
        }
        let (shard, index) = (asked.shard, place.wanted.index);
        let Some(next) = next_substitute(asked.index, index, samples) else {
            let tried = substitutes_max(samples);
            let also = format!("nor can the {tried} after it be used, the last being {sentence}");
            return Err(LeaseError::Fatal(format!("{first}; {also}: mend or remove the shard")));
        };
        let manifest = dataset.manifest.digest();
        self.source.worker.bad_samples.substituted(BadSample { manifest, shard, index }, &sentence);
        place.wanted.index = next;
        place.is_again = false;
        Ok(place.wanted)
    }

    fn render_key(&self, asked: &SampleRef) -> RenderKey {
        let dataset = &self.source.datasets[usize::from(asked.dataset)];
        let sample = dataset.manifest.sample_id(asked).expect("checked when the lease came");
        RenderKey { seed: self.source.seed, epoch: self.epoch, pass: asked.pass, sample }
    }

    /// What is wrong with the sample that is tried for a place, with its shard and key.
    fn named(&self, place: &Place, fault: &dyn std::fmt::Display) -> String {
        let manifest = &self.source.datasets[usize::from(place.wanted.asked.dataset)].manifest;
        let shard = &manifest.shards()[place.wanted.asked.shard as usize].name;
        format!("shard `{shard}` sample `{}`: {fault}", place.key)
    }
}

// === impl Place ===

impl From<Place> for Provenance {
    fn from(place: Place) -> Self {
        let used_index = place.wanted.index;
        let substituted = place.reason.map(|reason| Substitution { used_index, reason });
        Self { key: place.key, label: place.label, substituted }
    }
}
