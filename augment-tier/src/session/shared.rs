//! A lease whose part others may want too: made at most once, given to each as its link can take it.

use std::sync::Arc;
use std::time::Instant;

use headwater_core::Region;
use headwater_proto::augment::{PartDone, PartLease, PartOrigin, WorkTimes};
use headwater_render::part::PartScales;
use headwater_transport::{PartBuffer, PartMemory, SendsWhole};

use super::error::{LeaseError, micros};
use super::lease::LeaseWork;
use super::source::PartWork;
use crate::share::{Claim, Made, Making, Report, Share};

// === impl LeaseWork ===

impl LeaseWork {
    /// Has the part made unless it is there or being made, and delivers it.
    ///
    /// The means of delivery are acquired first, so that a finished part never waits for a slow
    /// receiver: other receivers' parts may need its memory.
    pub(super) async fn deliver_shared(&self, scales: PartScales) -> Result<PartDone, LeaseError> {
        let begun = Instant::now();
        let (session, part_bytes) = (&self.session, self.work.part_bytes);
        let link = session.link.sends_whole();
        let waiting = self.work.span.child("wait for room");
        let _place = self.unless_withdrawn(session.parts.acquire()).await?;
        let started = Instant::now();
        let _memory = self.unless_withdrawn(session.memory_for(part_bytes)).await?;
        let buffer = if link.is_some() { None } else { Some(self.begin().await?) };
        waiting.end();
        let room_us = micros(started);
        let sharing = self.work.span.child("wait for part");
        let share = &session.source.worker.share;
        let PartLease { epoch, bucket, samples, .. } = &self.lease;
        let key = session.source.scope.key(*epoch, *bucket, samples, scales.given());
        let (made, origin) = match share.claim(key, session.stream) {
            Claim::Kept(made) => (made, PartOrigin::Shared),
            Claim::Waits(waiter) => {
                (self.unless_withdrawn(waiter.part()).await??, PartOrigin::Shared)
            }
            Claim::Makes(waiter, making) => {
                let origin = making.origin;
                self.have_made(making, scales);
                (self.unless_withdrawn(waiter.part()).await??, origin)
            }
        };
        sharing.with("shared", origin == PartOrigin::Shared).end();
        let delivering = self.work.span.child("deliver").with("bytes", part_bytes);
        let started = Instant::now();
        let report = Arc::clone(&made.report);
        match (buffer, link) {
            (Some(buffer), _) => self.commit(copied(made, buffer).await?).await?,
            (None, Some(link)) => self.send(link, made).await?,
            (None, None) => unreachable!("a link that sends nothing whole has given a buffer"),
        }
        delivering.end();
        share.delivered(key, session.id);
        let times = if origin == PartOrigin::Shared { WorkTimes::default() } else { report.times };
        Ok(PartDone {
            lease: self.lease.lease,
            checksum: report.checksum,
            samples: report.samples.clone(),
            times: WorkTimes {
                room_us,
                deliver_us: micros(started),
                whole_us: micros(begun),
                ..times
            },
            fp8_amaxes: report.fp8_amaxes.clone(),
            origin,
        })
    }

    /// Starts a task that makes the part for all who want it, whatever becomes of this lease.
    fn have_made(&self, making: Making, scales: PartScales) {
        let regions = self.place().regions;
        let work = self.work.unwanted_by(making.unwanted.clone());
        let share = Arc::clone(&work.source.worker.share);
        let making = async move {
            let end = work.make(&work.source.worker.share, regions, scales).await;
            making.end(end);
        };
        share.makings.spawn(making);
    }

    /// Sends a part from where it lies, or a copy where links read too much of the share already.
    async fn send(&self, link: &dyn SendsWhole, made: Made) -> Result<(), LeaseError> {
        let share = &self.session.source.worker.share;
        let Some(_lent) = share.lend(made.part.len_bytes()) else {
            let buffer = self.begin().await?;
            return self.commit(copied(made, buffer).await?).await;
        };
        tokio::select! {
            biased;
            () = self.session.ending.cancelled() => Err(LeaseError::Withdrawn),
            sent = link.send_whole(self.place(), made.part) => Ok(sent?),
        }
    }
}

/// The part in a link's buffer. Not given up half-way: the thread writes to the buffer.
async fn copied(made: Made, mut buffer: PartBuffer) -> Result<PartBuffer, LeaseError> {
    let copy = move || made.part.copy_to(&mut buffer).map(|()| buffer);
    let copied = tokio::task::spawn_blocking(copy).await;
    let copied = copied.map_err(|error| LeaseError::Retry(format!("copying a part: {error}")))?;
    copied.map_err(|error| LeaseError::Fatal(error.to_string()))
}

// === impl PartWork ===

impl PartWork {
    /// Makes the part in memory of its own. The memory is acquired before anything is read: a part that
    /// holds some waits for nothing that one without it holds.
    async fn make(
        &self,
        share: &Arc<Share>,
        regions: Arc<[Region]>,
        scales: PartScales,
    ) -> Result<Made, LeaseError> {
        let scales = Arc::new(scales);
        let bytes = PartMemory::bytes_for(&regions);
        let memory = self.unless_withdrawn(share.memory(bytes)).await??;
        let lender = Arc::clone(share);
        let buffer = PartBuffer::in_memory(regions, memory, move |memory| lender.give_back(memory));
        let buffer = buffer.map_err(|error| LeaseError::Fatal(error.to_string()))?;
        let mut times = WorkTimes::default();
        let mut pieces = self.pieces(self.wanted()?);
        let first = self.read_ahead(pieces.pop_front().unwrap_or_default(), &mut times).await?;
        let (part, checksum, samples) =
            self.fill(buffer, (first, pieces), &scales, &mut times).await?;
        let fp8_amaxes = scales.amaxes();
        let report = Arc::new(Report { checksum, samples, times, fp8_amaxes });
        Ok(Made { part: part.whole(), report })
    }
}
