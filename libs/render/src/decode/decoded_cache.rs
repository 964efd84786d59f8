//! Decoded images that the workers of a host share, in memory or on a drive: an image that is there is read instead
//! of decoded.
//!
//! An entry is a whole image at its full size ([`Form`]). The image's encoded bytes name it, so that epochs, trials
//! and receivers share it whatever they call it.

use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use headwater_cache::{Cache, CacheConfig, CacheError, CacheLevel, Key, Unavailable};
use headwater_core::draw::{CropBox, Extent};
use headwater_pixels::image::RgbImage;
use xxhash_rust::xxh3::xxh3_128;

use crate::decode::jpeg::JpegDecoder;
use crate::decode::kept::{Form, Kept};
use crate::decode::{DecodeLimits, Wanted, admit};

/// Raised with every change of what an entry holds: of a decoder's pixels, or of their order in the file.
const FORMAT: u32 = 1;
/// One thread of `THREADS_PER_WRITER` may write at a time, but at least `WRITERS_MIN` threads may. More would
/// wait for the lock of the cache; they go on decoding instead.
const THREADS_PER_WRITER: usize = 4;
const WRITERS_MIN: usize = 8;
/// How long a lock of the cache may be waited for: another worker may be counting a million files.
const LOCK_TIMEOUT: Duration = Duration::from_secs(30);
/// How long nothing is written after the cache was of no use.
const PAUSE: Duration = Duration::from_secs(60);

/// Decoded images of a host. Shared by the threads of a worker, and through its folders with other workers.
#[derive(Debug)]
pub struct DecodedCache {
    cache: Cache,
    writers: AtomicUsize,
    writers_max: usize,
    paused_until: Mutex<Option<Instant>>,
}

/// Names an image and all else that its pixels follow from.
#[derive(Clone, Copy, Debug)]
pub(super) struct ImageKey(Key);

/// Leave to write, given back when dropped.
#[derive(Debug)]
pub(super) struct Writing<'a>(&'a DecodedCache);

// === impl ImageKey ===

impl ImageKey {
    /// The limit of scans decides whether a progressive JPEG is good. That of pixels is checked by size.
    pub(super) fn of(encoded: &[u8], limits: &DecodeLimits) -> Self {
        let mut named = [0; 24];
        named[..16].copy_from_slice(&xxh3_128(encoded).to_le_bytes());
        named[16..20].copy_from_slice(&FORMAT.to_le_bytes());
        named[20..].copy_from_slice(&limits.jpeg_scans_max.to_le_bytes());
        Self(Key::new(xxh3_128(&named).to_be_bytes()))
    }
}

// === impl DecodedCache ===

impl DecodedCache {
    /// Opens the cache in these folders, the fastest first; `None` where there are none. An image that was used
    /// within `keep` stays, and a new one finds no room then. `threads` decode.
    ///
    /// # Errors
    /// A value that cannot work; a folder that is not there, cannot be written to, or is somebody else's.
    pub fn open(
        levels: &[CacheLevel],
        keep: Duration,
        threads: usize,
    ) -> Result<Option<Arc<Self>>, CacheError> {
        if levels.is_empty() {
            return Ok(None);
        }
        let cache = Cache::open(&Self::config(levels, keep))?;
        let (writers, paused_until) = (AtomicUsize::new(0), Mutex::new(None));
        let writers_max = (threads / THREADS_PER_WRITER).max(WRITERS_MIN);
        Ok(Some(Arc::new(Self { cache, writers, writers_max, paused_until })))
    }

    /// What it is opened with.
    #[must_use]
    pub fn config(levels: &[CacheLevel], keep: Duration) -> CacheConfig {
        CacheConfig {
            name: "decoded",
            folder: "headwater-decoded",
            levels: levels.to_vec(),
            timeout: LOCK_TIMEOUT,
            group_read: false,
            keep,
            is_durable: false,
        }
    }

    /// Reads what `choose` wants of an image; whether it is there, at the size that is wanted.
    pub(super) fn read(
        &self,
        key: ImageKey,
        limits: &DecodeLimits,
        choose: &mut dyn FnMut(Extent) -> Wanted,
        jpeg: &mut JpegDecoder,
        image: &mut RgbImage,
    ) -> bool {
        let Some(entry) = self.cache.get(&key.0) else { return false };
        let kept = match Kept::of(entry) {
            Ok(kept) => kept,
            Err(entry) => {
                // Nobody could read it, and it would never be written anew.
                self.cache.discard(&entry);
                return false;
            }
        };
        let extent = kept.form().extent();
        if admit(limits, u64::from(extent.width), u64::from(extent.height)).is_err() {
            // The decoder has the words for that.
            return false;
        }
        let Wanted { reduction: 1, window } = choose(extent) else { return false };
        match read_window(&kept, window, jpeg, image) {
            Ok(true) => return true,
            Ok(false) => self.cache.discard(kept.entry()),
            Err(error) => self.cache.on_read_error(kept.entry(), error),
        }
        false
    }

    /// Leave to write an image, if that may succeed: who has it decodes the whole image for that.
    pub(super) fn writing(&self) -> Option<Writing<'_>> {
        let is_paused = self.paused_until().is_some_and(|until| Instant::now() < until);
        if is_paused || !self.cache.has_room() {
            return None;
        }
        let writing = Writing(self);
        let before = self.writers.fetch_add(1, Ordering::Relaxed);
        (before < self.writers_max).then_some(writing)
    }

    fn paused_until(&self) -> MutexGuard<'_, Option<Instant>> {
        // No panic can happen while the lock is held.
        self.paused_until.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Writing ===

impl Writing<'_> {
    /// Writes the whole image that was decoded last, unless it is there.
    pub(super) fn write(self, key: ImageKey, jpeg: &mut JpegDecoder, image: &RgbImage) {
        let colours = Form::Colours(image.extent());
        let written = match jpeg.samples() {
            Some((layout, planes)) if Form::of_jpeg(&layout) != colours => {
                self.offer(key, Form::Samples(layout), planes)
            }
            _ => self.offer(key, colours, image.planes().into_iter()),
        };
        if written.is_err() {
            *self.0.paused_until() = Some(Instant::now() + PAUSE);
        }
    }

    fn offer<'a>(
        &self,
        key: ImageKey,
        form: Form,
        planes: impl Iterator<Item = &'a [u8]>,
    ) -> Result<bool, Unavailable> {
        self.0.cache.offer(&key.0, form.bytes() as u64, |writer| form.put(planes, writer))
    }
}

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        self.0.writers.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Reads a window of an image; `false` where it is damaged.
fn read_window(
    kept: &Kept,
    window: CropBox,
    jpeg: &mut JpegDecoder,
    image: &mut RgbImage,
) -> io::Result<bool> {
    let mut failed = None;
    let read = |number, rows, plane: &mut [u8]| {
        let read = kept.read_rows(number, rows, plane);
        read.unwrap_or_else(|error| {
            failed = Some(error);
            false
        })
    };
    let is_read = window_by(kept, window, jpeg, image, read);
    failed.map_or(Ok(is_read), Err)
}

fn window_by(
    kept: &Kept,
    window: CropBox,
    jpeg: &mut JpegDecoder,
    image: &mut RgbImage,
    mut read: impl FnMut(usize, Range<usize>, &mut [u8]) -> bool,
) -> bool {
    match kept.form() {
        Form::Samples(layout) => jpeg.convert(&layout, window, image, read),
        Form::Colours(extent) => {
            let rows = window.top as usize..(window.top + window.height) as usize;
            let (planes, _) = image.reset(extent);
            let mut planes = planes.into_iter().enumerate();
            planes.all(|(number, plane)| read(number, rows.clone(), plane))
        }
    }
}
