//! What is the shm link's own of what goes over its socket; docs/wire-format.md has the table.

/// Version of what goes over the socket; both ends must have the same.
pub(crate) const VERSION: u16 = 2;

/// Begins a worker's hello.
pub(crate) const MAGIC: [u8; 4] = *b"HWSM";

/// Takes any bytes for each message of this protocol. Panics where one is taken that is written
/// otherwise than it was read.
#[cfg(feature = "conformance")]
pub(crate) fn take_any(packet: &[u8]) {
    crate::links::local::hello::take_any(MAGIC, packet);
    let packet = &packet[..packet.len().min(crate::links::local::hello::MAX_PACKET_BYTES)];
    crate::link::messages::take_any::<u64>(packet);
}
