//! A GPU that does anything otherwise than the definitions is not taken, and says what it was.

use headwater_render_cuda::{CudaRenderer, ProofError, SOURCE};

use super::emulation::{EmulatedDevice, Watch};

const ARENA_BYTES: u64 = 16 << 20;

/// Kernels that are wrong in one place: the step that shows it first, an expression that the source has
/// once, and what stands there instead.
const MUTANTS: [(&str, &str, &str); 18] = [
    ("crop and resize", "axis.weights[span.weight + tap]", "axis.weights[span.weight]"),
    ("flip", "view.flags & MIRRORED ? view.width - 1 - x : x", "x"),
    ("two flips", "i - x + width - 1 - x", "i"),
    ("vertical_flip", "plane - width - (i - x) + x", "i"),
    ("brightness", "blend(0, pixel.blue, factor)", "pixel.blue"),
    (
        "contrast",
        "__dadd_rn(__ddiv_rn((f64)sum, (f64)count), 0.5)",
        "__ddiv_rn((f64)sum, (f64)count)",
    ),
    ("saturation", "blend(gray, pixel.red, factor)", "pixel.red"),
    (
        "hue",
        "(hue_of(pixel, max, range, away) + shift) % 256",
        "(hue_of(pixel, max, range, away) + shift + 1) % 256",
    ),
    ("grayscale", "Pixel{gray, gray, gray}", "Pixel{gray, gray, pixel.blue}"),
    (
        "gaussian_blur",
        "(u8)(u32)(level < 255.0f ? level : 255.0f)",
        "(u8)(u32)(level < 254.0f ? level + 1.0f : level)",
    ),
    ("solarize", "(u8)(255 - level)", "(u8)(254 - level)"),
    ("cast to bf16", "(u16)bits", "(u16)(bits + 1)"),
    ("cast to f32", "((u32*)out)[at] = bits", "(((u32*)out)[at] = bits + 1)"),
    ("cast to fp8_e4m3", "range.greatest = level", "(range.greatest = level / 2)"),
    ("cast to mxfp8_e4m3", "(u8)(largest >> 16)", "(u8)0"),
    ("vertical pass first", "vertical ? row * tile.source_len : column", "vertical ? 0 : column"),
    ("operations on the image", "view.source_channel", "1"),
    ("window of a base", "view.cut_left + i - y * view.out_width", "i - y * view.out_width"),
];

fn proof(device: EmulatedDevice) -> Result<usize, ProofError> {
    CudaRenderer::new(device).unwrap().prove()
}

#[test]
fn kernels_as_they_are_pass_the_proof() {
    let steps = proof(EmulatedDevice::start(Watch::Memory, ARENA_BYTES)).unwrap();
    assert!(steps >= MUTANTS.len(), "{steps} steps");
}

#[test]
fn each_mutation_of_a_kernel_is_caught_and_named() {
    for (_, expression, _) in MUTANTS {
        let found = SOURCE.text().matches(expression).count();
        assert_eq!(found, 1, "`{expression}` in the source");
    }
    let replaced = MUTANTS.map(|(_, expression, mutation)| (expression, mutation));
    for (number, (named, ..)) in MUTANTS.iter().enumerate() {
        match proof(EmulatedDevice::mutant(&replaced, number, ARENA_BYTES)) {
            Err(ProofError::Differs { step, differ, .. }) => {
                assert!(step == *named && differ > 0, "{step}, not {named}");
            }
            other => panic!("{named}: {other:?}"),
        }
    }
}

#[test]
fn kernels_that_decode_pass_the_proof_and_those_that_find_nothing_do_not() {
    let decoding = |device| CudaRenderer::new(device).unwrap().decoding(true).prove();
    let without = proof(EmulatedDevice::start(Watch::Nothing, ARENA_BYTES)).unwrap();
    let with = decoding(EmulatedDevice::start(Watch::Nothing, ARENA_BYTES)).unwrap();
    assert_eq!(with, without + 1);
    // The places in a block, the begin of a part, the sums between marks, the block of an MCU.
    let mutations = [
        ("walk.place + symbol.run + 1", "walk.place + 1"),
        ("(u64)finder.bits * lane / finder.lanes", "(u64)finder.bits * lane / 64"),
        ("meeting.here.sums[n] - from.sums[n]", "meeting.here.sums[n]"),
        ("finder.lookups.blocks[walk.number]", "finder.lookups.blocks[0]"),
    ];
    for (number, (expression, _)) in mutations.iter().enumerate() {
        assert_eq!(SOURCE.text().matches(expression).count(), 1, "`{expression}` in the source");
        let error = decoding(EmulatedDevice::mutant(&mutations, number, ARENA_BYTES)).unwrap_err();
        let said = error.to_string();
        assert!(said.contains("it finds fault with good JPEGs"), "{expression}: {said}");
    }
}

#[test]
fn wrong_checksums_are_caught() {
    // Bytes that are read again, the rest of a row, the number of stripes, the order of blocks.
    let mutations = [
        ("word_at(bytes + row.bytes - 64 + 8 * lane)", "word_at(bytes + 8 * lane)"),
        ("8 * (u32)((u64)at & 7)", "0"),
        ("row.bytes - 1 - SUM_BLOCK_BYTES * blocks", "row.bytes - SUM_BLOCK_BYTES * blocks"),
        ("first - groups + number < blocks", "first - groups + number + 1 < blocks"),
    ];
    for (number, (expression, _)) in mutations.iter().enumerate() {
        assert_eq!(SOURCE.text().matches(expression).count(), 1, "`{expression}` in the source");
        match proof(EmulatedDevice::mutant(&mutations, number, ARENA_BYTES)) {
            Err(ProofError::Sums { differ, .. }) => assert!(differ > 0),
            other => panic!("{expression}: {other:?}"),
        }
    }
}

#[test]
fn a_gpu_without_room_for_the_proof_is_not_taken() {
    let error = proof(EmulatedDevice::start(Watch::Nothing, 20 << 10)).unwrap_err().to_string();
    assert!(error.contains("it has left images to the processor"), "{error}");
}
