//! Counters and gauges of links.

use std::sync::Once;

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

/// Way of bytes, seen from this process.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Direction {
    In,
    Out,
}

/// Says what the metrics mean; once per process.
pub fn describe() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        for (name, help) in [
            (PARTS, "Whole parts delivered (out) or arrived (in), by link and direction"),
            (
                DROPPED,
                "Parts that came for no lease, or did not fit their place, by link and reason",
            ),
            (REFUSED, "Connections that showed a foreign key or version, by link"),
            (RECONNECTS, "Data connections that a worker opened again, by link"),
            (GONE, "Data paths that ended, by link"),
            (REGISTRATIONS, "Registrations of memory with a network card, by link"),
        ] {
            metrics::describe_counter!(name, help);
        }
        for (name, help) in [
            (BYTES, "Bytes of parts delivered (out) or arrived (in), by link and direction"),
            (REGISTERED, "Bytes registered with a network card, by link"),
            (COPIED, "Bytes that the receiver's processor moved to their place, by link"),
        ] {
            metrics::describe_counter!(name, Unit::Bytes, help);
        }
        metrics::describe_gauge!(STAGING, "Staging buffers that hold a part, by link");
        metrics::describe_gauge!(SLOTS, "Receivers' slots that this worker maps");
        metrics::describe_gauge!(PEERS, "Peers with a data path, by link");
    });
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
pub(crate) fn peers(kind: LinkKind, change: f64) {
    gauge!(PEERS, "link" => kind.name()).increment(change);
}

/// Receivers' slots that this process maps now.
pub(crate) fn slots_mapped(count: usize) {
    gauge!(SLOTS).set(count as f64);
}
