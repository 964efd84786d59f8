//! Shared code of the verbs that take batches as a training rank would.

use std::time::Duration;

use anyhow::Result;
use clap::Args;
use headwater_config::Setting;
use headwater_receiver::{Batch, Receiver};

use crate::flags::{DatasetFlags, RankFlags, TraceFlags, given};
use crate::shutdown::Shutdown;

/// How often signals are looked for while no batch comes.
const LOOK: Duration = Duration::from_millis(100);

/// Where batches come from, which, and how many.
#[derive(Clone, Debug, Args)]
pub(crate) struct StreamFlags {
    /// Addresses of storage nodes, as in `a:7401,b:7401`
    #[arg(long, value_name = "HOST:PORT,..")]
    storage: Option<String>,
    /// Addresses of augment workers, as in `a:7402,b:7402`
    #[arg(long, value_name = "HOST:PORT,..")]
    workers: Option<String>,
    #[command(flatten)]
    datasets: DatasetFlags,
    #[command(flatten)]
    place: RankFlags,
    /// Epochs; 0: endless
    #[arg(long, value_name = "N")]
    epochs: Option<u32>,
    #[command(flatten)]
    trace: TraceFlags,
}

// === impl StreamFlags ===

impl StreamFlags {
    /// What the flags set.
    pub(crate) fn settings(&self) -> impl Iterator<Item = Setting> {
        [
            given("--storage", "receiver.storage", self.storage.as_ref()),
            given("--workers", "receiver.workers", self.workers.as_ref()),
            self.datasets.settings(),
            given("--epochs", "receiver.epochs", self.epochs),
            self.trace.settings(),
        ]
        .into_iter()
        .flatten()
        .chain(self.place.settings())
    }
}

/// The next batch; `None` after the last epoch, or when the process is asked to end.
///
/// # Errors
/// The stream fails.
pub(crate) fn next(receiver: &Receiver, shutdown: &Shutdown) -> Result<Option<Batch>> {
    next_meanwhile(receiver, shutdown, || Ok(()))
}

/// As [`next`], and does something several times a second while no batch comes.
///
/// # Errors
/// The stream fails, or the work that runs beside it.
pub(crate) fn next_meanwhile(
    receiver: &Receiver,
    shutdown: &Shutdown,
    mut meanwhile: impl FnMut() -> Result<()>,
) -> Result<Option<Batch>> {
    loop {
        meanwhile()?;
        if shutdown.check().is_err() {
            return Ok(None);
        }
        match receiver.next_within(LOOK)? {
            Some(Some(batch)) => return Ok(Some(batch)),
            Some(None) if receiver.is_over() => return Ok(None),
            Some(None) | None => {}
        }
    }
}

/// A rank that must end before its stream does writes a checkpoint, if it is configured to keep checkpoints.
///
/// # Errors
/// That it was interrupted, in any case; the checkpoint cannot be written.
pub(crate) fn keep_place(receiver: &Receiver, shutdown: &Shutdown) -> Result<()> {
    let Err(interrupted) = shutdown.check() else { return Ok(()) };
    if receiver.is_over() {
        return Ok(());
    }
    let position = receiver.position();
    let step = receiver.job_step(position.epoch, position.step);
    if !receiver.config().checkpoints.checkpoint_dir.as_os_str().is_empty() {
        receiver.checkpoint(step)?;
    }
    println!("asked to end before epoch {} step {}", position.epoch, position.step);
    Err(interrupted)
}
