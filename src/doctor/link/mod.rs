//! What each link to another host can do: round trip and bandwidth, beside the port's rate.
//!
//! The side that serves is the receiver's end of every link it can open, the side that measures a
//! worker's. They agree over a control connection, guarded as gRPC is; see docs/doctor.md.

mod control;
mod ends;
mod measure;
mod serve;
mod trials;
mod verdict;

pub(crate) use measure::measure;
pub(crate) use serve::serve;

/// Bytes of a part whose bandwidth is measured; that of a part of 8 samples of `dinov2` in bf16.
const PART_BYTES: u64 = 8 << 20;
/// Bytes of a part whose round trip is measured.
const PING_BYTES: u64 = 64;
/// Parts that have a place of their own in the slot, and are on their way at one time.
const PARTS_AT_ONCE: u64 = 4;
/// The only slot.
const SLOT: headwater_transport::SlotId = headwater_transport::SlotId(0);
