//! A modelled training rank, which looks at everything it gets.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, mpsc, oneshot};
use tokio::time::Instant;

use super::link::ModelLink;
use super::worker::key_of;
use crate::batch::Batch;
use crate::events::{Command, Event};
use crate::mailbox::{Found, Mailbox};
use crate::position::Position;
use crate::sample_order::SampleOrder;

/// Time of a training step.
pub(super) const STEP: Duration = Duration::from_millis(400);

pub(super) struct Trainer {
    pub(super) rank: usize,
    mailbox: Arc<Mailbox>,
    room: Arc<Notify>,
    order: Arc<SampleOrder>,
    pub(super) links: Vec<Arc<ModelLink>>,
    /// Shard and index of every sample, in the order of delivery.
    pub(super) samples: Vec<(u32, u32)>,
    pub(super) batches: u64,
    /// When it began to wait for a batch, and for how long.
    pub(super) waits: Vec<(Instant, Duration)>,
    step: Duration,
    /// Steps after which it ends.
    steps_max: u64,
    jump: Option<Jump>,
    /// Steps that it has left out.
    skipped: u64,
}

/// How a trainer goes to another place of the epoch.
pub(super) struct Jump {
    /// Batches that it takes before.
    pub(super) after: u64,
    /// The step that comes next.
    pub(super) to: u64,
    /// It loads a state of the place, in place of seeking it.
    pub(super) loads: bool,
    pub(super) events: mpsc::Sender<Event>,
}

// === impl Trainer ===

impl Trainer {
    pub(super) fn new(
        rank: usize,
        mailbox: Arc<Mailbox>,
        room: Arc<Notify>,
        order: Arc<SampleOrder>,
        links: Vec<Arc<ModelLink>>,
    ) -> Self {
        let (samples, waits) = (Vec::new(), Vec::new());
        Self {
            rank,
            mailbox,
            room,
            order,
            links,
            samples,
            batches: 0,
            waits,
            step: STEP,
            steps_max: u64::MAX,
            jump: None,
            skipped: 0,
        }
    }

    /// As one of several trials: with steps of `step_percent` per cent of the usual time, and maybe not to
    /// the end.
    pub(super) fn with_pace(self, step_percent: u32, steps_max: u64) -> Self {
        Self { step: STEP * step_percent / 100, steps_max, ..self }
    }

    pub(super) fn with_jump(self, jump: Option<Jump>) -> Self {
        Self { jump, ..self }
    }

    /// Takes an epoch.
    pub(super) async fn train(mut self) -> Self {
        while self.batches < self.steps_max {
            if let Some(jump) = self.jump.take_if(|jump| jump.after == self.batches) {
                self.skipped = jump.to - jump.after;
                jump.go(&self.order).await;
            }
            let since = Instant::now();
            let Some(batch) = self.next().await else { return self };
            self.waits.push((since, since.elapsed()));
            self.look_at(&batch);
            tokio::time::sleep(self.step).await;
            let address = batch.tensor_ptr(&batch.layout().tensors()[0]).expect("on the host");
            self.links.iter().for_each(|link| link.let_go(address as usize));
            drop(batch);
            self.room.notify_one();
        }
        self
    }

    async fn next(&self) -> Option<Batch> {
        let asked = Instant::now();
        loop {
            let changed = self.mailbox.changed();
            match self.mailbox.take(asked, |epoch| self.order.steps_per_epoch(epoch)) {
                Ok(Found::Batch(batch)) => {
                    self.room.notify_one();
                    return Some(batch);
                }
                Ok(Found::EpochEnd) => return None,
                Ok(Found::Nothing) => changed.await,
                Err(error) => panic!("rank {}: {error}", self.rank),
            }
        }
    }

    fn look_at(&mut self, batch: &Batch) {
        let rank = self.rank;
        let place = (0, self.batches + self.skipped);
        assert_eq!((batch.epoch(), batch.step()), place, "rank {rank}: out of order");
        self.batches += 1;
        let asked = batch.samples().iter().map(key_of);
        let got = batch.provenance().iter().map(|sample| sample.key.clone());
        assert!(asked.eq(got), "rank {rank}, step {}: other samples", batch.step());
        self.samples.extend(batch.samples().iter().map(|sample| (sample.shard, sample.index)));
    }
}

// === impl Jump ===

impl Jump {
    async fn go(self, order: &SampleOrder) {
        let place = Position { epoch: 0, step: self.to };
        if self.loads {
            let state = order.state(place).expect("a place of the epoch");
            let (reply, answer) = oneshot::channel();
            self.tell(Command::Restore(Box::new(state), Vec::new(), reply)).await;
            answer.await.expect("a driver").expect("a state of this stream");
        } else {
            let (reply, answer) = oneshot::channel();
            self.tell(Command::Seek(place, reply)).await;
            answer.await.expect("a driver").expect("a place of the epoch");
        }
    }

    async fn tell(&self, command: Command) {
        assert!(self.events.send(Event::Command(command)).await.is_ok(), "a driver");
    }
}
