//! SIGTERM and SIGINT: the first asks to drain, the second ends the process.

use std::process;

use anyhow::{Context, Result, ensure};
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

/// Exit status after a second signal: 128 + SIGINT.
const IMPATIENT: i32 = 130;

/// Whether the process must end. All clones learn it at the same time.
#[derive(Clone, Debug)]
pub(crate) struct Shutdown {
    asked: watch::Receiver<bool>,
}

// === impl Shutdown ===

impl Shutdown {
    /// Listens for signals from now on. Call it within a runtime.
    pub(crate) fn listen() -> Result<Self> {
        let open = |kind| signal(kind).context("cannot listen for signals");
        let (mut terminate, mut interrupt) =
            (open(SignalKind::terminate())?, open(SignalKind::interrupt())?);
        let (ask, asked) = watch::channel(false);
        tokio::spawn(async move {
            next(&mut terminate, &mut interrupt).await;
            tracing::info!("asked to end: draining; a second signal ends at once");
            // Kept alive below, so that waiters see the change and not a closed channel.
            let _ = ask.send(true);
            next(&mut terminate, &mut interrupt).await;
            process::exit(IMPATIENT);
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
            asked.await;
            process::exit(IMPATIENT);
        }))
    }

    /// An error once the process was asked to end.
    pub(crate) fn check(&self) -> Result<()> {
        ensure!(!*self.asked.borrow(), "interrupted");
        Ok(())
    }

    /// Waits until it is asked to.
    pub(crate) async fn asked(mut self) {
        if self.asked.wait_for(|asked| *asked).await.is_err() {
            // The listener is gone with its runtime, so no request will come any more.
            std::future::pending::<()>().await;
        }
    }
}

async fn next(terminate: &mut Signal, interrupt: &mut Signal) {
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
}
