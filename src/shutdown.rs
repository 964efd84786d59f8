//! SIGTERM and SIGINT: the first asks to drain, the second ends the process.
//!
//! Work that ends before it is whole, because it was asked to, ends with 128 plus the signal's number, as a
//! program does that the signal ends: schedulers take such a task for interrupted, and 0 for done.

use std::{fmt, process};

use anyhow::{Context, Result};
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

/// Whether the process must end. All clones learn it at the same time.
#[derive(Clone, Debug)]
pub(crate) struct Shutdown {
    asked: watch::Receiver<Option<Interrupted>>,
}

/// The process was asked to end, by this signal, before its work was whole.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Interrupted(SignalKind);

// === impl Shutdown ===

impl Shutdown {
    /// Listens for signals from now on. Call it within a runtime.
    pub(crate) fn listen() -> Result<Self> {
        let open = |kind| signal(kind).context("cannot listen for signals");
        let (mut terminate, mut interrupt) =
            (open(SignalKind::terminate())?, open(SignalKind::interrupt())?);
        let (ask, asked) = watch::channel(None);
        tokio::spawn(async move {
            let first = next(&mut terminate, &mut interrupt).await;
            tracing::info!("asked to end: draining; a second signal ends at once");
            // Kept alive below, so that waiters see the change and not a closed channel.
            let _ = ask.send(Some(first));
            let second = next(&mut terminate, &mut interrupt).await;
            process::exit(second.status().into());
        });
        Ok(Self { asked })
    }

    /// Ends the process where it is asked to before it has begun to work: there is nothing to drain. Until what is returned
    /// is dropped.
    pub(crate) fn ends_at_once(&self, runtime: &Runtime) -> impl Drop + use<> {
        struct Aborted(tokio::task::JoinHandle<()>);
        impl Drop for Aborted {
            fn drop(&mut self) {
                self.0.abort();
            }
        }
        let asked = self.clone().asked();
        Aborted(runtime.spawn(async move {
            process::exit(asked.await.status().into());
        }))
    }

    /// [`Interrupted`] once the process was asked to end.
    pub(crate) fn check(&self) -> Result<()> {
        match *self.asked.borrow() {
            Some(interrupted) => Err(interrupted.into()),
            None => Ok(()),
        }
    }

    /// Waits until it is asked to.
    pub(crate) async fn asked(mut self) -> Interrupted {
        let asked = self.asked.wait_for(Option::is_some).await.ok().and_then(|asked| *asked);
        match asked {
            Some(interrupted) => interrupted,
            // The listener is gone with its runtime, so no request will come any more.
            None => std::future::pending().await,
        }
    }
}

// === impl Interrupted ===

impl Interrupted {
    /// The exit status that says so.
    pub(crate) fn status(self) -> u8 {
        const OF_SIGNALS: u8 = 128;
        OF_SIGNALS + u8::try_from(self.0.as_raw_value()).unwrap_or(0)
    }
}

impl fmt::Display for Interrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("interrupted")
    }
}

impl std::error::Error for Interrupted {}

async fn next(terminate: &mut Signal, interrupt: &mut Signal) -> Interrupted {
    tokio::select! {
        _ = terminate.recv() => Interrupted(SignalKind::terminate()),
        _ = interrupt.recv() => Interrupted(SignalKind::interrupt()),
    }
}
