//! An image of any shape is rendered within the memory that `docs/memory.md` says, which the system holds this
//! process to.
#![cfg(target_os = "linux")]

#[path = "support/memory.rs"]
mod memory;

use headwater_render::Renderer;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use self::memory::{Target, status};

const PIXELS_MAX: u64 = 1 << 18;

/// A thread's row, by `docs/memory.md`.
const BOUND: u64 = 15 * PIXELS_MAX + (20 << 20);

/// What a thread keeps of images so small: their pixels, twice, and the rest of its row.
const KEPT: u64 = 7 * PIXELS_MAX + (20 << 20);

/// PNG of one colour, from black to white.
fn png(width: u32, height: u32) -> Vec<u8> {
    let pixels: Vec<u8> =
        (0..3 * width * height).map(|n| (n * 255 / (3 * width * height)) as u8).collect();
    let mut file = Vec::new();
    let mut encoder = png::Encoder::new(&mut file, width, height);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_compression(png::Compression::Fast);
    encoder.write_header().expect("a file").write_image_data(&pixels).expect("pixels");
    file
}

/// Renders an image by a preset.
fn render(renderer: &mut Renderer, preset: &str, encoded: &[u8]) {
    Target::new(preset, PIXELS_MAX).render(renderer, 7, encoded);
}

#[test]
fn an_image_of_any_shape_stays_within_the_documented_bound() {
    // The whole image, its middle, and a part: with either pass first.
    let presets = ["siglip", "imagenet-eval", "clip-eval", "imagenet-train", "dinov2"];
    let side = 1 << 9;
    let n = PIXELS_MAX as u32;
    let shapes = [(1, n), (n, 1), (side, side), (8, n / 8), (n / 8, 8), (3, n / 3), (n / 3, 3)];
    let images = shapes.map(|(width, height)| png(width, height));
    let small = png(90, 70);
    let mut renderer = Renderer::new().expect("a renderer");
    for preset in presets {
        render(&mut renderer, preset, &small);
    }
    std::fs::write("/proc/self/clear_refs", "5").expect("the peak can be reset");
    let before = status("VmRSS:");
    let Rlimit { maximum, .. } = getrlimit(Resource::As);
    // A failed allocation ends the process, and the last line says at what.
    let limit = Rlimit { current: Some(status("VmSize:") + BOUND), maximum };
    setrlimit(Resource::As, limit).expect("a lower limit");
    for ((width, height), image) in shapes.iter().zip(&images) {
        for preset in presets {
            eprintln!("{width} x {height} by {preset}");
            render(&mut renderer, preset, image);
        }
    }
    // glibc had reserved addresses for the thread before the limit: they hold no more than the bound either.
    let peak = status("VmHWM:");
    assert!(peak <= before + BOUND, "{peak} bytes, not {before} + {BOUND}");
    render(&mut renderer, "siglip", &small);
    let kept = status("VmRSS:");
    assert!(kept <= before + KEPT, "{kept} bytes are kept, not {before} + {KEPT}");
}
