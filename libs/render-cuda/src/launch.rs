//! What is launched on a device.

/// The kernels, in the order in which they run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kernel {
    /// Where segments of JPEGs begin that have no entry points, a warp for each image.
    FindEntries,
    /// Bits of JPEGs to coefficients, a thread for each segment.
    DecodeBits,
    /// Coefficients to samples, eight threads for each block of 8 x 8.
    MakeSamples,
    /// Samples to pixels, a thread each.
    MakePixels,
    /// Crop and resize, a block for each tile.
    ResizeTiles,
    /// Operations, normalise and cast, a block for each view.
    FinishViews,
    /// Checksums, a block for each row.
    SumRows,
}

/// One launch of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Launch {
    /// Which.
    pub kernel: Kernel,
    /// Blocks.
    pub blocks: u32,
    /// Threads of each, a power of two.
    pub threads: u32,
    /// Shared memory of each, in bytes.
    pub shared_bytes: u32,
    /// Where the records lie that the kernel reads: those of the views, and the list that says what
    /// each block works on.
    pub records: [u64; 2],
}

// === impl Kernel ===

impl Kernel {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::FindEntries,
        Self::DecodeBits,
        Self::MakeSamples,
        Self::MakePixels,
        Self::ResizeTiles,
        Self::FinishViews,
        Self::SumRows,
    ];
    /// Those that decode JPEGs.
    pub const DECODING: [Self; 4] =
        [Self::FindEntries, Self::DecodeBits, Self::MakeSamples, Self::MakePixels];
    /// Those that make views of images, and sum them.
    pub const VIEWS: [Self; 3] = [Self::ResizeTiles, Self::FinishViews, Self::SumRows];

    /// Its name in the source.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::FindEntries => "find_entries",
            Self::DecodeBits => "decode_bits",
            Self::MakeSamples => "make_samples",
            Self::MakePixels => "make_pixels",
            Self::ResizeTiles => "resize_tiles",
            Self::FinishViews => "finish_views",
            Self::SumRows => "sum_rows",
        }
    }
}
