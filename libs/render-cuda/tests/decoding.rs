//! JPEGs that kernels decode: the processor's pixels, or the processor decodes them.

#[path = "../../jpeg/tests/support/made.rs"]
mod made;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use headwater_core::op::{Flip, OpSpec};
use headwater_core::recipe::{CropSpec, ExifOrientation, ViewSpec};
use headwater_core::{Dtype, Recipe};
use headwater_render::Renderer;
use headwater_render::decode::EntryTable;
use headwater_render_cuda::{CudaRenderer, SOURCE, entries_of};
use headwater_simd::Simd;
use made::{Made, SUBSAMPLINGS, made};

use super::emulation::{EmulatedDevice, Watch};
use super::operations::{recipe, tensor};
use super::pictures::{random_png, rng};
use super::recipes::ARENA_BYTES;
use super::sinks::{render_coded, untouched};
use crate::photos;

type Kernels = CudaRenderer<EmulatedDevice>;

fn kernels(watch: Watch) -> Kernels {
    CudaRenderer::new(EmulatedDevice::start(watch, ARENA_BYTES)).unwrap().decoding(true)
}

/// A recipe whose one view has all pixels of an image of this size, as they are.
fn all_pixels((width, height): (u32, u32)) -> Recipe {
    let crop = CropSpec::CenterAfterResize { resize: width.min(height) };
    recipe(vec![tensor(Dtype::U8, (width, height), ViewSpec { crop, ops: Vec::new() })])
}

fn size(file: &[u8]) -> (u32, u32) {
    let header = turbojpeg::read_header(file).unwrap();
    (header.width as u32, header.height as u32)
}

/// Renders files with entries by the definitions and by kernels, and compares every byte; how many of them
/// kernels have decoded.
fn check(kernels: &mut Kernels, recipe: &Recipe, coded: &[(&[u8], &[u8])], what: &str) -> u64 {
    let mut plain = Renderer::with_simd(Simd::Plain).unwrap();
    let before = kernels.counts();
    let fresh = || coded.iter().map(|_| untouched(recipe)).collect();
    let (expected, expected_ends) = render_coded(&mut plain, recipe, coded, fresh());
    let (found, ends) = render_coded(kernels, recipe, coded, fresh());
    assert_eq!(ends, expected_ends, "{what}");
    for (number, (expected, found)) in expected.iter().zip(&found).enumerate() {
        let differ = expected.bytes().zip(found.bytes()).filter(|(a, b)| a != b).count();
        assert_eq!(differ, 0, "bytes of image {number}, {what}");
    }
    assert!(!kernels.has_failed());
    kernels.counts().decoded - before.decoded
}

/// In the first pass kernels find where decoding can begin, or read a small image as one segment; what they leave, the
/// processor decodes, which then knows its entries.
#[test]
fn each_sampling_and_size_gives_the_processors_pixels_in_the_first_pass() {
    let table = EntryTable::new(1 << 20);
    let mut kernels = kernels(Watch::Memory).sharing(table.as_ref());
    let sizes = [(1, 1), (2, 9), (5, 3), (17, 33), (64, 16), (71, 50), (203, 150)];
    let small = sizes.len() as u64 - 1;
    for (number, subsampling) in SUBSAMPLINGS.into_iter().enumerate() {
        let before = kernels.counts();
        for (width, height) in sizes {
            let quality = [95, 40][number % 2];
            let Made { name, file } = made((width, height), subsampling, quality, width % 2 == 0);
            let recipe = all_pixels((width as u32, height as u32));
            let [_, later] = [0, 1].map(|_| check(&mut kernels, &recipe, &[(&file, &[])], &name));
            assert_eq!(later, 1, "{name}");
        }
        let counts = kernels.counts();
        let (decoded, found) = (counts.decoded - before.decoded, counts.found - before.found);
        assert!(found > 0, "{subsampling:?}: none has been found");
        assert!(decoded > 2 * small, "{subsampling:?}: {decoded} of two passes");
    }
}

#[test]
fn photographs_of_a_part_are_decoded_together_from_their_entries() {
    let photos: Vec<Vec<u8>> = photos::all().into_iter().step_by(64).collect();
    let entries: Vec<Vec<u8>> = photos.iter().map(|photo| entries_of(photo)).collect();
    let coded: Vec<(&[u8], &[u8])> =
        photos.iter().zip(&entries).map(|(photo, entries)| (&photo[..], &entries[..])).collect();
    let with_entries = entries.iter().filter(|entries| !entries.is_empty()).count() as u64;
    assert!(with_entries >= 3, "{with_entries} of {} photographs", photos.len());
    let mut kernels = kernels(Watch::Nothing);
    let recipe = Recipe::preset("imagenet-eval", Dtype::U8).unwrap();
    assert_eq!(check(&mut kernels, &recipe, &coded, "photographs"), with_entries);
    // A GPU with little memory decodes them in pieces.
    let device = EmulatedDevice::start(Watch::Nothing, 3 << 20);
    let mut kernels = CudaRenderer::new(device).unwrap().decoding(true);
    assert!(check(&mut kernels, &recipe, &coded, "in pieces") > 0);
    let mut kernels = kernels.decoding(false);
    assert_eq!(check(&mut kernels, &recipe, &coded[..3], "not asked to"), 0);
}

/// Nothing is known of them: kernels find where decoding can begin, and what has been found serves the next pass.
#[test]
fn photographs_never_seen_are_decoded_in_the_first_pass() {
    let mut files: Vec<Vec<u8>> = photos::all().into_iter().skip(1).step_by(64).collect();
    files.extend(SUBSAMPLINGS.map(|subsampling| made((320, 240), subsampling, 85, true).file));
    let coded: Vec<(&[u8], &[u8])> = files.iter().map(|file| (&file[..], &[][..])).collect();
    let table = EntryTable::new(1 << 20);
    let mut kernels = kernels(Watch::Nothing).sharing(table.as_ref());
    let recipe = Recipe::preset("imagenet-eval", Dtype::U8).unwrap();
    let decoded = check(&mut kernels, &recipe, &coded, "never seen");
    let all = coded.len() as u64;
    assert_eq!((decoded, kernels.counts().found), (all, all));
    assert_eq!(table.unwrap().images(), coded.len());
    assert_eq!(check(&mut kernels, &recipe, &coded, "seen"), all);
    assert_eq!(kernels.counts().found, all, "nothing is looked for twice");
}

/// Made by `libs/jpeg/fuzz/begin.py`: markers after each 1 to 9 MCUs, and after each row.
#[test]
fn restart_markers_are_entry_points() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../jpeg/fuzz/corpus/pixels");
    let mut kernels = kernels(Watch::Memory);
    for sampling in ["420", "422", "444"] {
        for interval in ["1", "2", "7", "rows"] {
            let name = format!("restarts_{sampling}_{interval}");
            let file = &std::fs::read(folder.join(&name)).unwrap()[5..];
            let decoded = check(&mut kernels, &all_pixels(size(file)), &[(file, &[])], &name);
            assert_eq!(decoded, 1, "{name}");
        }
    }
}

/// Kernels have only the stored image.
#[test]
fn an_image_that_is_turned_is_decoded_by_the_processor() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../render/tests/fixtures/turned");
    let mut kernels = kernels(Watch::Memory);
    let crop = CropSpec::CenterAfterResize { resize: 29 };
    let view = ViewSpec { crop, ops: Vec::new() };
    let ignoring = recipe(vec![tensor(Dtype::U8, (29, 29), view)]);
    let applying = Recipe { exif_orientation: ExifOrientation::Apply, ..ignoring.clone() };
    for number in 1..=8 {
        let file = std::fs::read(folder.join(format!("{number}.jpg"))).unwrap();
        let what = format!("orientation {number}");
        assert_eq!(check(&mut kernels, &ignoring, &[(&file, &[])], &what), 1, "{what}");
        let is_as_stored = u64::from(number == 1);
        assert_eq!(check(&mut kernels, &applying, &[(&file, &[])], &what), is_as_stored, "{what}");
    }
}

/// A photograph of some hundred pixels a side, with its entries.
fn photo() -> (Vec<u8>, Vec<u8>) {
    let Made { file, .. } = made((150, 121), SUBSAMPLINGS[3], 90, true);
    let entries = entries_of(&file);
    assert!(entries.len() >= 4 * 14, "{} bytes of entries", entries.len());
    (file, entries)
}

#[test]
fn entries_that_are_wrong_cost_time_and_no_byte() {
    let (file, right) = photo();
    let recipe = all_pixels(size(&file));
    let mut kernels = kernels(Watch::Memory);
    // Of the second entry: its bit, its MCU, a predictor.
    for place in [14, 18, 22] {
        let mut wrong = right.clone();
        wrong[place] ^= 1;
        let coded: [(&[u8], &[u8]); 3] = [(&file, &right), (&file, &wrong), (&file, &right)];
        assert_eq!(check(&mut kernels, &recipe, &coded, &format!("byte {place}")), 2);
    }
    let (cut, not_whole) = (&right[..right.len() - 14], &right[..5]);
    assert_eq!(check(&mut kernels, &recipe, &[(&file, cut)], "one less"), 1);
    assert_eq!(kernels.counts().found, 0);
    assert_eq!(check(&mut kernels, &recipe, &[(&file, not_whole)], "no whole entry"), 1);
    assert_eq!(kernels.counts().found, 1, "as if there were none");
}

/// Of an image and one that is damaged only the views of the damaged one are made twice: of the image, of a base, of rows.
#[test]
fn only_what_is_amiss_is_made_again() {
    let (file, entries) = photo();
    let mut damaged = file.clone();
    let scan = after(&file, 0xda) + 10;
    // Bits of ones begin no code.
    damaged[scan + 400..scan + 403].copy_from_slice(&[0xff, 0x00, 0xfe]);
    let mut wrong = entries.clone();
    wrong[14] ^= 1;
    let base = Recipe::preset("dinov2", Dtype::U8).unwrap();
    let flipped = OpSpec::Flip(Flip { p: 1.0 });
    for recipe in [Recipe { image_ops: vec![flipped], ..base.clone() }, base] {
        let views = recipe.tensors.iter().map(|tensor| tensor.views.len() as u32).sum::<u32>();
        let each = views + recipe.image_ops.len() as u32 + recipe.bases.len() as u32;
        let device = EmulatedDevice::start(Watch::Nothing, ARENA_BYTES);
        let made = Arc::clone(&device.views);
        let mut kernels = CudaRenderer::new(device).unwrap().decoding(true);
        let right: (&[u8], &[u8]) = (&file, &entries);
        let coded = [right, (&file, &wrong), right, (&damaged, &entries), right];
        assert_eq!(check(&mut kernels, &recipe, &coded, "amiss"), 3);
        assert_eq!(made.load(Ordering::Relaxed), (5 + 2) * each);
    }
}

/// Damage where nothing is known of the image: what kernels take for its segments is proven, or the processor decodes.
#[test]
fn what_is_found_in_damaged_bits_is_proven_or_left() {
    let (file, _) = photo();
    let recipe = all_pixels(size(&file));
    let mut kernels = kernels(Watch::Memory);
    let scan = after(&file, 0xda) + 10;
    let mut rng = rng(16);
    let mut decoded = 0;
    for number in 0..40 {
        let mut damaged = file.clone();
        for _ in 0..=number % 3 {
            let at = scan + rng.below((file.len() - scan - 2) as u64) as usize;
            damaged[at] ^= 1 << rng.below(8);
        }
        let coded: [(&[u8], &[u8]); 2] = [(&damaged, &[]), (&file, &[])];
        decoded += check(&mut kernels, &recipe, &coded, &format!("damage {number}"));
    }
    assert!((40..80).contains(&decoded), "{decoded} of 80");
    assert_eq!(kernels.counts().found, decoded);
    for len in [file.len() - 2, file.len() / 2] {
        assert_eq!(check(&mut kernels, &recipe, &[(&file[..len], &[])], "cut off"), 0);
        let ended = [&file[..len], &[0xff, 0xd9]].concat();
        let whole = u64::from(len == file.len() - 2);
        assert_eq!(check(&mut kernels, &recipe, &[(&ended, &[])], "cut and ended"), whole);
    }
}

/// Nine ones begin no code of these tables, and what follows them looks like a block.
#[test]
fn bits_that_are_no_code_are_taken_for_none() {
    let dc = [
        [0, 1, 5, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0].as_slice(),
        &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11],
    ];
    let ac =
        [[1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0].as_slice(), &[1, 2, 3, 4, 5, 6, 7, 0]];
    let segment = |marker: u8, body: &[u8]| {
        let len = (body.len() as u16 + 2).to_be_bytes();
        [&[0xff, marker][..], &len, body].concat()
    };
    let file = |scan: &[u8]| {
        [
            vec![0xff, 0xd8],
            segment(0xdb, &[[0].as_slice(), &[1; 64]].concat()),
            segment(0xc0, &[8, 0, 8, 0, 8, 1, 1, 0x11, 0]),
            segment(0xc4, &[[0x00].as_slice(), dc[0], dc[1]].concat()),
            segment(0xc4, &[[0x10].as_slice(), ac[0], ac[1]].concat()),
            segment(0xda, &[1, 1, 0, 0, 63, 0]),
            scan.to_vec(),
            vec![0xff, 0xd9],
        ]
        .concat()
    };
    let mut kernels = kernels(Watch::Memory);
    let recipe = all_pixels((8, 8));
    // No difference, and the end of the block: what the damaged bits were taken for.
    let whole = file(&[0b0011_1111, 0b1011_1111]);
    assert_eq!(check(&mut kernels, &recipe, &[(&whole, &[])], "whole"), 1);
    let damaged = file(&[0xff, 0x00, 0b1011_1111]);
    assert_eq!(check(&mut kernels, &recipe, &[(&damaged, &[])], "damaged"), 0);
}

/// One thread has a segment, and a block of a flat image takes few bits.
#[test]
fn a_segment_of_too_many_blocks_is_left_to_the_processor() {
    let (width, height) = (1600, 1600);
    let pixels = vec![99; 3 * width * height];
    let format = turbojpeg::PixelFormat::RGB;
    let image = turbojpeg::Image { pixels: &pixels[..], width, pitch: 3 * width, height, format };
    let file = turbojpeg::compress(image, 90, turbojpeg::Subsamp::Sub2x2).unwrap();
    let entries = entries_of(&file);
    let mut kernels = kernels(Watch::Nothing);
    let recipe = Recipe::preset("imagenet-eval", Dtype::U8).unwrap();
    assert_eq!(check(&mut kernels, &recipe, &[(&file, &entries)], "all entries"), 1);
    assert_eq!(check(&mut kernels, &recipe, &[(&file, &entries[..14])], "one entry"), 0);
    assert_eq!(check(&mut kernels, &recipe, &[(&file, &[])], "what kernels find"), 1);
}

/// Blocks that are all full have no end by which a guess could find a place in them.
#[test]
fn an_image_that_does_not_fall_into_step_is_left_to_the_processor() {
    let mut kernels = kernels(Watch::Nothing);
    let recipe = Recipe::preset("imagenet-eval", Dtype::U8).unwrap();
    let mut left = 0;
    for subsampling in SUBSAMPLINGS {
        let Made { name, file } = made((240, 180), subsampling, 100, false);
        let entries = entries_of(&file);
        assert_eq!(check(&mut kernels, &recipe, &[(&file, &entries)], &name), 1, "{name}");
        left += 1 - check(&mut kernels, &recipe, &[(&file, &[])], &name);
    }
    assert!(left > 0, "all have been found");
}

#[test]
fn kernels_and_host_agree_on_what_a_thread_takes_on() {
    let text = SOURCE.text();
    for line in ["#define SEGMENT_BITS_MAX (1u << 18)", "#define SEGMENT_BLOCKS_MAX (1u << 14)"] {
        assert!(text.contains(line), "{line}");
    }
}

/// The start of what a marker announces.
fn after(file: &[u8], marker: u8) -> usize {
    file.windows(2).position(|two| two == [0xff, marker]).expect("a marker") + 4
}

#[test]
fn damage_is_judged_by_the_processor() {
    let (file, entries) = photo();
    let recipe = all_pixels(size(&file));
    let mut kernels = kernels(Watch::Memory);
    let scan = after(&file, 0xda) + 10;
    let mut rng = rng(6);
    let mut decoded = 0;
    for number in 0..40 {
        let mut damaged = file.clone();
        let at = scan + rng.below((file.len() - scan - 2) as u64) as usize;
        damaged[at] ^= 1 << rng.below(8);
        let coded: [(&[u8], &[u8]); 2] = [(&damaged, &entries), (&file, &entries)];
        decoded += check(&mut kernels, &recipe, &coded, &format!("damage {number}"));
    }
    // What changes a bit of a value's magnitude, and nothing else, is no damage.
    assert!((40..80).contains(&decoded), "{decoded} of 80");
    for len in [file.len() - 2, file.len() / 2] {
        let decoded = check(&mut kernels, &recipe, &[(&file[..len], &entries)], "cut off");
        assert_eq!(decoded, 0, "{len} bytes");
    }
}

#[test]
fn coefficients_out_of_range_are_left_to_the_processor() {
    let Made { file, .. } = made((150, 121), SUBSAMPLINGS[0], 98, false);
    let entries = entries_of(&file);
    let mut hostile = file.clone();
    let steps = after(&file, 0xdb) + 1;
    hostile[steps..steps + 64].fill(255);
    let mut kernels = kernels(Watch::Memory);
    let coded: [(&[u8], &[u8]); 2] = [(&hostile, &entries), (&file, &entries)];
    assert_eq!(check(&mut kernels, &all_pixels(size(&file)), &coded, "hostile"), 1);
}

#[test]
fn no_two_threads_touch_the_same_memory_without_a_barrier_in_between() {
    let (file, entries) = photo();
    let png = random_png(&mut rng(8), 150, 121);
    let mut kernels = kernels(Watch::Races);
    let coded: [(&[u8], &[u8]); 3] = [(&file, &entries), (&png, &[]), (&file, &[])];
    assert_eq!(check(&mut kernels, &all_pixels((150, 121)), &coded, "races"), 2);
    assert_eq!(kernels.counts().found, 1);
}
