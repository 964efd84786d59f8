//! Opening a receiver from Python, with its services: where it may be done, and how its wait is broken off.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

use headwater_local::{LocalError, Services, Watch, host_receiver};
use headwater_receiver::{Callbacks, Receiver, ReceiverConfig};
use pyo3::prelude::*;

use crate::detached::{DropDetached, detached};
use crate::errors::{ClosedError, ForkError, raised, raised_local};
use crate::options::{Host, Options};
use crate::progress::Progress;

/// Time between two checks for signals such as Ctrl-C.
const SIGNALS_EVERY: Duration = Duration::from_millis(100);

/// What the thread says that opens a receiver.
enum News {
    /// Number of indexed shards, and of all shards.
    Indexing(usize, usize),
    /// The services, which may end while the receiver waits for them.
    Served(Arc<Services>),
    Opened(Box<PyResult<Opened>>),
}

/// A receiver, and the services on this host that it uses, if any.
pub(crate) struct Opened {
    pub(crate) receiver: Receiver,
    pub(crate) services: Option<Arc<Services>>,
}

/// Opens the receiver on a thread of its own, so that Ctrl-C ends the wait for the storage tier.
pub(crate) fn open(
    py: Python<'_>,
    options: Options,
    callbacks: Callbacks,
    mut progress: Progress,
) -> PyResult<Opened> {
    let (tell, told) = channel();
    let cancelled = Arc::new(AtomicBool::new(false));
    let watched = Arc::clone(&cancelled);
    let is_local = options.local.is_some();
    let work = move || {
        let opened = opened(options, callbacks, &tell, &watched);
        // Whoever waited may be gone: then this ends what was opened.
        let _ = tell.send(News::Opened(Box::new(opened)));
    };
    std::thread::Builder::new().name("hw-open".into()).spawn(work)?;
    // What was opened may be in there when the wait is broken off.
    let mut told = DropDetached::new(told);
    let mut services: Option<DropDetached<Arc<Services>>> = None;
    let mut wait = || -> PyResult<Option<Opened>> {
        let told = &mut *told;
        match detached(py, move |_| told.recv_timeout(SIGNALS_EVERY)) {
            Ok(News::Opened(opened)) => return (*opened).map(Some),
            Ok(News::Indexing(done, of)) => progress.tell(py, done, of)?,
            Ok(News::Served(served)) => services = Some(DropDetached::new(served)),
            Err(RecvTimeoutError::Timeout) => {
                services.as_ref().map_or(Ok(()), |s| s.check()).map_err(raised_local)?;
            }
            Err(RecvTimeoutError::Disconnected) => {
                return Err(ClosedError::new_err("the receiver could not be opened: it panicked"));
            }
        }
        if services.is_none() && is_local {
            progress.show();
        }
        py.check_signals()?;
        Ok(None)
    };
    loop {
        match wait() {
            Ok(None) => {}
            Ok(Some(opened)) => return Ok(opened),
            Err(error) => {
                cancelled.store(true, Ordering::Relaxed);
                return Err(error);
            }
        }
    }
}

fn opened(
    options: Options,
    callbacks: Callbacks,
    tell: &Sender<News>,
    cancelled: &AtomicBool,
) -> PyResult<Opened> {
    let Options { host, mut receiver, recipe, datasets, local, .. } = options;
    let indexing = |done, of| drop(tell.send(News::Indexing(done, of)));
    let watch = Watch { tell: &indexing, cancelled };
    let services = local.map(|local| local.start(&mut receiver, &watch));
    let services = services.transpose().map_err(raised_local)?.map(Arc::new);
    let _ = services.clone().map(|services| tell.send(News::Served(services)));
    let host =
        host.map(|host| joined(host, &receiver, &watch)).transpose().map_err(raised_local)?;
    let callbacks = Callbacks { host, ..callbacks };
    let receiver = Receiver::open_with(receiver, recipe, &datasets, callbacks).map_err(raised)?;
    Ok(Opened { receiver, services })
}

/// A connection to the process that makes the batches of this host.
fn joined(host: Host, receiver: &ReceiverConfig, watch: &Watch<'_>) -> Result<OwnedFd, LocalError> {
    let Host { mut config, scripts } = host;
    config.security = receiver.security.clone();
    config.receiver = receiver.clone();
    host_receiver(&config, &scripts, watch)
}

/// A loader is one for itself: in a worker of PyTorch's it would be one for each.
pub(crate) fn refuse_dataloader_workers(py: Python<'_>) -> PyResult<()> {
    let modules = py.import("sys")?.getattr("modules")?;
    let data = modules.call_method1("get", ("torch.utils.data",))?;
    if data.is_none() || data.call_method0("get_worker_info")?.is_none() {
        return Ok(());
    }
    Err(ForkError::new_err(
        "a headwater.Loader cannot be made in a DataLoader worker: iterate over it in the training \
         process, without a DataLoader",
    ))
}
