//! A modelled training rank, which looks at everything it gets.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use super::link::ModelLink;
use super::worker::key_of;
use crate::batch::Batch;
use crate::mailbox::{Found, Mailbox};
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
        let (step, steps_max) = (STEP, u64::MAX);
        Self { rank, mailbox, room, order, links, samples, batches: 0, waits, step, steps_max }
    }

    /// As one of several trials: with steps of so many per cent of the usual time, and maybe not to the end.
    pub(super) fn with_pace(self, step_percent: u32, steps_max: u64) -> Self {
        Self { step: STEP * step_percent / 100, steps_max, ..self }
    }

    /// Takes an epoch.
    pub(super) async fn train(mut self) -> Self {
        while self.batches < self.steps_max {
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
        assert_eq!((batch.epoch(), batch.step()), (0, self.batches), "rank {rank}: out of order");
        self.batches += 1;
        let asked = batch.samples().iter().map(key_of);
        let got = batch.provenance().iter().map(|sample| sample.key.clone());
        assert!(asked.eq(got), "rank {rank}, step {}: other samples", batch.step());
        self.samples.extend(batch.samples().iter().map(|sample| (sample.shard, sample.index)));
    }
}
