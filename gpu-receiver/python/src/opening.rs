//! Opening a receiver from Python: where it may be done, and how its wait is broken off.

use std::sync::Mutex;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use headwater_receiver::{Callbacks, Receiver};
use pyo3::prelude::*;

use crate::errors::{ClosedError, ForkError, raised};
use crate::options::Options;

/// How long is waited between two looks for signals such as Ctrl-C.
const SIGNALS_EVERY: Duration = Duration::from_millis(100);

/// Opens the receiver on a thread of its own, so that Ctrl-C ends the wait for the storage tier.
pub(crate) fn open(py: Python<'_>, options: Options, callbacks: Callbacks) -> PyResult<Receiver> {
    let (answer, answered) = channel();
    let work = move || {
        let Options { receiver, recipe, datasets, .. } = options;
        let _ = answer.send(Receiver::open_with(receiver, recipe, &datasets, callbacks));
    };
    std::thread::Builder::new().name("hw-open".into()).spawn(work)?;
    let answered = Mutex::new(answered);
    loop {
        let wait = || answered.lock().expect("used here only").recv_timeout(SIGNALS_EVERY);
        match py.detach(wait) {
            Ok(opened) => return opened.map_err(raised),
            Err(RecvTimeoutError::Timeout) => py.check_signals()?,
            Err(RecvTimeoutError::Disconnected) => {
                return Err(ClosedError::new_err("the receiver could not be opened: it panicked"));
            }
        }
    }
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
