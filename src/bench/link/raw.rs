//! The yardsticks: what memory and a bare socket do on this host.

use std::io::{self, Read, Write};
use std::net::TcpStream;

/// Writes `batches` whole batches, blocking.
pub(super) fn send(stream: &mut TcpStream, batch: &[u8], batches: u32) -> io::Result<()> {
    (0..batches).try_for_each(|_| stream.write_all(batch))
}

/// Reads `batches` whole batches into the same buffer, blocking.
pub(super) fn receive(stream: &mut TcpStream, batch: &mut [u8], batches: u32) -> io::Result<()> {
    (0..batches).try_for_each(|_| stream.read_exact(batch))
}

/// Copies a batch `batches` times.
pub(super) fn copy(source: &[u8], target: &mut [u8], batches: u32) {
    for _ in 0..batches {
        std::hint::black_box(&mut *target).copy_from_slice(std::hint::black_box(source));
    }
}
