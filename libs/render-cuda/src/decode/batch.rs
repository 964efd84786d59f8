//! JPEGs that kernels decode together, before the kernels that make views of them.

use super::record::{JPEG_BYTES, JpegRecord, SEGMENT_BYTES, TABLE_BYTES};
use super::staged::{GROUP_SEGMENTS, Staged};
use crate::arena::{Room, padded};
use crate::launch::{Kernel, Launch};

/// Threads of a block of `make_samples`, eight for each of [`DCT_BLOCKS`].
const SAMPLES_THREADS: u32 = 256;
/// Blocks of coefficients for each block of threads.
const DCT_BLOCKS: u32 = 32;
/// Bytes of shared memory for eight threads.
const DCT_SHARED_BYTES: u32 = 72 * 4;
/// Threads of a block of `make_pixels`.
const PIXELS_THREADS: u32 = 256;
/// Pixels for each block of threads.
const BLOCK_PIXELS: u32 = 1024;

/// Memory that is kept for the next image: ten times what a photo takes.
const SPARE_BYTES_MAX: usize = 1 << 20;

/// Images in the load, with all that kernels read of them on the device but for this.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    jpegs: Vec<JpegRecord>,
    /// Number of each one's sample.
    samples: Vec<usize>,
    /// Number of the image, its first segment, and how many.
    groups: Vec<[u32; 3]>,
    /// Blocks of threads of `make_samples` and `make_pixels`.
    blocks: [u32; 2],
    /// What kernels read of each image, as it is copied to the device, and how many bytes that is.
    inputs: Vec<Vec<u8>>,
    inputs_bytes: u64,
    /// Memory for further ones.
    spare: Vec<Vec<u8>>,
}

/// What to copy to the device behind [`Batch::inputs`], and what to launch there.
pub(crate) struct Orders {
    pub(crate) bytes: Vec<u8>,
    pub(crate) launches: [Launch; 3],
}

// === impl Batch ===

impl Batch {
    pub(crate) fn clear(&mut self) {
        let mut spare = std::mem::take(&mut self.spare);
        spare.append(&mut self.inputs);
        spare.retain(|bytes| bytes.capacity() <= SPARE_BYTES_MAX);
        *self = Self { spare, ..Self::default() };
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.jpegs.is_empty()
    }

    /// Adds an image that has its place; takes its bytes and gives other memory for the next one's.
    pub(crate) fn push(&mut self, sample: usize, staged: &Staged, bytes: &mut Vec<u8>, room: Room) {
        let number = self.jpegs.len() as u32;
        let record = staged.record.placed(self.inputs_bytes, room.scratch, room.pixels);
        self.inputs_bytes += bytes.len() as u64;
        self.inputs.push(std::mem::replace(bytes, self.spare.pop().unwrap_or_default()));
        self.jpegs.push(JpegRecord { first_block: self.blocks, ..record });
        self.samples.push(sample);
        for first in (0..staged.segments).step_by(GROUP_SEGMENTS as usize) {
            self.groups.push([number, first, GROUP_SEGMENTS.min(staged.segments - first)]);
        }
        let (width, height) = record.size;
        self.blocks[0] += record.blocks().div_ceil(DCT_BLOCKS);
        self.blocks[1] += (width * height).div_ceil(BLOCK_PIXELS);
    }

    /// Bytes of the statuses, which lie right before `statuses_end`.
    fn statuses_bytes(&self) -> u64 {
        padded(4 * self.jpegs.len() as u64)
    }

    /// Where the statuses lie, one for each image.
    pub(crate) fn statuses_at(&self, statuses_end: u64) -> u64 {
        statuses_end - self.statuses_bytes()
    }

    /// All that goes to one place: what kernels read of the images, and their orders.
    pub(crate) fn pieces<'a>(&'a self, orders: &'a Orders) -> Vec<&'a [u8]> {
        self.inputs.iter().chain([&orders.bytes]).map(Vec::as_slice).collect()
    }

    /// What to copy with the images to `at` and up to `end`, and to launch then. Statuses are at the end.
    pub(crate) fn orders(&self, (images, end): (u64, u64)) -> Orders {
        let at = images + self.inputs_bytes;
        let statuses = self.statuses_at(end);
        let groups = at + padded(JPEG_BYTES * self.jpegs.len() as u64);
        let mut bytes = Vec::with_capacity((end - at) as usize);
        for (record, number) in self.jpegs.iter().zip(0..) {
            let record = record.placed(images, 0, 0);
            JpegRecord { status: statuses + 4 * number, ..record }.write(&mut bytes);
        }
        bytes.resize((groups - at) as usize, 0);
        for [jpeg, first, count] in &self.groups {
            [*jpeg, *first, *count, 0].iter().for_each(|n| bytes.extend(n.to_le_bytes()));
        }
        assert!(at + bytes.len() as u64 <= statuses, "room for the records of all images");
        // Nothing is amiss yet.
        bytes.resize((end - at) as usize, 0);
        let tables = self.jpegs.iter().map(|jpeg| jpeg.tables_len).max().unwrap_or(0);
        let of_threads = 3 * 4 * GROUP_SEGMENTS;
        let count = self.jpegs.len() as u64;
        let launch = |kernel, blocks, threads, shared_bytes, second| {
            let records = [at, second];
            Launch { kernel, blocks, threads, shared_bytes, records }
        };
        let bits_shared = of_threads + 4 * 16 + tables * TABLE_BYTES as u32 + 64;
        let samples_shared = SAMPLES_THREADS / 8 * DCT_SHARED_BYTES;
        let [samples, pixels] = self.blocks;
        let launches = [
            launch(
                Kernel::DecodeBits,
                self.groups.len() as u32,
                GROUP_SEGMENTS,
                bits_shared,
                groups,
            ),
            launch(Kernel::MakeSamples, samples, SAMPLES_THREADS, samples_shared, count),
            launch(Kernel::MakePixels, pixels, PIXELS_THREADS, 0, count),
        ];
        Orders { bytes, launches }
    }

    /// Samples, and where their pixels go, in which something has been found amiss.
    pub(crate) fn amiss(&self, statuses: &[u8]) -> Vec<(usize, u64)> {
        let (statuses, _) = statuses.as_chunks::<4>();
        let images = self.samples.iter().zip(&self.jpegs).zip(statuses);
        let amiss = images.filter(|(_, status)| **status != [0; 4]);
        amiss.map(|((sample, jpeg), _)| (*sample, jpeg.pixels)).collect()
    }

    /// Images there are.
    pub(crate) fn len(&self) -> usize {
        self.jpegs.len()
    }

    /// Bytes that a kernel must read or write for all images.
    pub(crate) fn necessary_bytes(&self, kernel: Kernel) -> u64 {
        let of_image = |jpeg: &JpegRecord| {
            let blocks = u64::from(jpeg.blocks());
            let (coefficients, samples) = (128 * blocks, 64 * blocks);
            let (width, height) = jpeg.size;
            match kernel {
                Kernel::DecodeBits => u64::from(jpeg.bits / 8) + coefficients,
                Kernel::MakeSamples => coefficients + samples,
                Kernel::MakePixels => samples + 3 * u64::from(width) * u64::from(height),
                Kernel::ResizeTiles | Kernel::FinishViews | Kernel::SumRows => 0,
            }
        };
        self.jpegs.iter().map(of_image).sum()
    }

    /// Segments of all images.
    pub(crate) fn segments(&self) -> u64 {
        self.groups.iter().map(|[.., count]| u64::from(*count)).sum()
    }
}

const _: () = assert!(SEGMENT_BYTES.is_multiple_of(16) && TABLE_BYTES.is_multiple_of(16));
