//! How many samples a device has rendered, and how many the processor in its place.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::metrics;

/// Counts over all streams of a back end.
#[derive(Debug, Default)]
pub struct Tally {
    on_device: AtomicU64,
    beside_device: AtomicU64,
    written: AtomicU64,
    decoded: AtomicU64,
    found: AtomicU64,
    failures: AtomicU64,
    /// Whether the process's metrics count as well.
    in_metrics: bool,
}

/// What a [`Tally`] stood at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Samples whose views kernels have made.
    pub on_device: u64,
    /// Samples that the processor has rendered because they do not fit.
    pub beside_device: u64,
    /// Samples whose rows the device has written to the part's own memory.
    pub written: u64,
    /// JPEGs that kernels have decoded.
    pub decoded: u64,
    /// Those of them in which kernels have found where decoding can begin.
    pub found: u64,
    /// Streams that failed and were given up: the processor renders what they are asked for.
    pub failures: u64,
}

// === impl Tally ===

impl Tally {
    /// One whose counts are those of the process's metrics too.
    #[must_use]
    pub fn in_metrics() -> Self {
        Self { in_metrics: true, ..Self::default() }
    }

    /// What it stands at.
    #[must_use]
    pub fn counts(&self) -> Counts {
        Counts {
            on_device: self.on_device.load(Ordering::Relaxed),
            beside_device: self.beside_device.load(Ordering::Relaxed),
            written: self.written.load(Ordering::Relaxed),
            decoded: self.decoded.load(Ordering::Relaxed),
            found: self.found.load(Ordering::Relaxed),
            failures: self.failures.load(Ordering::Relaxed),
        }
    }

    pub(super) fn rendered(&self, samples: u64) {
        self.on_device.fetch_add(samples, Ordering::Relaxed);
        if self.in_metrics {
            metrics::rendered_on_device(samples);
        }
    }

    pub(super) fn written(&self, samples: u64) {
        self.written.fetch_add(samples, Ordering::Relaxed);
        if self.in_metrics {
            metrics::written_by_device(samples);
        }
    }

    pub(super) fn rendered_beside(&self) {
        self.beside_device.fetch_add(1, Ordering::Relaxed);
        if self.in_metrics {
            metrics::rendered_beside_device();
        }
    }

    /// Counts JPEGs that kernels have decoded: from known segments, and from segments that they found.
    pub(super) fn decoded(&self, [known, found]: [u64; 2]) {
        self.decoded.fetch_add(known + found, Ordering::Relaxed);
        self.found.fetch_add(found, Ordering::Relaxed);
        if self.in_metrics {
            metrics::jpegs_decoded_on_device(known, found);
        }
    }

    pub(super) fn failed(&self) {
        self.failures.fetch_add(1, Ordering::Relaxed);
        if self.in_metrics {
            metrics::device_failed();
        }
    }
}
