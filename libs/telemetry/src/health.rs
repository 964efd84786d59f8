//! Whether a process serves: what `/readyz` and gRPC's health service answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

pub(crate) const READY: &str = "headwater_ready";

/// What a process is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Indexing, connecting: not to be sent work yet.
    Starting,
    /// Serving.
    Ready,
    /// Finishing what it has; not to be sent more.
    Draining,
}

/// A process's phase, shared by whoever changes and whoever reads it.
#[derive(Clone, Debug, Default)]
pub struct Health {
    phase: Arc<AtomicU8>,
}

// === impl Health ===

impl Health {
    /// A process that is starting.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Enters a phase.
    pub fn set(&self, phase: Phase) {
        self.phase.store(phase as u8, Ordering::Relaxed);
        self.show();
    }

    /// Shows the phase as a metric.
    pub(crate) fn show(&self) {
        metrics::gauge!(READY).set(f64::from(u8::from(self.phase() == Phase::Ready)));
    }

    /// The phase it is in.
    #[must_use]
    pub fn phase(&self) -> Phase {
        match self.phase.load(Ordering::Relaxed) {
            0 => Phase::Starting,
            1 => Phase::Ready,
            _ => Phase::Draining,
        }
    }
}

// === impl Phase ===

impl Phase {
    /// Its name, the body of `/healthz` and `/readyz`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Ready => "ready",
            Self::Draining => "draining",
        }
    }
}
