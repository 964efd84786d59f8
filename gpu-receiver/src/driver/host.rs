//! Batches of this host's service: asked for one after another, until it has not what is wanted.

use std::collections::VecDeque;
use std::time::Duration;

use headwater_core::part::PartScope;
use headwater_trace::{Span, Tier};
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;
use tokio::time::Instant;

use super::sequencer::NextBatch;
use crate::batch::{BatchSpans, Hold, Home};
use crate::error::ReceiverError;
use crate::host::{HostAsk, HostBatch, HostWord};
use crate::ledger::{BatchOrder, FinishedBatch};
use crate::position::Position;
use crate::slots::SlotPool;
use crate::stall::LastPart;

/// Batches that are asked for ahead of the one that the trainer holds. They are made already: this only
/// hides the way there, and a trial that stops keeps no more of the service's slots.
pub(crate) const ASKS_AHEAD: usize = 2;

/// The way to the service of this host.
pub(crate) struct HostLink {
    /// As many as are open at most.
    pub(crate) words: mpsc::Sender<HostWord>,
    /// Makes slots for batches that this receiver makes itself, once.
    pub(crate) make_room: MakeRoom,
}

/// Makes slots, if there is room for them.
pub(super) type MakeRoom = Box<dyn FnOnce(&mut SlotPool) -> Result<(), ReceiverError> + Send>;

/// The service, as the driver sees it.
pub(super) struct Host {
    words: mpsc::Sender<HostWord>,
    scope: PartScope,
    worker_wait: Duration,
    /// Not answered yet, in order.
    open: VecDeque<Asked>,
    next_ask: u64,
    /// Whether anything was asked for since the service last learned that nothing is.
    asks_since: bool,
    /// Grows when what was asked for is wanted no more.
    generation: u64,
    /// The last epoch that is made by oneself.
    alone_to: Option<u32>,
    /// Taken when the first batch is made by oneself.
    make_room: Option<MakeRoom>,
    /// When it was asked or heard of last.
    heard: Instant,
}

/// A batch that is asked for.
pub(super) struct Asked {
    ask: u64,
    pub(super) next: NextBatch,
    pub(super) span: Span,
}

/// What follows when batches are not the service's any more.
pub(super) struct Alone {
    /// The first batch that was asked for and is not answered: it is drawn again.
    pub(super) first: Option<Position>,
    /// The first time: what makes slots.
    pub(super) make_room: Option<MakeRoom>,
}

// === impl Host ===

impl Host {
    /// `worker_wait`: how long an answer is waited for.
    pub(super) fn new(link: HostLink, scope: PartScope, worker_wait: Duration) -> Self {
        let HostLink { words, make_room } = link;
        Self {
            words,
            scope,
            worker_wait,
            asks_since: false,
            open: VecDeque::new(),
            next_ask: 0,
            generation: 0,
            alone_to: None,
            make_room: Some(make_room),
            heard: Instant::now(),
        }
    }

    /// Whether no batch was ever made by oneself: there are no slots for any.
    pub(super) fn gives_all(&self) -> bool {
        self.make_room.is_some()
    }

    /// Whether the service has the batch of a place, as far as is known.
    pub(super) fn has(&self, at: Position) -> bool {
        self.alone_to.is_none_or(|last| at.epoch > last)
    }

    /// Whether a batch is asked for and not answered.
    pub(super) fn is_awaited(&self) -> bool {
        !self.open.is_empty()
    }

    /// Asks the service for a batch, beside `ready` ones that the trainer has not taken; gives it back where that
    /// cannot be yet.
    pub(super) fn ask(&mut self, next: NextBatch, ready: usize) -> Option<NextBatch> {
        if self.open.len() + ready >= ASKS_AHEAD {
            return Some(next);
        }
        let (ask, at) = (self.next_ask, next.plan.at);
        let key = self.scope.key(at.epoch, next.bucket, &next.plan.samples, &next.fp8_scales);
        // Where the service is gone, that is on its way here.
        let word = HostWord::Ask(HostAsk { ask, generation: self.generation, at, key });
        if let Err(TrySendError::Full(_)) = self.words.try_send(word) {
            return Some(next);
        }
        self.next_ask += 1;
        self.asks_since = true;
        self.heard = Instant::now();
        let mut span = Span::on_lane(Tier::Receiver, "batch of host service", "batch");
        span.arg("epoch", at.epoch);
        span.arg("step", at.step);
        self.open.push_back(Asked { ask, next, span });
        None
    }

    /// Nobody wants what was asked for any more.
    pub(super) fn forget(&mut self) {
        self.generation += 1;
        self.open.clear();
    }

    pub(super) fn on_heard(&mut self) {
        self.heard = Instant::now();
    }

    /// Whether this is what is answered next.
    pub(super) fn is_next(&self, ask: u64) -> bool {
        self.open.front().is_some_and(|asked| asked.ask == ask)
    }

    /// Takes what is answered, if it is answered next and still wanted.
    pub(super) fn answered(&mut self, ask: u64) -> Option<Asked> {
        self.open.pop_front_if(|asked| asked.ask == ask)
    }

    /// Has the batches from here on made by oneself, to the end of an epoch: of this one, where nothing is said.
    /// `place` is the one that is ordered next.
    pub(super) fn go_alone(&mut self, reason: &str, to: Option<u32>, place: Position) -> Alone {
        let first = self.open.front().map(|asked| asked.next.plan.at);
        self.forget();
        let at = first.unwrap_or(place);
        self.alone_to = self.alone_to.max(Some(to.unwrap_or(at.epoch)));
        tracing::warn!(
            epoch = at.epoch,
            step = at.step,
            reason,
            "not shared on this host from here"
        );
        crate::metrics::went_alone();
        Alone { first, make_room: self.make_room.take() }
    }

    /// Tells a service that is asked for nothing: it holds others back for those who follow.
    pub(super) fn on_away(&mut self) {
        if self.asks_since {
            // Where it says much else, later.
            self.asks_since = self.words.try_send(HostWord::Leave).is_err();
        }
    }

    /// How long it has not answered, if that is longer than one waits for a worker.
    pub(super) fn overdue(&self) -> Option<Duration> {
        let waited = self.heard.elapsed();
        (self.is_awaited() && waited > self.worker_wait).then_some(waited)
    }
}

/// A batch of the service as one that was made here; `None` if it is not what was ordered.
pub(super) fn finished(
    order: BatchOrder,
    batch: HostBatch,
    span: Span,
) -> Option<(FinishedBatch, Home)> {
    let HostBatch { memory, provenance, fp8_amaxes, delivery, .. } = batch;
    let fits = provenance.len() == order.samples.len()
        && fp8_amaxes.len() == order.fp8_scales.len()
        && order.layout.len_bytes() <= memory.len_bytes();
    if !fits {
        return None;
    }
    let spans = BatchSpans::new(span, Vec::new());
    let home = Home { memory, device: None, hold: Hold::Delivery(delivery), spans };
    let on_host = std::iter::once(0..order.samples.len() as u32).collect();
    let last = LastPart::default();
    Some((FinishedBatch { order, on_host, provenance, fp8_amaxes, last }, home))
}
