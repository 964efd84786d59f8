//! What lies where in a device's memory.

use headwater_core::draw::Extent;

use super::launch::Launch;

/// Everything in the arena begins at a multiple of this.
pub(super) const ALIGN_BYTES: u64 = 256;
/// Pixels that views are made of, in the arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Source {
    /// The first pixel.
    pub(super) offset: u64,
    /// Bytes from one row to the next, one pixel to the next, one channel to the next.
    pub(super) row_bytes: u64,
    pub(super) pixel_bytes: u32,
    pub(super) channel_bytes: u64,
    /// What the sides have been divided by.
    pub(super) reduction: u32,
}

/// Why a sample is not in the load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoRoom {
    /// Not beside those that are there.
    Now,
    /// Not even with nothing else there.
    Ever,
}

/// What an image needs beside its pixels, its views and their records so that kernels decode it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Coded {
    /// Bytes that it is made of and goes through.
    pub(super) scratch: u64,
    /// Bytes of its records, with their gaps.
    pub(super) records: u64,
}

/// Where an image lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Room {
    /// Its pixels.
    pub(super) pixels: u64,
    /// What they are made of.
    pub(super) scratch: u64,
}

/// The row of a sample in a view of a tensor, within the rows of the load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Row {
    /// Number of the sample, as the caller counts them.
    pub(super) sample: usize,
    pub(super) tensor: usize,
    pub(super) view: usize,
    pub(super) offset: u64,
    pub(super) bytes: u64,
    /// Number of its record.
    pub(super) record: u32,
}

/// A load that is complete.
#[derive(Debug)]
pub(super) struct Sealed {
    /// The records, and where they go.
    pub(super) records: (u64, Vec<u8>),
    pub(super) launches: Vec<Launch>,
    /// From where to where there is room for the records of images that kernels decode: right before the checksums.
    pub(super) coded: (u64, u64),
    /// Checksums of the rows, which lie right before them.
    pub(super) sums: Sums,
    /// Where the rows lie when all launches have run.
    pub(super) rows: (u64, u64),
}

/// What is launched for the checksums of a load's rows, in their order, and where these are then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sums {
    pub(super) at: u64,
    /// `None` where a row is too short for the kernel.
    pub(super) launch: Option<Launch>,
}

/// Bounds of a device.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub(super) arena_bytes: u64,
    pub(super) shared_bytes_max: u32,
}

// === impl Source ===

impl Source {
    /// Interleaved pixels without padding.
    pub(super) fn interleaved(offset: u64, extent: Extent, reduction: u32) -> Self {
        let row_bytes = 3 * u64::from(extent.width);
        Self { offset, row_bytes, pixel_bytes: 3, channel_bytes: 1, reduction }
    }

    pub(super) fn planar(offset: u64, extent: Extent, reduction: u32) -> Self {
        let row_bytes = u64::from(extent.width);
        let channel_bytes = row_bytes * u64::from(extent.height);
        Self { offset, row_bytes, pixel_bytes: 1, channel_bytes, reduction }
    }
}

/// The bytes with the gap behind them.
pub(super) fn padded(bytes: u64) -> u64 {
    bytes.next_multiple_of(ALIGN_BYTES)
}
