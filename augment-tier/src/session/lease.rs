//! One lease from its arrival to its end.

use std::sync::Arc;
use std::time::Instant;

use headwater_core::Region;
use headwater_proto::augment::{Failure, PartDone, PartLease, PartOrigin, WorkTimes};
use headwater_render::part::PartScales;
use headwater_trace::{FlowStep, Span, Tier};
use headwater_transport::{LeaseId, PartBuffer, PartMemory, PartPlace, SlotId};
use tokio_util::sync::CancellationToken;

use super::error::{LeaseError, micros};
use super::open::Session;
use super::read::Wanted;
use super::source::PartWork;
use crate::pool::QueuePlace;

/// A lease that is being worked on.
pub(crate) struct LeaseWork {
    pub(super) session: Arc<Session>,
    pub(super) lease: PartLease,
    /// The part's regions in the receiver's slot.
    regions: Arc<[Region]>,
    /// Withdrawn when the receiver has taken the lease back, or the session ends.
    pub(super) work: PartWork,
}

// === impl LeaseWork ===

impl LeaseWork {
    /// A lease as it came, of a bucket that the recipe has.
    pub(super) fn new(
        session: Arc<Session>,
        lease: PartLease,
        place: QueuePlace,
        withdrawn: CancellationToken,
    ) -> Self {
        let samples = lease.samples.len() as u32;
        let plan = session.plan(lease.bucket).cloned().expect("checked when the lease came");
        let layout = session.layout(&plan, lease.batch_samples, lease.bucket);
        let regions: Arc<[Region]> = layout.part_regions(lease.first, samples).into();
        let span = span_of(&session, &lease);
        let work = PartWork {
            source: Arc::clone(&session.source),
            plan,
            epoch: lease.epoch,
            samples: lease.samples.clone(),
            part_bytes: regions.iter().map(|region| region.len_bytes).sum(),
            place,
            withdrawn,
            span,
        };
        Self { session, lease, regions, work }
    }

    /// Does the work. When it returns, nothing writes for this lease any more.
    pub(crate) async fn fulfil(self) -> Result<PartDone, Failure> {
        self.deliver().await.map_err(|error| error.into_failure(self.lease.lease))
    }

    async fn deliver(&self) -> Result<PartDone, LeaseError> {
        let wanted = self.work.wanted()?;
        self.check_bytes()?;
        let scales = self.scales()?;
        if self.session.source.worker.share.takes(PartMemory::bytes_for(&self.regions)) {
            return self.deliver_shared(scales).await;
        }
        self.deliver_alone(wanted, Arc::new(scales)).await
    }

    /// Makes the part in the link's own memory.
    async fn deliver_alone(
        &self,
        wanted: Vec<Wanted>,
        scales: Arc<PartScales>,
    ) -> Result<PartDone, LeaseError> {
        let begun = Instant::now();
        let mut times = WorkTimes::default();
        let mut pieces = self.work.pieces(wanted);
        let first = pieces.pop_front().unwrap_or_default();
        let first = self.work.read_ahead(first, &mut times).await?;
        // Held until the pool is done with the part: what is beyond it has been read ahead. The
        // semaphores are never closed.
        let waiting = self.work.span.child("wait for room");
        let place = self.unless_withdrawn(self.session.parts.acquire()).await?;
        // Held until the part is on its way.
        let started = Instant::now();
        let memory = self.unless_withdrawn(self.session.memory_for(self.work.part_bytes)).await?;
        let buffer = self.begin().await?;
        waiting.end();
        times.room_us = micros(started);
        let (part, checksum, samples) =
            self.work.fill(buffer, (first, pieces), &scales, &mut times).await?;
        drop(place);
        let started = Instant::now();
        let delivering = self.work.span.child("deliver").with("bytes", self.work.part_bytes);
        self.commit(part).await?;
        delivering.end();
        drop(memory);
        times.deliver_us = micros(started);
        times.whole_us = micros(begun);
        let (lease, fp8_amaxes, origin) = (self.lease.lease, scales.amaxes(), PartOrigin::Computed);
        Ok(PartDone { lease, checksum, samples, times, fp8_amaxes, origin })
    }

    fn scales(&self) -> Result<PartScales, LeaseError> {
        let recipe = self.work.plan.recipe();
        let given = &self.lease.fp8_scales;
        PartScales::new(recipe, given.clone()).ok_or_else(|| {
            let (given, wanted) = (given.len(), recipe.fp8_tensors().count());
            LeaseError::Fatal(format!("the lease has {given} FP8 scales, the recipe {wanted}"))
        })
    }

    /// Checks the bytes of the part, which the receiver chooses within this worker's bound.
    fn check_bytes(&self) -> Result<(), LeaseError> {
        let (samples, bytes) = (self.lease.samples.len(), self.work.part_bytes);
        let worker = &self.session.source.worker;
        let most = worker.config.leases.part_bytes_max;
        if bytes <= most {
            return Ok(());
        }
        Err(LeaseError::Fatal(format!(
            "a part of {} has {bytes} bytes, and augment.part_bytes_max of worker {} is {most}: lower \
             receiver.part_samples, or raise augment.part_bytes_max",
            headwater_core::pluralize(samples, "sample"),
            worker.name
        )))
    }

    /// Where the part goes.
    pub(super) fn place(&self) -> PartPlace {
        let PartLease { lease, slot, .. } = self.lease;
        let regions = Arc::clone(&self.regions);
        PartPlace { lease: LeaseId(lease), slot: SlotId(slot), regions }
    }

    pub(super) async fn begin(&self) -> Result<PartBuffer, LeaseError> {
        Ok(self.unless_withdrawn(self.session.link.begin(self.place())).await??)
    }

    /// Once begun it runs to its end, unless the session's end makes it pointless: to drop the
    /// future is then to abandon the part.
    pub(super) async fn commit(&self, part: PartBuffer) -> Result<(), LeaseError> {
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
        self.work.unless_withdrawn(work).await
    }
}

/// The making of a part, as the trace shows it.
fn span_of(session: &Session, lease: &PartLease) -> Span {
    let span = Span::on_lane(Tier::Augment, "make part", "lease");
    if span.context().is_none() {
        return span;
    }
    let given = session.lease_context(lease.lease);
    let mut span = span.of(given.at_worker(), Some(given), FlowStep::Between);
    span.arg("receiver", session.receiver.clone());
    span.arg("lease", lease.lease);
    span.arg("epoch", lease.epoch);
    span.arg("step", lease.step);
    span.arg("first_sample", lease.first);
    span.arg("samples", lease.samples.len());
    span
}
