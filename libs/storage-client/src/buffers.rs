//! Memory that files are read into, used again. Fresh memory costs a page fault for each 4 KiB of it,
//! which is more than the copy out of the kernel's cache.

use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

use crate::metrics;

/// Bytes of memory that are kept while nobody uses them.
const SPARE_BYTES_MAX: usize = 32 << 20;
/// Less is not worth a look into the shelf.
const KEPT_BYTES_MIN: usize = 16 << 10;
/// Larger ones are few, and decoding them takes far longer than the faults.
const KEPT_BYTES_MAX: usize = 8 << 20;

/// Buffers of this process that nobody uses, the one that was given back last on top.
static SHELF: Shelf = Shelf::new(SPARE_BYTES_MAX);

/// Memory of `bytes` bytes, filled by `fill`.
///
/// # Errors
/// What `fill` says.
pub(crate) fn filled<E>(
    bytes: usize,
    fill: impl FnOnce(&mut [u8]) -> Result<(), E>,
) -> Result<Bytes, E> {
    if !(KEPT_BYTES_MIN..=KEPT_BYTES_MAX).contains(&bytes) {
        let mut buffer = vec![0; bytes];
        fill(&mut buffer)?;
        return Ok(buffer.into());
    }
    let mut lent = SHELF.lend(bytes);
    fill(&mut lent.buffer[..bytes])?;
    Ok(Bytes::from_owner(lent))
}

#[derive(Debug)]
struct Shelf {
    spare: Mutex<Spare>,
    bytes_max: usize,
}

#[derive(Debug)]
struct Spare {
    /// The one that was given back last at the end.
    buffers: Vec<Vec<u8>>,
    bytes: usize,
}

/// A buffer in use; given back when it is dropped.
struct Lent {
    shelf: &'static Shelf,
    /// At least as long as what is in it.
    buffer: Vec<u8>,
    bytes: usize,
}

// === impl Shelf ===

impl Shelf {
    const fn new(bytes_max: usize) -> Self {
        Self { spare: Mutex::new(Spare { buffers: Vec::new(), bytes: 0 }), bytes_max }
    }

    fn lend(&'static self, bytes: usize) -> Lent {
        let size = size_for(bytes);
        let found = self.lock().take(size);
        // Zeroed once: whoever comes later overwrites what it reads.
        Lent { shelf: self, buffer: found.unwrap_or_else(|| vec![0; size]), bytes }
    }

    fn take_back(&self, buffer: Vec<u8>) {
        let mut spare = self.lock();
        let dropped = spare.put(buffer, self.bytes_max);
        metrics::spare_bytes(spare.bytes);
        drop(spare);
        // Without the lock: the kernel takes its time.
        drop(dropped);
    }

    fn lock(&self) -> MutexGuard<'_, Spare> {
        // No panic can happen while the lock is held.
        self.spare.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Spare ===

impl Spare {
    fn take(&mut self, size: usize) -> Option<Vec<u8>> {
        let at = self.buffers.iter().rposition(|buffer| buffer.len() == size)?;
        self.bytes -= size;
        Some(self.buffers.remove(at))
    }

    /// Puts one in; gives the ones that were longest unused, where they are too many.
    fn put(&mut self, buffer: Vec<u8>, bytes_max: usize) -> Vec<Vec<u8>> {
        self.bytes += buffer.len();
        self.buffers.push(buffer);
        let mut gone = 0;
        while self.bytes > bytes_max {
            self.bytes -= self.buffers[gone].len();
            gone += 1;
        }
        self.buffers.drain(..gone).collect()
    }
}

/// Sizes of buffers: four steps from one power of two to the next, so that at most a fifth is unused.
fn size_for(bytes: usize) -> usize {
    let step = bytes.next_power_of_two() / 8;
    bytes.next_multiple_of(step)
}

// === impl Lent ===

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        &self.buffer[..self.bytes]
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        self.shelf.take_back(std::mem::take(&mut self.buffer));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shelf(bytes_max: usize) -> &'static Shelf {
        Box::leak(Box::new(Shelf::new(bytes_max)))
    }

    #[test]
    fn a_buffer_is_used_again_and_shows_nothing_of_its_past() {
        let shelf = shelf(1 << 20);
        let mut first = shelf.lend(100_000);
        first.buffer.fill(7);
        let memory = first.as_ref().as_ptr();
        drop(first);
        let second = shelf.lend(99_000);
        assert_eq!((second.as_ref().as_ptr(), second.as_ref().len()), (memory, 99_000));
        let third = shelf.lend(99_000);
        assert_ne!(third.as_ref().as_ptr(), memory);
        let read = filled::<()>(20_000, |to| {
            to.fill(3);
            Ok(())
        });
        assert_eq!(read.unwrap(), vec![3; 20_000]);
        assert_eq!(filled(20_000, |_| Err("away")), Err("away"));
    }

    #[test]
    fn no_more_is_kept_than_may_be_and_the_oldest_goes_first() {
        let shelf = shelf(300_000);
        let lent: Vec<Lent> = (0..4).map(|_| shelf.lend(1 << 17)).collect();
        drop(lent);
        let spare = || {
            let spare = shelf.lock();
            (spare.buffers.len(), spare.bytes)
        };
        assert_eq!(spare(), (2, 2 << 17));
        drop(shelf.lend(200_000));
        assert_eq!(spare(), (1, 229_376));
    }

    #[test]
    fn little_of_a_buffer_is_unused() {
        for bytes in (KEPT_BYTES_MIN..KEPT_BYTES_MAX).step_by(9973) {
            let size = size_for(bytes);
            assert!(size >= bytes && size - bytes <= size / 5, "{bytes}: {size}");
        }
    }
}
