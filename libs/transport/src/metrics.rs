//! Counters and gauges of links.

use metrics::{Gauge, Unit, counter, gauge};

use crate::link::terms::LinkKind;

const PARTS: &str = "headwater_link_parts_total";
const BYTES: &str = "headwater_link_bytes_total";
const DROPPED: &str = "headwater_link_parts_dropped_total";
const REFUSED: &str = "headwater_link_refused_total";
const RECONNECTS: &str = "headwater_link_reconnects_total";
const GONE: &str = "headwater_link_gone_total";
const REGISTRATIONS: &str = "headwater_link_registrations_total";
const REGISTERED: &str = "headwater_link_registered_bytes_total";
const COPIED: &str = "headwater_link_copied_bytes_total";
const STAGING: &str = "headwater_link_staging_in_use";
const SLOTS: &str = "headwater_link_slots_mapped";
const PEERS: &str = "headwater_link_peers";
const PERMITTED: &str = "headwater_link_leases_permitted";
const MESSAGES: &str = "headwater_link_words_waiting";

/// Way of bytes, seen from this process.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Direction {
    In,
    Out,
}

/// What one session or connection adds to a gauge that all of them share; nothing once it is dropped.
#[derive(Debug)]
pub(crate) struct Share {
    gauge: Gauge,
    noted: usize,
}

// === impl Share ===

impl Share {
    fn new(gauge: Gauge) -> Self {
        Self { gauge, noted: 0 }
    }

    /// It is so much now.
    pub(crate) fn note(&mut self, now: usize) {
        if now != self.noted {
            self.gauge.increment(now as f64 - self.noted as f64);
            self.noted = now;
        }
    }

    #[cfg(test)]
    pub(crate) fn noted(&self) -> usize {
        self.noted
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.note(0);
    }
}

/// Says what the metrics mean to the recorder there is.
pub fn describe_metrics() {
    for (name, help) in [
        (PARTS, "Whole parts delivered (out) or arrived (in), by link and direction"),
        (DROPPED, "Parts without a lease, or with wrong sizes, by link and reason"),
        (REFUSED, "Connections that showed a foreign key or version, by link"),
        (RECONNECTS, "Data connections that a worker opened again, by link"),
        (GONE, "Data paths that ended, by link"),
        (REGISTRATIONS, "Registrations of memory with a NIC, by link"),
    ] {
        metrics::describe_counter!(name, help);
    }
    for (name, help) in [
        (BYTES, "Bytes of parts delivered (out) or arrived (in), by link and direction"),
        (REGISTERED, "Bytes registered with a NIC, by link"),
        (COPIED, "Bytes that the receiver's processor copied into place, by link"),
    ] {
        metrics::describe_counter!(name, Unit::Bytes, help);
    }
    metrics::describe_gauge!(STAGING, "Staging buffers that hold a part, by link");
    metrics::describe_gauge!(SLOTS, "Receivers' slots that this worker maps");
    metrics::describe_gauge!(PEERS, "Peers with a data path, by link");
    metrics::describe_gauge!(
        PERMITTED,
        "Leases that receivers permit this worker to write, by link"
    );
    metrics::describe_gauge!(MESSAGES, "Messages that peers have not read yet, by link");
}

/// A whole part was delivered (out) or arrived (in).
pub(crate) fn part(kind: LinkKind, direction: Direction, bytes: u64) {
    let direction = match direction {
        Direction::In => "in",
        Direction::Out => "out",
    };
    counter!(PARTS, "link" => kind.name(), "direction" => direction).increment(1);
    counter!(BYTES, "link" => kind.name(), "direction" => direction).increment(bytes);
}

/// A part came for a lease that is not, or no longer, expected; or did not fit its place.
pub(crate) fn part_dropped(kind: LinkKind, reason: &'static str) {
    counter!(DROPPED, "link" => kind.name(), "reason" => reason).increment(1);
}

/// A connection presented a foreign key or version.
pub(crate) fn refused(kind: LinkKind) {
    counter!(REFUSED, "link" => kind.name()).increment(1);
}

/// A worker's data connection came back.
pub(crate) fn reconnected(kind: LinkKind) {
    counter!(RECONNECTS, "link" => kind.name()).increment(1);
}

/// A peer's data path is gone.
pub(crate) fn gone(kind: LinkKind) {
    counter!(GONE, "link" => kind.name()).increment(1);
}

/// Memory was registered with a network card: once per slot and buffer, never per batch.
pub(crate) fn registered(kind: LinkKind, bytes: u64) {
    counter!(REGISTRATIONS, "link" => kind.name()).increment(1);
    counter!(REGISTERED, "link" => kind.name()).increment(bytes);
}

/// Bytes that the receiver's processor moved to their place.
pub(crate) fn copied(kind: LinkKind, bytes: u64) {
    counter!(COPIED, "link" => kind.name()).increment(bytes);
}

/// Staging buffers that hold a part now.
pub(crate) fn staging_in_use(kind: LinkKind) -> Gauge {
    gauge!(STAGING, "link" => kind.name())
}

/// Peers with a data path now.
pub(crate) fn peers(kind: LinkKind) -> Share {
    Share::new(gauge!(PEERS, "link" => kind.name()))
}

/// Receivers' slots that this process maps now.
pub(crate) fn slots_mapped(count: usize) {
    gauge!(SLOTS).set(count as f64);
}

/// Leases that a receiver permits a worker to write.
pub(crate) fn leases_permitted(kind: LinkKind) -> Share {
    Share::new(gauge!(PERMITTED, "link" => kind.name()))
}

/// Messages that a peer has not taken yet.
pub(crate) fn messages_waiting(kind: LinkKind) -> Share {
    Share::new(gauge!(MESSAGES, "link" => kind.name()))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    #[test]
    fn a_gauge_is_the_sum_of_those_who_share_it_and_forgets_who_is_gone() {
        let stored = Arc::new(AtomicU64::new(0));
        let share = || Share::new(Gauge::from_arc(Arc::clone(&stored)));
        let shown = || f64::from_bits(stored.load(Ordering::SeqCst));
        let (mut one, mut other) = (share(), share());
        one.note(3);
        other.note(4);
        one.note(1);
        assert_eq!(shown(), 5.0);
        drop(other);
        assert_eq!(shown(), 1.0);
    }
}
