//! What C's allocator keeps of the JPEG library's blocks once they are freed: at most 8 MiB a thread.
//!
//! glibc raises its threshold for blocks of their own, up to 32 MiB, with each such block that is
//! freed anywhere in the process, and keeps twice the threshold on top of each thread's heap. What a
//! thread keeps after a large progressive image then depends on which thread freed what first. Fixed
//! thresholds make it a figure.
#![allow(unsafe_code)]

#[cfg(all(target_os = "linux", target_env = "gnu"))]
static GIVEN: std::sync::Once = std::sync::Once::new();
/// Blocks from this size on are mapped on their own and go back to the system when freed; no more
/// than this stays free on top of a heap. Above what storage answers come in.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const LARGE_BLOCK_BYTES: i32 = 8 << 20;

/// Has the process's allocator give large blocks back. Other C libraries than glibc have no such
/// thresholds.
pub(super) fn give_large_blocks_back() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    GIVEN.call_once(|| {
        for parameter in [libc::M_MMAP_THRESHOLD, libc::M_TRIM_THRESHOLD] {
            // SAFETY: it takes two numbers and changes which block the allocator gives next, not those
            // that it has given; it takes the allocator's own lock.
            let taken = unsafe { libc::mallopt(parameter, LARGE_BLOCK_BYTES) };
            if taken == 0 {
                tracing::warn!(parameter, "malloc takes no thresholds: it may keep freed memory");
            }
        }
    });
}
