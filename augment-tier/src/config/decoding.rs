//! How large images may be, and what is kept of decoded ones.

use std::time::Duration;

use headwater_cache::CacheLevel;
use headwater_config_derive::Section;
use headwater_core::recipe::DecodeLimits;

/// How large images may be, and what is kept of decoded ones.
#[derive(Clone, Debug, PartialEq, Eq, Section)]
pub struct DecodingConfig {
    /// Memory for the entry points of JPEGs that were decoded here, in bytes, about 640 per image;
    /// the next decode of the same image takes less than half the time. 0: none are kept.
    // Entry points of 400,000 images.
    #[key(unit = "bytes", default = 256 << 20)]
    pub jpeg_entries_bytes: u64,
    /// Folders for decoded images, which all workers of this user on the host share: `dir`, a
    /// folder of a local file system, and `bytes`, its limit. Images in it are not decoded again.
    /// One folder, or two: images evicted from the first, in memory, go to the second, on a drive.
    /// Empty: none are kept.
    pub decoded_cache: Vec<CacheLevel>,
    /// A decoded image that was used within this time is not evicted. If a dataset does not fit,
    /// set it longer than an epoch.
    #[key(unit = "milliseconds", default = 3_600_000)]
    pub decoded_cache_keep_ms: u64,
    /// Maximum pixels of an image, width times height, for which this worker's threads have memory.
    /// A receiver whose `recipe.decode_pixels_max` is larger is refused.
    #[key(unit = "pixels", default = DecodeLimits::PIXELS_MAX_DEFAULT)]
    pub image_pixels_max: u64,
}

// === impl DecodingConfig ===

impl DecodingConfig {
    pub(crate) fn keep(&self) -> Duration {
        Duration::from_millis(self.decoded_cache_keep_ms)
    }
}
