//! Batches of this host's service: asked for one after another, until it has not what is wanted.

use std::collections::VecDeque;

use headwater_core::part::PartScope;
use headwater_trace::{Span, Tier};
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;
use tokio::time::Instant;

use super::Driver;
use crate::batch::{Batch, BatchSpans, Hold, Home};
use crate::error::ReceiverError;
use crate::host::{HostAsk, HostBatch, HostEvent, HostWord};
use crate::ledger::{BatchOrder, FinishedBatch, Serial};
use crate::position::Position;
use crate::sample_order::Plan;
use crate::slots::SlotPool;
use crate::stall::{History, LastPart};

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
type MakeRoom = Box<dyn FnOnce(&mut SlotPool) -> Result<(), ReceiverError> + Send>;

/// The service, as the driver sees it.
pub(super) struct Host {
    words: mpsc::Sender<HostWord>,
    scope: PartScope,
    /// Not answered yet, in order.
    open: VecDeque<Asked>,
    next_ask: u64,
    /// Whether anything was asked for since the service last learned that nothing is.
    asks_since: bool,
    course: u64,
    /// The last epoch that is made by oneself.
    alone_to: Option<u32>,
    /// Taken when the first batch is made by oneself.
    make_room: Option<MakeRoom>,
    /// When it was asked or heard of last.
    heard: Instant,
}

/// A batch that is asked for.
struct Asked {
    ask: u64,
    serial: Serial,
    plan: Plan,
    fp8_scales: Vec<f32>,
    span: Span,
}

// === impl Host ===

impl Host {
    pub(super) fn new(link: HostLink, scope: PartScope) -> Self {
        let HostLink { words, make_room } = link;
        Self {
            words,
            scope,
            asks_since: false,
            open: VecDeque::new(),
            next_ask: 0,
            course: 0,
            alone_to: None,
            make_room: Some(make_room),
            heard: Instant::now(),
        }
    }

    /// Whether no batch was ever made by oneself: there are no slots for any.
    pub(super) fn gives_all(&self) -> bool {
        self.make_room.is_some()
    }
}

impl Driver {
    /// Whether the service has the batch of a place, as far as is known.
    pub(super) fn host_has(&self, at: Position) -> bool {
        let alone = |host: &Host| host.alone_to.is_some_and(|last| at.epoch <= last);
        self.host.as_ref().is_some_and(|host| !alone(host))
    }

    /// Asks the service for a batch; gives it back where that cannot be yet.
    pub(super) fn ask_host(
        &mut self,
        serial: Serial,
        plan: Plan,
        fp8_scales: Vec<f32>,
    ) -> Option<Plan> {
        let Some(host) = &mut self.host else { return Some(plan) };
        // Those that are made by oneself come first.
        let busy = self.ledger.open_batches() > 0;
        if busy || host.open.len() + self.mailbox.ready() >= ASKS_AHEAD {
            return Some(plan);
        }
        let (ask, at) = (host.next_ask, plan.at);
        let bucket = self.recipe.bucket_of(plan.group);
        let key = host.scope.key(at.epoch, bucket, &plan.samples, &fp8_scales);
        // Where the service is gone, that is on its way here.
        let word = HostWord::Ask(HostAsk { ask, course: host.course, at, key });
        let asked = host.words.try_send(word);
        if let Err(TrySendError::Full(_)) = asked {
            return Some(plan);
        }
        host.next_ask += 1;
        host.asks_since = true;
        host.heard = Instant::now();
        let mut span = Span::on_lane(Tier::Receiver, "batch of host service", "batch");
        span.arg("epoch", at.epoch);
        span.arg("step", at.step);
        host.open.push_back(Asked { ask, serial, plan, fp8_scales, span });
        self.go_on_at(Position { step: at.step + 1, ..at });
        None
    }

    /// Whether a batch is asked for and not answered.
    pub(super) fn waits_for_host(&self) -> bool {
        self.host.as_ref().is_some_and(|host| !host.open.is_empty())
    }

    /// Nobody wants what was asked for any more.
    pub(super) fn forget_asked(&mut self) {
        if let Some(host) = &mut self.host {
            host.course += 1;
            host.open.clear();
        }
    }

    pub(super) fn on_host(&mut self, event: HostEvent) {
        if let Some(host) = &mut self.host {
            host.heard = Instant::now();
        }
        let ended = match event {
            HostEvent::Alive => Ok(()),
            HostEvent::Batch(ask, batch) => self.on_host_batch(ask, batch),
            HostEvent::Gone(ask, reason) => match self.is_next(ask) {
                true => self.go_alone(&reason, None),
                false => Ok(()),
            },
            HostEvent::Lost(reason) => self.go_alone(&reason, Some(u32::MAX)),
        };
        if let Err(error) = ended {
            self.ledger.give_up(error);
        }
    }

    fn is_next(&self, ask: u64) -> bool {
        let next = self.host.as_ref().and_then(|host| host.open.front());
        next.is_some_and(|asked| asked.ask == ask)
    }

    fn on_host_batch(&mut self, ask: u64, batch: HostBatch) -> Result<(), ReceiverError> {
        let HostBatch { slot, memory, provenance, fp8_amaxes, delivery } = batch;
        let next = self.is_next(ask);
        let Some(host) = &mut self.host else { return Ok(()) };
        let Some(asked) = (if next { host.open.pop_front() } else { None }) else { return Ok(()) };
        let Asked { serial, plan, fp8_scales, span, .. } = asked;
        let home = Home {
            memory,
            device: None,
            hold: Hold::Delivery(delivery),
            spans: BatchSpans::new(span, Vec::new()),
        };
        let Plan { at: Position { epoch, step }, group, samples } = plan;
        let (count, bucket) = (samples.len() as u32, self.recipe.bucket_of(group));
        let layout = self.layout(count, bucket);
        let fits = provenance.len() == samples.len()
            && fp8_amaxes.len() == fp8_scales.len()
            && layout.len_bytes() <= home.memory.len_bytes();
        if !fits {
            let alone = self.go_alone("what it gave is no such batch", Some(u32::MAX));
            // This one comes first, not the one that was asked for after it.
            self.go_on_at(Position { epoch, step });
            self.forget_drawn();
            return alone;
        }
        let job_step = self.order.job_step(epoch, step);
        let order = BatchOrder {
            serial,
            epoch,
            step,
            job_step,
            slot,
            layout,
            group,
            bucket,
            samples,
            fp8_scales,
        };
        let on_host = std::iter::once(0..count).collect();
        let last = LastPart::default();
        let finished = FinishedBatch { order, on_host, provenance, fp8_amaxes, last };
        self.stats.on_batch(count as usize);
        self.stats.on_host_batch();
        let history = History::of_host();
        self.mailbox.put(Batch::new(finished, home, self.masking.clone(), history));
        Ok(())
    }

    /// Makes the batches from here on by itself, to the end of an epoch: of this one, where nothing is
    /// said.
    fn go_alone(&mut self, reason: &str, to: Option<u32>) -> Result<(), ReceiverError> {
        let Some(host) = &mut self.host else { return Ok(()) };
        let first = host.open.front().map(|asked| asked.plan.at);
        host.course += 1;
        host.open.clear();
        let at = first.unwrap_or(*self.ordered.borrow());
        host.alone_to = host.alone_to.max(Some(to.unwrap_or(at.epoch)));
        let begin = host.make_room.take();
        tracing::warn!(
            epoch = at.epoch,
            step = at.step,
            reason,
            "not shared on this host from here"
        );
        crate::metrics::went_alone();
        if first.is_some() {
            self.go_on_at(at);
            self.forget_drawn();
        }
        if let Some(make_room) = begin {
            make_room(&mut self.slots)?;
            self.stats.serve_by_host(false);
            self.look_for_rest();
        }
        Ok(())
    }

    /// Gives up a service that does not answer for as long as one waits for a worker. A service that is asked for
    /// nothing hears that: it holds others back for those who follow.
    pub(super) fn look_for_host(&mut self) {
        let away = self.has_ended() || !self.host_has(self.place());
        if let Some(host) = self.host.as_mut().filter(|host| away && host.asks_since) {
            // Where it says much else, later.
            host.asks_since = host.words.try_send(HostWord::Leave).is_err();
        }
        let Some(host) = self.host.as_ref().filter(|host| !host.open.is_empty()) else { return };
        let waited = host.heard.elapsed();
        if waited > self.worker_wait {
            let reason = format!("no answer for {} s", waited.as_secs());
            if let Err(error) = self.go_alone(&reason, Some(u32::MAX)) {
                self.ledger.give_up(error);
            }
        }
    }
}
