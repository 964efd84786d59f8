//! JPEGs that kernels decode together, before the kernels that make views of them.

use headwater_jpeg::Entries;
use headwater_render::decode::ImageHash;

use super::record::{JPEG_BYTES, JpegRecord, SEGMENT_BYTES, TABLE_UNIT_BYTES, entries_of_segments};
use super::staged::{FOUND_BYTES, GROUP_SEGMENTS, Staged};
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
/// Bytes of shared memory for what lanes of `find_entries` note: eight marks and a meeting each.
const NOTES_BYTES: u32 = GROUP_SEGMENTS * (8 * 16 + 24);

/// Memory that is kept for the next image: ten times what a photo takes.
const SPARE_BYTES_MAX: usize = 1 << 20;

/// Images in the load, with all that kernels read of them on the device but for this.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    images: Vec<Image>,
    /// Images in which kernels are to find segments.
    finding: Vec<u32>,
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

#[derive(Clone, Copy, Debug)]
struct Image {
    record: JpegRecord,
    /// Number of its sample.
    sample: usize,
    hash: Option<ImageHash>,
    /// Its place among those in which kernels are to find segments.
    finds: Option<u32>,
}

/// What to copy to the device behind [`Batch::inputs`], and what to launch there.
pub(crate) struct Orders {
    pub(crate) bytes: Vec<u8>,
    pub(crate) launches: Vec<Launch>,
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
        self.images.is_empty()
    }

    /// Adds an image that has its place; takes its bytes and gives other memory for the next one's.
    pub(crate) fn push(&mut self, sample: usize, staged: &Staged, bytes: &mut Vec<u8>, room: Room) {
        let number = self.images.len() as u32;
        let record = staged.record.placed(self.inputs_bytes, room.scratch, room.pixels);
        let record = JpegRecord { first_block: self.blocks, ..record };
        self.inputs_bytes += bytes.len() as u64;
        self.inputs.push(std::mem::replace(bytes, self.spare.pop().unwrap_or_default()));
        let finds = staged.segments.is_none().then_some(self.finding.len() as u32);
        self.images.push(Image { record, sample, hash: staged.hash, finds });
        self.finding.extend(finds.map(|_| number));
        let segments = staged.segments.unwrap_or(0);
        for first in (0..segments).step_by(GROUP_SEGMENTS as usize) {
            self.groups.push([number, first, GROUP_SEGMENTS.min(segments - first)]);
        }
        let (width, height) = record.size;
        self.blocks[0] += record.blocks().div_ceil(DCT_BLOCKS);
        self.blocks[1] += (width * height).div_ceil(BLOCK_PIXELS);
    }

    /// Bytes of the statuses.
    fn statuses_bytes(&self) -> u64 {
        padded(4 * self.images.len() as u64)
    }

    /// Where results lie, which end at `end`: a status for each image, and behind all of them the segments that have been
    /// found.
    pub(crate) fn results_at(&self, end: u64) -> u64 {
        end - self.statuses_bytes() - FOUND_BYTES * self.finding.len() as u64
    }

    /// All that goes to one place: what kernels read of the images, and their orders.
    pub(crate) fn pieces<'a>(&'a self, orders: &'a Orders) -> Vec<&'a [u8]> {
        self.inputs.iter().chain([&orders.bytes]).map(Vec::as_slice).collect()
    }

    /// What to copy with the images to `at` and up to `end`, and to launch then. Results are at the end.
    pub(crate) fn orders(&self, (images, end): (u64, u64)) -> Orders {
        let at = images + self.inputs_bytes;
        let statuses = self.results_at(end);
        let found = statuses + self.statuses_bytes();
        let groups = at + padded(JPEG_BYTES * self.images.len() as u64);
        let mut bytes = Vec::with_capacity((found - at) as usize);
        for (image, number) in self.images.iter().zip(0..) {
            let mut record = image.record.placed(images, 0, 0);
            record.status = statuses + 4 * number;
            if let Some(place) = image.finds {
                record.segments = found + FOUND_BYTES * u64::from(place);
            }
            record.write(&mut bytes);
        }
        bytes.resize((groups - at) as usize, 0);
        let unknown = self.finding.iter().map(|image| [*image, 0, 0]);
        for [jpeg, first, count] in unknown.chain(self.groups.iter().copied()) {
            [jpeg, first, count, 0].iter().for_each(|n| bytes.extend(n.to_le_bytes()));
        }
        assert!(at + bytes.len() as u64 <= statuses, "room for the records of all images");
        // Nothing is amiss yet.
        bytes.resize((found - at) as usize, 0);
        Orders { bytes, launches: self.launches(at, groups) }
    }

    /// What to launch where the images' records and the groups lie.
    fn launches(&self, records: u64, groups: u64) -> Vec<Launch> {
        let words = self.images.iter().map(|image| image.record.table_words).max().unwrap_or(0);
        // A ring of sixteen words and three numbers each.
        let of_threads = (16 + 3) * 4 * GROUP_SEGMENTS;
        let lookups = 4 * 16 + 4 * words;
        let count = self.images.len() as u64;
        let launch = |kernel, blocks, threads, shared_bytes, second| {
            let records = [records, second];
            Launch { kernel, blocks, threads, shared_bytes, records }
        };
        let finding = self.finding.len() as u32;
        let find_shared = of_threads + lookups + NOTES_BYTES;
        let bits_shared = of_threads + lookups + 64;
        let samples_shared = SAMPLES_THREADS / 8 * DCT_SHARED_BYTES;
        let [samples, pixels] = self.blocks;
        let all_groups = finding + self.groups.len() as u32;
        let find = launch(Kernel::FindEntries, finding, GROUP_SEGMENTS, find_shared, groups);
        let mut launches = Vec::from_iter((finding > 0).then_some(find));
        launches.extend([
            launch(Kernel::DecodeBits, all_groups, GROUP_SEGMENTS, bits_shared, groups),
            launch(Kernel::MakeSamples, samples, SAMPLES_THREADS, samples_shared, count),
            launch(Kernel::MakePixels, pixels, PIXELS_THREADS, 0, count),
        ]);
        launches
    }

    /// Each image and its status, 0 where nothing has been found amiss.
    fn ended<'a>(&'a self, results: &'a [u8]) -> impl Iterator<Item = (&'a Image, bool)> {
        let (statuses, _) = results.as_chunks::<4>();
        self.images.iter().zip(statuses.iter().map(|status| *status == [0; 4]))
    }

    /// Samples, and where their pixels go, in which something has been found amiss.
    pub(crate) fn amiss(&self, results: &[u8]) -> Vec<(usize, u64)> {
        let amiss = self.ended(results).filter(|(_, is_good)| !is_good);
        amiss.map(|(image, _)| (image.sample, image.record.pixels)).collect()
    }

    /// How many images have been decoded from segments that were known, and how many from segments that kernels have
    /// found.
    pub(crate) fn decoded(&self, results: &[u8]) -> [u64; 2] {
        let good = self.ended(results).filter(|(_, is_good)| *is_good);
        good.fold([0; 2], |mut ways, (image, _)| {
            ways[usize::from(image.finds.is_some())] += 1;
            ways
        })
    }

    /// Entries of images that were decoded from segments that kernels have found, which proves them.
    pub(crate) fn learnt<'a>(
        &'a self,
        results: &'a [u8],
    ) -> impl Iterator<Item = (ImageHash, Entries)> + 'a {
        let found = &results[self.statuses_bytes() as usize..];
        let good = self.ended(results).filter(|(_, is_good)| *is_good);
        good.filter_map(|(image, _)| {
            let start = FOUND_BYTES as usize * image.finds? as usize;
            let entries = entries_of_segments(&found[start..][..FOUND_BYTES as usize])?;
            Some((image.hash?, Entries::read(&entries)?.proven()))
        })
    }

    /// Bytes that a kernel must read or write for all images.
    pub(crate) fn necessary_bytes(&self, kernel: Kernel) -> u64 {
        let of_image = |image: &Image| {
            let record = &image.record;
            let (coded, blocks) = (u64::from(record.bits / 8), u64::from(record.blocks()));
            let (coefficients, samples) = (128 * blocks, 64 * blocks);
            let (width, height) = record.size;
            match kernel {
                Kernel::FindEntries => image.finds.map_or(0, |_| coded),
                Kernel::DecodeBits => coded + coefficients,
                Kernel::MakeSamples => coefficients + samples,
                Kernel::MakePixels => samples + 3 * u64::from(width) * u64::from(height),
                Kernel::ResizeTiles | Kernel::FinishViews | Kernel::SumRows => 0,
            }
        };
        self.images.iter().map(of_image).sum()
    }

    /// Segments of all images that are known before kernels run.
    pub(crate) fn segments(&self) -> u64 {
        self.groups.iter().map(|[.., count]| u64::from(*count)).sum()
    }
}

const _: () = assert!(SEGMENT_BYTES.is_multiple_of(16) && TABLE_UNIT_BYTES.is_multiple_of(16));
const _: () = assert!(FOUND_BYTES.is_multiple_of(256));
