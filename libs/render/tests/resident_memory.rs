//! The memory of a rendering process stays within what `docs/memory.md` says, JPEG library
//! included, however many large images go through it.
#![cfg(target_os = "linux")]

#[path = "support/memory.rs"]
mod memory;
#[path = "support/photos.rs"]
mod photos;

use std::sync::Barrier;

use headwater_core::draw::Extent;
use headwater_pixels::image::RgbImage;
use headwater_render::Renderer;
use headwater_render::decode::{DecodeLimits, Decoder};
use turbojpeg::{Compressor, Image, PixelFormat, Subsamp};

use self::memory::{Target, status};

const THREADS: u64 = 2;
const ROUNDS: usize = 3;
const LARGE: Extent = Extent { width: 3072, height: 2048 };
const PIXELS_MAX: u64 = LARGE.width as u64 * LARGE.height as u64;

/// For a pixel of the largest image, by `docs/memory.md`: RGB, the file's own four colours, and
/// four coefficients of two bytes that the library keeps while a progressive image has scans.
const PIXEL_BYTES: u64 = 3 + 4 + 4 * 2;
/// The rest of a thread, by `docs/memory.md`.
const THREAD_BYTES: u64 = 20 << 20;
/// What a thread keeps of its two pixel buffers after a large image, by `docs/memory.md`.
const RETAINED_BYTES: u64 = 2 * (32 << 20);

/// The rest of a process, by `docs/memory.md`.
const REST_BYTES: u64 = 32 << 20;

/// A photograph laid side by side with itself until it is large, and written by `compressor`.
fn large(photo: &RgbImage, format: PixelFormat, compressor: &mut Compressor) -> Vec<u8> {
    let (from, depth) = (photo.extent(), format.size());
    let small = photo.pixels();
    let mut pixels = vec![0; PIXELS_MAX as usize * depth];
    for (number, pixel) in pixels.chunks_exact_mut(depth).enumerate() {
        let (x, y) = (number as u32 % LARGE.width, number as u32 / LARGE.width);
        let at = (y % from.height * from.width + x % from.width) as usize * 3;
        pixel[..3].copy_from_slice(&small[at..at + 3]);
    }
    let (width, height) = (LARGE.width as usize, LARGE.height as usize);
    let image = Image { pixels: &pixels[..], width, pitch: width * depth, height, format };
    compressor.compress_to_vec(image).expect("a JPEG")
}

/// Large images that differ in what they cost, and a small one.
fn encoded() -> [Vec<u8>; 4] {
    let small = photos::all().swap_remove(0);
    let mut decoder = Decoder::new(DecodeLimits::default()).expect("a decoder");
    let photo = decoder.decode(&small).expect("a photograph");
    let mut compressor = Compressor::new().expect("a compressor");
    compressor.set_subsamp(Subsamp::Sub2x2).expect("4:2:0");
    let usual = large(photo, PixelFormat::RGB, &mut compressor);
    compressor.set_subsamp(Subsamp::None).expect("4:4:4");
    compressor.set_progressive(true).expect("progressive");
    let colour = large(photo, PixelFormat::RGB, &mut compressor);
    let inks = large(photo, PixelFormat::CMYK, &mut compressor);
    [usual, colour, inks, small]
}

/// Renders each image on one thread and then waits twice, so that memory can be read while the
/// renderer holds what it keeps.
fn render(images: &[&[u8]], measure: &Barrier) {
    let mut target = Target::new("dinov2", PIXELS_MAX);
    let mut renderer = Renderer::new().expect("a renderer");
    for (number, encoded) in images.iter().enumerate() {
        target.render(&mut renderer, number as u64, encoded);
    }
    measure.wait();
    measure.wait();
}

/// Resident bytes while the renderers live: the most there ever were, and now.
fn resident(images: &[&[u8]]) -> (u64, u64) {
    let measure = Barrier::new(THREADS as usize + 1);
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| render(images, &measure));
        }
        measure.wait();
        let found = (status("VmHWM:"), status("VmRSS:"));
        measure.wait();
        found
    })
}

/// Frees a large block. glibc takes it as a sign to keep blocks up to that size for the next one, on
/// every heap; on a busy machine the order of the threads' own blocks does the same.
fn have_glibc_keep_freed_memory() {
    drop(std::hint::black_box(vec![1u8; 31 << 20]));
}

#[test]
fn large_images_on_all_threads_stay_within_the_documented_bound() {
    have_glibc_keep_freed_memory();
    let [usual, colour, inks, small] = encoded();
    // What the test itself took to make them is given back before the first reading.
    resident(&[&small]);
    let before = status("VmRSS:");
    let files: usize = [&usual, &colour, &inks, &small].iter().map(|file| file.len()).sum();
    assert!(before <= files as u64 + REST_BYTES, "{before} bytes are kept of what was freed");
    std::fs::write("/proc/self/clear_refs", "5").expect("the peak can be reset");

    let one_round: [&[u8]; 4] = [&usual, &colour, &inks, &small];
    let (peak, _) = resident(&one_round);
    let (later_peak, kept) = resident(&one_round.repeat(ROUNDS));
    let bound = THREADS * (PIXELS_MAX * PIXEL_BYTES + THREAD_BYTES);
    let mib = |bytes: u64| bytes >> 20;
    println!(
        "before {} MiB, peak {} MiB, after {ROUNDS} rounds {} MiB, kept {} MiB; bound {} MiB",
        mib(before),
        mib(peak),
        mib(later_peak),
        mib(kept),
        mib(bound)
    );
    assert!(later_peak <= before + bound, "{later_peak} bytes, not {before} + {bound}");
    let kept_bound = THREADS * (RETAINED_BYTES + THREAD_BYTES);
    assert!(kept <= before + kept_bound, "{kept} bytes, not {before} + {kept_bound}");
}
