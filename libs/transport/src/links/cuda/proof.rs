//! How the two ends show each other that they reach the same bytes of a GPU: the receiver writes random bytes and their
//! checksum through its context, the worker reads them through its own, writes others with a checksum over both, and the
//! receiver reads these.

use std::sync::atomic::{AtomicU64, Ordering};

use xxhash_rust::xxh3::xxh3_64;

use crate::link::key::random_bytes;
use crate::memory::window::{ExportsWindow, ImportedWindow, SPARE_BYTES};

const NONCE_BYTES: usize = 32;
/// A nonce and a checksum.
const HALF_BYTES: usize = NONCE_BYTES + 8;
/// Of one connection.
const CELL_BYTES: u64 = 128;

/// Where the proofs of a receiver's connections lie in the spare bytes: no two that are made at one time share a cell,
/// unless there are more than there are cells, when one of them fails and its worker comes again.
#[derive(Debug, Default)]
pub(super) struct Cells(AtomicU64);

/// A proof that a receiver has begun.
pub(super) struct Begun {
    /// Of the cell, in the memory.
    pub(super) offset_bytes: u64,
    cell: u64,
    nonce: [u8; NONCE_BYTES],
}

// === impl Cells ===

impl Cells {
    pub(super) fn next(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed) % (SPARE_BYTES / CELL_BYTES) * CELL_BYTES
    }
}

// === impl Begun ===

impl Begun {
    /// Writes the receiver's half to a cell.
    pub(super) fn new(window: &dyn ExportsWindow, cell: u64) -> Result<Self, String> {
        let nonce = random_bytes().map_err(|error| error.to_string())?;
        window.write_spare(cell, &half(&nonce, &[]))?;
        Ok(Self { offset_bytes: window.spare_at() + cell, cell, nonce })
    }

    /// Reads the worker's half.
    pub(super) fn check(&self, window: &dyn ExportsWindow) -> Result<(), String> {
        let theirs = window.read_spare(self.cell + HALF_BYTES as u64, HALF_BYTES as u64)?;
        match is_whole(&theirs, &self.nonce) {
            true => Ok(()),
            false => Err("what the worker wrote to the GPU does not arrive there".into()),
        }
    }
}

/// The worker's side: reads the receiver's half, and writes its own. `cell`: where the cell is in the window.
pub(super) fn answer(window: &dyn ImportedWindow, cell: u64) -> Result<(), String> {
    let theirs = window.read(cell, HALF_BYTES as u64)?;
    if !is_whole(&theirs, &[]) {
        return Err("what the receiver wrote to its GPU does not show here".into());
    }
    let nonce: [u8; NONCE_BYTES] = random_bytes().map_err(|error| error.to_string())?;
    let own = half(&nonce, &theirs[..NONCE_BYTES]);
    window.write(&[(cell + HALF_BYTES as u64, &own)])
}

/// A nonce, and the checksum over what came before and it.
fn half(nonce: &[u8], before: &[u8]) -> Vec<u8> {
    let sum = xxh3_64(&[before, nonce].concat());
    [nonce, &sum.to_le_bytes()].concat()
}

fn is_whole(bytes: &[u8], before: &[u8]) -> bool {
    bytes.len() == HALF_BYTES && half(&bytes[..NONCE_BYTES], before) == bytes
}
