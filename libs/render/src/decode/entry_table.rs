//! Entry points of the images that this worker has decoded, so that it decodes them faster the next time: in the next
//! epoch, for another trial, for a receiver that asks again.

use std::sync::Arc;

use headwater_jpeg::Entries;
use quick_cache::Weighter;
use quick_cache::sync::Cache;
use xxhash_rust::xxh3::xxh3_128;

use crate::metrics;

/// What an image costs beside its entries: its hash, the allocation, and the table's own places.
const IMAGE_BYTES: u64 = 128;
/// Bytes of an entry in memory.
const ENTRY_BYTES: u64 = 16;

/// Entries by what the image's bytes hash to, within a bound of bytes. Shared by the threads of a worker.
///
/// The bytes themselves name an image, not where they come from: what was learnt of it is right wherever it turns up
/// again, and wrong nowhere.
#[derive(Debug)]
pub struct EntryTable {
    images: Cache<ImageHash, Arc<Entries>, Bytes>,
}

/// XXH3 of an image's bytes, 128 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ImageHash(u128);

#[derive(Clone, Copy, Debug)]
struct Bytes;

impl Weighter<ImageHash, Arc<Entries>> for Bytes {
    fn weight(&self, _image: &ImageHash, entries: &Arc<Entries>) -> u64 {
        IMAGE_BYTES + entries.len() as u64 * ENTRY_BYTES
    }
}

// === impl ImageHash ===

impl ImageHash {
    /// That of these bytes.
    #[must_use]
    pub fn of(encoded: &[u8]) -> Self {
        Self(xxh3_128(encoded))
    }
}

// === impl EntryTable ===

impl EntryTable {
    /// A table of at most `bytes_max` bytes; none for 0.
    #[must_use]
    pub fn new(bytes_max: u64) -> Option<Arc<Self>> {
        let typical = IMAGE_BYTES + headwater_jpeg::ENTRIES_MAX as u64 * ENTRY_BYTES;
        let images = (bytes_max / typical) as usize;
        (images > 0)
            .then(|| Arc::new(Self { images: Cache::with_weighter(images, bytes_max, Bytes) }))
    }

    /// What is known of an image.
    #[must_use]
    pub fn get(&self, image: ImageHash) -> Option<Arc<Entries>> {
        self.images.get(&image)
    }

    /// Keeps entries, which may cost others their place.
    pub fn keep(&self, image: ImageHash, entries: Entries) {
        self.images.insert(image, Arc::new(entries));
        metrics::entry_table(self.images.len(), self.bytes());
    }

    /// Forgets what has turned out to be wrong.
    pub(super) fn forget(&self, image: ImageHash) {
        self.images.remove(&image);
    }

    /// Bytes that are kept, by the measure of the bound.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.images.weight()
    }

    /// Images whose entries are kept.
    #[must_use]
    pub fn images(&self) -> usize {
        self.images.len()
    }
}
