//! Addresses that go through the stream together: each gets every batch.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use headwater_config::publish::{Address, PublishConfig};
use headwater_core::{Recipe, Reminder};
use headwater_receiver::Batch;
use metrics::{Unit, counter, gauge, histogram};

use super::message::Encoder;
use super::outlet::Outlet;
use super::socket::{CLIENTS, DISCONNECTS, OVERFLOWS, RESETS};
use crate::shutdown::Shutdown;

/// How often signals are looked for while clients have no room, in ms.
const LOOK_MS: i64 = 100;
const BATCHES: &str = "headwater_publish_batches_total";
const BYTES: &str = "headwater_publish_bytes_total";
const STEP: &str = "headwater_publish_step";
const SUBSCRIPTIONS: &str = "headwater_publish_subscriptions";
const BLOCKED: &str = "headwater_publish_blocked_seconds";

/// Hands batches to clients and files. Dropping it waits for clients up to `publish.linger_ms`.
pub(crate) struct Publisher {
    outlets: Vec<Outlet>,
    encoder: Encoder,
    subscribers_min: u32,
    linger: Duration,
}

/// Registers the descriptions of the metrics.
pub(crate) fn describe() {
    metrics::describe_counter!(BATCHES, "Batches put into clients' queues, by address");
    metrics::describe_counter!(BYTES, Unit::Bytes, "Bytes of those batches, by address");
    metrics::describe_gauge!(STEP, "Number of the next batch, counted over epochs, by address");
    metrics::describe_gauge!(CLIENTS, "Open connections, by address");
    metrics::describe_counter!(DISCONNECTS, "Connections that ended, by address");
    let help = "Times that a subscriber's queue was full, by address: it loses this batch at least";
    metrics::describe_counter!(OVERFLOWS, help);
    metrics::describe_gauge!(SUBSCRIPTIONS, "Subscriptions so far, by address");
    let help =
        "Times that all clients of an address were disconnected because one subscribed without end";
    metrics::describe_counter!(RESETS, help);
    let help = "Time a batch waited until the slowest client had room";
    metrics::describe_histogram!(BLOCKED, Unit::Seconds, help);
}

// === impl Publisher ===

impl Publisher {
    /// Opens addresses. `resumes`: batches may have been taken before.
    ///
    /// # Errors
    /// An address that cannot be opened; a recipe whose batches cannot be sent.
    pub(crate) fn open(
        context: &zmq::Context,
        addresses: &[Address],
        config: &PublishConfig,
        recipe: &Recipe,
        resumes: bool,
    ) -> Result<Self> {
        let open = |address| Outlet::open(context, address, config, resumes);
        Ok(Self {
            outlets: addresses.iter().map(open).collect::<Result<_>>()?,
            encoder: Encoder::new(recipe, config.labels_wide)?,
            subscribers_min: config.subscribers_min,
            linger: Duration::from_millis(config.linger_ms.into()),
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
            let few = |outlet: &&Outlet| {
                outlet.subscriptions().is_some_and(|count| count < self.subscribers_min)
            };
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

    /// Whether any address has a place for the batch of this number.
    pub(crate) fn takes(&self, number: u64) -> bool {
        self.outlets.iter().any(|outlet| outlet.takes(number))
    }

    /// Hands a batch to every address, as soon as the address has room. Blocks while a `push`
    /// client's queue is full; a process that is asked to end waits for `publish.linger_ms` more.
    ///
    /// # Errors
    /// A client that has no room in that time; ZeroMQ or the file system refuses; a number does not fit
    /// its type.
    pub(crate) fn publish(
        &mut self,
        batch: &Batch,
        number: u64,
        shutdown: &Shutdown,
    ) -> Result<()> {
        let started = Instant::now();
        let places = self.outlets.iter().enumerate();
        let mut waiting: Vec<usize> =
            places.filter(|(_, outlet)| outlet.takes(number)).map(|(place, _)| place).collect();
        let mut patience = None;
        let mut reminder = Reminder::default();
        loop {
            self.notice()?;
            waiting = self.offer(waiting, batch, number)?;
            if waiting.is_empty() {
                histogram!(BLOCKED).record(started.elapsed().as_secs_f64());
                return Ok(());
            }
            let full: Vec<&Outlet> = waiting.iter().map(|place| &self.outlets[*place]).collect();
            let (epoch, step) = (batch.epoch(), batch.step());
            if reminder.is_due(started.elapsed()) {
                let names = names(&full);
                tracing::warn!("epoch {epoch} step {step} waits: no client of {names} has room");
            }
            if shutdown.check().is_err() {
                let end = *patience.get_or_insert_with(|| Instant::now() + self.linger);
                if Instant::now() > end {
                    let names = names(&full);
                    bail!(
                        "epoch {epoch} step {step} did not reach {names}: no client had room for it"
                    );
                }
            }
            poll(&full)?;
        }
    }

    /// Offers a batch to outlets. Returns those without room for it.
    fn offer(&mut self, places: Vec<usize>, batch: &Batch, number: u64) -> Result<Vec<usize>> {
        let mut full = Vec::new();
        for place in places {
            let outlet = &mut self.outlets[place];
            let sent = match outlet.has_room()? {
                true => outlet.send(batch, number, &self.encoder)?,
                false => None,
            };
            let Some(bytes) = sent else {
                full.push(place);
                continue;
            };
            counter!(BATCHES, "address" => outlet.name.clone()).increment(1);
            counter!(BYTES, "address" => outlet.name.clone()).increment(bytes);
            gauge!(STEP, "address" => outlet.name.clone()).set((number + 1) as f64);
        }
        Ok(full)
    }

    /// What an address waits for.
    fn lacking(&self, outlet: &Outlet) -> String {
        let (has, name) = (outlet.subscriptions().unwrap_or_default(), &outlet.name);
        format!("{name} has {has} of {} (publish.subscribers_min)", self.subscribers_min)
    }

    /// Counts who has come and gone meanwhile, at all addresses.
    ///
    /// # Errors
    /// ZeroMQ refuses.
    pub(crate) fn notice(&mut self) -> Result<()> {
        for outlet in &mut self.outlets {
            outlet.notice()?;
            if let Some(subscriptions) = outlet.subscriptions() {
                gauge!(SUBSCRIPTIONS, "address" => outlet.name.clone()).set(subscriptions);
            }
        }
        Ok(())
    }
}

fn names(outlets: &[&Outlet]) -> String {
    let names: Vec<&str> = outlets.iter().map(|outlet| outlet.name.as_str()).collect();
    names.join(", ")
}

fn poll(outlets: &[&Outlet]) -> Result<()> {
    let mut items: Vec<zmq::PollItem> =
        outlets.iter().filter_map(|outlet| outlet.poll_item()).collect();
    match zmq::poll(&mut items, LOOK_MS) {
        Ok(_) | Err(zmq::Error::EINTR) => Ok(()),
        Err(error) => Err(error).context("cannot wait for clients"),
    }
}
