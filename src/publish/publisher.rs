//! All addresses together: each gets every batch.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use headwater_config::publish::PublishConfig;
use headwater_core::{Dtype, Recipe, Reminder};
use headwater_receiver::Batch;
use metrics::{Unit, counter, gauge, histogram};

use super::outlet::{Outlet, RESETS};
use super::tenbin::{self, Chunk};
use crate::shutdown::Shutdown;

/// How often signals are looked for while clients have no room, in ms.
const LOOK_MS: i64 = 100;
const BATCHES: &str = "headwater_publish_batches_total";
const BYTES: &str = "headwater_publish_bytes_total";
const SUBSCRIPTIONS: &str = "headwater_publish_subscriptions";
const BLOCKED: &str = "headwater_publish_blocked_seconds";

/// Hands batches to ZeroMQ. Dropping it waits for clients up to `publish.linger_ms`.
pub(crate) struct Publisher {
    outlets: Vec<Outlet>,
    subscribers_min: u32,
    labels_wide: bool,
    linger: Duration,
    /// What FP8 elements are multiplied by, where there are some.
    fp8_scale_inv: Option<f32>,
}

/// Says what the metrics mean.
pub(crate) fn describe() {
    metrics::describe_counter!(BATCHES, "Batches handed to clients' queues, by address");
    metrics::describe_counter!(BYTES, Unit::Bytes, "Bytes of those batches, by address");
    metrics::describe_gauge!(SUBSCRIPTIONS, "Subscriptions so far, by address");
    let help =
        "Times that all clients of an address were let go of, because one subscribed without end";
    metrics::describe_counter!(RESETS, help);
    let help = "Time a batch waited until the slowest client had room";
    metrics::describe_histogram!(BLOCKED, Unit::Seconds, help);
}

// === impl Publisher ===

impl Publisher {
    /// Opens every address.
    ///
    /// # Errors
    /// See [`PublishConfig::addresses`]; an address that cannot be opened.
    pub(crate) fn open(config: &PublishConfig, recipe: &Recipe) -> Result<Self> {
        anyhow::ensure!(
            recipe.delayed_scaling().is_none(),
            "recipe.fp8.scaling is \"delayed\": a message has one scale for all tensors; use \"static\""
        );
        let context = zmq::Context::new();
        context.set_io_threads(config.io_threads as i32).context("publish.io_threads")?;
        let addresses = config.addresses()?;
        let open = |address| Outlet::open(&context, address, config);
        let fp8 = recipe.tensors.iter().any(|tensor| tensor.dtype == Dtype::Fp8E4m3);
        Ok(Self {
            outlets: addresses.iter().map(open).collect::<Result<_>>()?,
            subscribers_min: config.subscribers_min,
            labels_wide: config.labels_wide,
            linger: Duration::from_millis(config.linger_ms.into()),
            fp8_scale_inv: fp8.then(|| 1.0 / recipe.fp8_scale()),
        })
    }

    /// Where clients find it, ports that the system chose included.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.outlets.iter().map(|outlet| outlet.name.as_str())
    }

    /// Waits until each `pub` address has the subscribers it should, or the process is asked to
    /// end. Blocks.
    ///
    /// # Errors
    /// ZeroMQ refuses.
    pub(crate) fn wait_for_subscribers(&mut self, shutdown: &Shutdown) -> Result<()> {
        let (started, mut reminder) = (Instant::now(), Reminder::default());
        while shutdown.check().is_ok() {
            self.notice()?;
            let few =
                |outlet: &&Outlet| outlet.drops() && outlet.subscriptions < self.subscribers_min;
            let waiting: Vec<&Outlet> = self.outlets.iter().filter(few).collect();
            if waiting.is_empty() {
                break;
            }
            if reminder.is_due(started.elapsed()) {
                let lacking: Vec<String> = waiting.iter().map(|o| self.lacking(o)).collect();
                tracing::warn!("waits for subscribers: {}", lacking.join("; "));
            }
            poll(&waiting)?;
        }
        Ok(())
    }

    /// Hands a batch to every address, to each as soon as it has room. Blocks while a `push`
    /// client's queue is full; a process that is asked to end waits for `publish.linger_ms` more.
    ///
    /// # Errors
    /// A client that has no room in that time; ZeroMQ refuses; a number does not fit its type.
    pub(crate) fn publish(&mut self, batch: &Batch, shutdown: &Shutdown) -> Result<()> {
        self.notice()?;
        let started = Instant::now();
        let mut waiting: Vec<&Outlet> = self.outlets.iter().collect();
        let mut patience = None;
        let mut reminder = Reminder::default();
        loop {
            let mut full = Vec::new();
            for outlet in waiting {
                let sent = match outlet.has_room()? {
                    true => outlet.send(batch, |batch| self.chunks(batch))?,
                    false => None,
                };
                if let Some(bytes) = sent {
                    counter!(BATCHES, "address" => outlet.name.clone()).increment(1);
                    counter!(BYTES, "address" => outlet.name.clone()).increment(bytes);
                } else {
                    full.push(outlet);
                }
            }
            if full.is_empty() {
                histogram!(BLOCKED).record(started.elapsed().as_secs_f64());
                return Ok(());
            }
            if reminder.is_due(started.elapsed()) {
                let (epoch, step) = (batch.epoch(), batch.step());
                let names = names(&full);
                tracing::warn!("epoch {epoch} step {step} waits: no client of {names} has room");
            }
            if shutdown.check().is_err() {
                let end = *patience.get_or_insert_with(|| Instant::now() + self.linger);
                if Instant::now() > end {
                    bail!(
                        "epoch {} step {} did not reach {}: no client had room for it",
                        batch.epoch(),
                        batch.step(),
                        names(&full)
                    );
                }
            }
            poll(&full)?;
            waiting = full;
        }
    }

    /// What an address waits for.
    fn lacking(&self, outlet: &Outlet) -> String {
        let Outlet { name, subscriptions, .. } = outlet;
        format!("{name} has {subscriptions} of {} (publish.subscribers_min)", self.subscribers_min)
    }

    fn notice(&mut self) -> Result<()> {
        for outlet in &mut self.outlets {
            outlet.notice()?;
            gauge!(SUBSCRIPTIONS, "address" => outlet.name.clone()).set(outlet.subscriptions);
        }
        Ok(())
    }

    /// The tensors of a batch, copied out of its slot.
    fn chunks(&self, batch: &Batch) -> Result<Vec<Chunk>> {
        let layout = batch.layout();
        let chunk = |tensor| {
            tenbin::chunk(tensor, layout.samples(), batch.tensor_bytes(tensor)?, self.labels_wide)
        };
        let mut chunks: Vec<Chunk> = layout.tensors().iter().map(chunk).collect::<Result<_>>()?;
        chunks.extend(self.fp8_scale_inv.map(tenbin::scale_inv));
        Ok(chunks)
    }
}

fn names(outlets: &[&Outlet]) -> String {
    let names: Vec<&str> = outlets.iter().map(|outlet| outlet.name.as_str()).collect();
    names.join(", ")
}

fn poll(outlets: &[&Outlet]) -> Result<()> {
    let mut items: Vec<zmq::PollItem> = outlets.iter().map(|outlet| outlet.poll_item()).collect();
    match zmq::poll(&mut items, LOOK_MS) {
        Ok(_) | Err(zmq::Error::EINTR) => Ok(()),
        Err(error) => Err(error).context("cannot wait for clients"),
    }
}
