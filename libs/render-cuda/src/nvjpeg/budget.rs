//! The memory of a codec, which comes out of a bound.
#![allow(unsafe_code)]

use std::collections::HashMap;
use std::ffi::{c_int, c_void};
use std::sync::{Mutex, PoisonError};

use super::library::Allocator;

/// What the library is answered: CUDA's numbers for success and for no memory.
const SUCCESS: c_int = 0;
const NO_MEMORY: c_int = 2;

/// Memory by address: of a device, or of the host and pinned.
pub(crate) trait Memory: Send {
    /// Takes `bytes` bytes; `None` where there is less memory than that.
    fn take(&self, bytes: usize) -> Option<u64>;

    /// Gives back what `take` gave.
    fn give_back(&self, address: u64);

    /// Waits, where the host itself may write to the memory, until the stream uses it no more: the
    /// library may let go of it before. What is used only in the stream's order needs no wait.
    fn settle(&self) {}
}

/// Which memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The device's.
    Device,
    /// The host's, which the device copies from without a detour.
    Pinned,
}

/// A bound on the memory of one kind that one codec holds. What the library gives back is kept for its
/// next wish of the same size: taking memory from the driver stops the whole device.
pub(super) struct Budget {
    memory: Box<dyn Memory>,
    books: Mutex<Books>,
}

#[derive(Default)]
struct Books {
    left: u64,
    /// Bytes of what the library holds, by address.
    lent: HashMap<u64, usize>,
    /// Addresses of what it has given back, by size.
    spare: HashMap<usize, Vec<u64>>,
    /// Bytes of the last wish that was not granted, until somebody asks.
    refused: Option<usize>,
}

// === impl Budget ===

impl Budget {
    pub(super) fn new(bytes: u64, memory: Box<dyn Memory>) -> Self {
        Self { memory, books: Mutex::new(Books { left: bytes, ..Books::default() }) }
    }

    /// What the library calls. It must not outlive the budget, nor the budget be moved.
    pub(super) fn allocator(&self) -> Allocator {
        let context = std::ptr::from_ref(self).cast_mut().cast();
        Allocator { malloc: on_malloc, free: on_free, context }
    }

    /// Bytes of a wish that was not granted since this was asked last.
    pub(super) fn take_refusal(&self) -> Option<usize> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner).refused.take()
    }

    fn take(&self, bytes: usize) -> Option<u64> {
        let mut books = self.books.lock().unwrap_or_else(PoisonError::into_inner);
        let spare = books.spare.get_mut(&bytes).and_then(Vec::pop);
        let Some(address) = spare.or_else(|| self.take_anew(&mut books, bytes)) else {
            books.refused = Some(bytes);
            return None;
        };
        books.lent.insert(address, bytes);
        Some(address)
    }

    /// From the device, after giving back what is spare where the bound asks for it.
    fn take_anew(&self, books: &mut Books, bytes: usize) -> Option<u64> {
        if books.left < bytes as u64 {
            for (size, addresses) in std::mem::take(&mut books.spare) {
                for address in addresses {
                    self.memory.give_back(address);
                    books.left += size as u64;
                }
            }
        }
        let left = books.left.checked_sub(bytes as u64)?;
        let address = self.memory.take(bytes)?;
        books.left = left;
        Some(address)
    }

    fn give_back(&self, address: u64) -> bool {
        let mut books = self.books.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(bytes) = books.lent.remove(&address) else { return false };
        self.memory.settle();
        books.spare.entry(bytes).or_default().push(address);
        true
    }
}

impl Drop for Budget {
    fn drop(&mut self) {
        let books = self.books.get_mut().unwrap_or_else(PoisonError::into_inner);
        let spare = books.spare.values().flatten();
        for address in books.lent.keys().chain(spare) {
            self.memory.give_back(*address);
        }
    }
}

/// `tDevMallocV2` and `tPinnedMallocV2`.
unsafe extern "C" fn on_malloc(
    context: *mut c_void,
    to: *mut *mut c_void,
    bytes: usize,
    _stream: *mut c_void,
) -> c_int {
    // SAFETY: the library hands back the context of `Budget::allocator`, which lives as long as the
    // handle, and a place of its own for the address.
    let (budget, to) = unsafe { (&*context.cast::<Budget>(), &mut *to) };
    match budget.take(bytes) {
        Some(address) => {
            *to = address as *mut c_void;
            SUCCESS
        }
        None => NO_MEMORY,
    }
}

/// `tDevFreeV2` and `tPinnedFreeV2`.
unsafe extern "C" fn on_free(
    context: *mut c_void,
    address: *mut c_void,
    _bytes: usize,
    _stream: *mut c_void,
) -> c_int {
    // SAFETY: as in `on_malloc`.
    let budget = unsafe { &*context.cast::<Budget>() };
    let known = address.is_null() || budget.give_back(address as u64);
    if known { SUCCESS } else { NO_MEMORY }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    /// Counts what is taken; addresses are never used twice.
    #[derive(Clone, Default)]
    struct Counted {
        taken: Arc<AtomicU64>,
        given_back: Arc<AtomicU64>,
        settled: Arc<AtomicU64>,
    }

    impl Memory for Counted {
        fn take(&self, _bytes: usize) -> Option<u64> {
            Some(4096 * (self.taken.fetch_add(1, Ordering::Relaxed) + 1))
        }

        fn give_back(&self, _address: u64) {
            self.given_back.fetch_add(1, Ordering::Relaxed);
        }

        fn settle(&self) {
            self.settled.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// As the library calls it.
    fn malloc(allocator: &Allocator, bytes: usize) -> Result<*mut c_void, c_int> {
        let mut to = std::ptr::null_mut();
        // SAFETY: the context is that of a budget that is alive, and the place is ours.
        let code =
            unsafe { (allocator.malloc)(allocator.context, &mut to, bytes, std::ptr::null_mut()) };
        if code == SUCCESS { Ok(to) } else { Err(code) }
    }

    fn free(allocator: &Allocator, address: *mut c_void) -> c_int {
        // SAFETY: as in `malloc`.
        unsafe { (allocator.free)(allocator.context, address, 0, std::ptr::null_mut()) }
    }

    #[test]
    fn no_more_is_lent_than_the_bound_and_spare_memory_counts() {
        let counted = Counted::default();
        let budget = Box::new(Budget::new(1000, Box::new(counted.clone())));
        let allocator = budget.allocator();
        let first = malloc(&allocator, 600).unwrap();
        assert_eq!(malloc(&allocator, 401), Err(NO_MEMORY));
        assert_eq!((budget.take_refusal(), budget.take_refusal()), (Some(401), None), "said once");
        let second = malloc(&allocator, 400).unwrap();
        assert_eq!(free(&allocator, second), SUCCESS);
        assert_eq!(counted.settled.load(Ordering::Relaxed), 1, "it may be in use until then");
        assert_eq!(malloc(&allocator, 400).unwrap(), second, "the same memory again");
        assert_eq!(counted.taken.load(Ordering::Relaxed), 2);
        assert_eq!(free(&allocator, first), SUCCESS);
        malloc(&allocator, 500).unwrap();
        assert_eq!(counted.given_back.load(Ordering::Relaxed), 1, "spare makes room");
        drop(budget);
        assert_eq!(counted.given_back.load(Ordering::Relaxed), 3, "nothing is left behind");
    }

    #[test]
    fn memory_that_was_not_lent_is_not_taken_back() {
        let budget = Box::new(Budget::new(1000, Box::new(Counted::default())));
        let allocator = budget.allocator();
        assert_eq!(free(&allocator, std::ptr::null_mut()), SUCCESS);
        let address = malloc(&allocator, 10).unwrap();
        assert_eq!(free(&allocator, address), SUCCESS);
        assert_ne!(free(&allocator, address), SUCCESS, "twice");
    }
}
