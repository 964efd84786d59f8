//! The kernels' source: one text out of the files beside each operation.

use headwater_cuda::{KernelSource, OPTIONS};
use headwater_pixels::kernels;

/// Everything that is compiled. Nothing is fused that is not fused on the processor, and quotients are
/// rounded as IEEE 754 has it: without that bytes would differ.
pub const SOURCE: KernelSource = KernelSource { texts: TEXTS, options: OPTIONS };

/// In order: what the operations stand on, they themselves, and what uses them.
const TEXTS: &[&str] = &[
    include_str!("words.cu"),
    include_str!("decode/words.cu"),
    include_str!("decode/bits.cu"),
    include_str!("decode/find.cu"),
    include_str!("decode/samples.cu"),
    include_str!("decode/pixels.cu"),
    kernels::TEXT,
    kernels::CALLS,
    include_str!("views.cu"),
    include_str!("sums.cu"),
];

/// Threads of a block of `resize_tiles`.
pub(super) const RESIZE_THREADS: u32 = 256;

/// Bytes of shared memory that a tile may take: six blocks fit where there are 227 KiB.
pub(super) const TILE_SHARED_BYTES: u32 = 36 << 10;

/// Bytes of the cast's table in shared memory, `u32[3, 256]`.
const TABLE_BYTES: u32 = 3 * 256 * 4;
/// Planes from which on a block has as many threads as there can be.
const MANY_THREADS_FROM_BYTES: u64 = 64 << 10;

/// Threads and shared memory of a block of `finish_views` for a view whose planes have
/// `plane_bytes` bytes; in shared memory they are changed where `in_shared`.
#[must_use]
pub(super) fn finish_block(plane_bytes: u64, in_shared: bool) -> (u32, u64) {
    let threads = if plane_bytes >= MANY_THREADS_FROM_BYTES { 1024 } else { 256 };
    let planes = if in_shared { plane_bytes } else { 0 };
    (threads, u64::from(8 * threads + TABLE_BYTES) + planes)
}
