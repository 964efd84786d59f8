//! How much work is taken from receivers, and memory for it.

use headwater_config_derive::Section;

/// How much work is taken from receivers, and memory for it.
#[derive(Clone, Debug, PartialEq, Eq, Section)]
pub struct LeaseConfig {
    /// Leases one receiver may have open here; 0: twice the threads plus two.
    #[key(unit = "leases")]
    pub leases_in_flight: u32,
    /// Parts of one receiver that wait in the pool or are rendered, each with its memory; the other
    /// leases are read in advance. 0: as many as leases.
    #[key(unit = "parts")]
    pub queue_parts: u32,
    /// Encoded bytes read in advance for all receivers, estimated from the shards' mean sample. A
    /// receiver holds at most as many as it leaves free.
    #[key(unit = "bytes", default = 256 << 20)]
    pub staging_bytes: u64,
    /// Memory for finished parts that other receivers may want too, in bytes; 0: parts are made for
    /// each receiver separately. Receivers of the same data, recipe and seed then cost little more
    /// than one. It must hold at least all parts that are being made.
    #[key(unit = "bytes")]
    pub share_bytes: u64,
    /// Maximum bytes of a part, which a receiver sets by `receiver.part_samples`; a larger part is
    /// refused. The parts of one receiver that are being made hold no more together, or 16 MiB for
    /// each of `queue_parts`.
    #[key(unit = "bytes", default = 256 << 20)]
    pub part_bytes_max: u64,
}
