//! Counters and gauges of links.

use metrics::{counter, gauge};

use crate::contract::LinkKind;

/// Way of bytes, seen from this process.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Direction {
    In,
    Out,
}

/// A whole part was delivered (out) or arrived (in).
pub(crate) fn part(kind: LinkKind, direction: Direction, bytes: u64) {
    let direction = match direction {
        Direction::In => "in",
        Direction::Out => "out",
    };
    counter!("headwater_link_parts_total", "link" => kind.name(), "direction" => direction)
        .increment(1);
    counter!("headwater_link_bytes_total", "link" => kind.name(), "direction" => direction)
        .increment(bytes);
}

/// A part came for a lease that is not, or no longer, expected; or did not fit its place.
pub(crate) fn part_dropped(kind: LinkKind, reason: &'static str) {
    counter!("headwater_link_parts_dropped_total", "link" => kind.name(), "reason" => reason)
        .increment(1);
}

/// A connection presented a foreign key or version.
pub(crate) fn refused(kind: LinkKind) {
    counter!("headwater_link_refused_total", "link" => kind.name()).increment(1);
}

/// A worker's data connection came back.
pub(crate) fn reconnected(kind: LinkKind) {
    counter!("headwater_link_reconnects_total", "link" => kind.name()).increment(1);
}

/// A peer's data path is gone.
pub(crate) fn gone(kind: LinkKind) {
    counter!("headwater_link_gone_total", "link" => kind.name()).increment(1);
}

/// Memory was registered with a network card: once per slot and buffer, never per batch.
pub(crate) fn registered(kind: LinkKind, bytes: u64) {
    counter!("headwater_link_registrations_total", "link" => kind.name()).increment(1);
    counter!("headwater_link_registered_bytes_total", "link" => kind.name()).increment(bytes);
}

/// Bytes that the receiver's processor moved to their place.
pub(crate) fn copied(kind: LinkKind, bytes: u64) {
    counter!("headwater_link_copied_bytes_total", "link" => kind.name()).increment(bytes);
}

/// Staging buffers that hold a part now.
pub(crate) fn staging_in_use(kind: LinkKind, change: f64) {
    gauge!("headwater_link_staging_in_use", "link" => kind.name()).increment(change);
}

/// Peers with a data path now.
pub(crate) fn peers(kind: LinkKind, change: f64) {
    gauge!("headwater_link_peers", "link" => kind.name()).increment(change);
}
