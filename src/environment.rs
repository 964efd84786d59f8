//! What the program needs of its surroundings: variables that libraries read when they are opened, and threads.
#![allow(unsafe_code)]

use std::num::NonZero;
use std::sync::Mutex;
use std::thread::{self, Builder};

use anyhow::{Context, Result, anyhow};
use rustix::process::Signal;
use tokio::runtime;
use tokio::signal::unix::{SignalKind, signal};

/// Queues of a GPU that streams share, as many as a driver permits. By default there are eight: kernels of more than
/// eight threads wait for each other there, though the GPU has room for all. On an H200 16 threads decoded 48,000 JPEGs a
/// second with eight queues, and 80,000 with 32.
const CUDA_QUEUES: (&str, &str) = ("CUDA_DEVICE_MAX_CONNECTIONS", "32");

/// Sets the variables that are not set.
///
/// Must be the first call of `main`: no other thread may be there.
pub(crate) fn prepare() {
    let (name, value) = CUDA_QUEUES;
    if std::env::var_os(name).is_none() {
        // SAFETY: the only thread of the process is here, so nobody reads the environment meanwhile.
        unsafe { std::env::set_var(name, value) };
    }
}

/// Has a write beyond the limit of a file's size (`ulimit -f`) be an error, as on a full disk. The signal for it ends a
/// process otherwise.
///
/// # Errors
/// The system is short of something.
pub(crate) fn outlive_file_limit() -> Result<()> {
    let listen = || {
        let runtime = runtime::Builder::new_current_thread().enable_io().build()?;
        let _within = runtime.enter();
        // Once listened for, a signal has lost its usual effect for good, here and not in children.
        signal(SignalKind::from_raw(Signal::XFSZ.as_raw())).map(drop)
    };
    listen().context("cannot listen for signals")
}

/// Threads beside one for each core: a verb has less use for fewer.
const THREADS_BESIDE: usize = 16;
/// A thread that only waits.
const STACK_BYTES: usize = 64 << 10;

/// Checks that this process may have as many threads as a verb starts. Later a runtime that gets none panics, and one that
/// gets some waits for the others for ever.
///
/// # Errors
/// A limit of the user or the container is in the way.
pub(crate) fn check_threads() -> Result<()> {
    let wanted = thread::available_parallelism().map_or(1, NonZero::get) + THREADS_BESIDE;
    // Held until all are there: each waits for it.
    let gate = Mutex::new(());
    let closed = gate.lock();
    let all = thread::scope(|scope| {
        let wait = || drop(gate.lock());
        let start = |_| Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, wait).map(drop);
        let all: std::io::Result<()> = (0..wanted).try_for_each(start);
        drop(closed);
        all
    });
    all.map_err(|error| {
        anyhow!(
            "this process may not start {wanted} threads: {error}; raise the limit of processes of the user \
             (`ulimit -u`) or of the container"
        )
    })
}
