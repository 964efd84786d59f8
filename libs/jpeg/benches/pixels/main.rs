//! Time of each stage from coefficients to colours, by each set of instructions and by libjpeg-turbo's
//! own functions. Stages take turns and the shortest of many times counts, so that a busy machine disturbs little.
#![deny(unsafe_code)]
#![allow(
    dead_code,
    unused_imports,
    reason = "the stages are included as source: the crate has them to itself"
)]

#[allow(unreachable_pub)]
#[path = "../../src/pixels/mod.rs"]
mod pixels;
#[cfg(target_arch = "x86_64")]
mod x86;

use std::hint::black_box;
use std::time::Instant;

use headwater_simd::Simd;
use pixels::{Component, Components, Idct, Output, Pick, Upsampler, Window, colour, upsample};

const TURNS: usize = 300;
/// Calls between two looks at the clock.
const CALLS: usize = 20;
const WIDTH: usize = 1024;
const BLOCKS: usize = 24;

/// A stage by one set of instructions: how many units a call does, and the call.
struct Stage<'a> {
    stage: &'static str,
    by: String,
    units: f64,
    call: Box<dyn FnMut() + 'a>,
    best_ns: f64,
}

fn main() {
    let mut stages = Vec::new();
    for simd in Simd::available() {
        add(&mut stages, *simd);
    }
    #[cfg(target_arch = "x86_64")]
    x86::add(&mut stages);
    for _ in 0..TURNS {
        for stage in &mut stages {
            let begin = Instant::now();
            for _ in 0..CALLS {
                (stage.call)();
            }
            let ns = begin.elapsed().as_nanos() as f64 / (CALLS as f64 * stage.units);
            stage.best_ns = stage.best_ns.min(ns);
        }
    }
    stages.sort_by_key(|stage| stage.stage);
    for stage in &stages {
        println!("{:32} {:16} {:8.2} ns", stage.stage, stage.by, stage.best_ns);
    }
}

fn stage<'a>(stage: &'static str, by: &str, units: f64, call: impl FnMut() + 'a) -> Stage<'a> {
    Stage { stage, by: by.to_owned(), units, call: Box::new(call), best_ns: f64::INFINITY }
}

/// Bytes that look random.
fn noise(len: usize) -> Vec<u8> {
    let mut state = 1_u32;
    let next = |_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    (0..len).map(next).collect()
}

/// Blocks as of photographs of high quality: half of the coefficients are not zero.
fn blocks() -> Vec<[i16; 64]> {
    let noise = noise(BLOCKS * 64);
    let (blocks, _) = noise.as_chunks::<64>();
    let small = |byte: u8| if byte.is_multiple_of(2) { 0 } else { i16::from(byte % 9) - 4 };
    blocks.iter().map(|block| block.map(small)).collect()
}

fn add(stages: &mut Vec<Stage<'static>>, simd: Simd) {
    let by = simd.name();
    let idct = Idct::new(simd, &[3; 64]);
    let mut work = blocks();
    let mut plane = vec![0; BLOCKS * 64];
    let side_by_side: Vec<Pick> = (0..BLOCKS).map(|n| Pick { block: n, place: n * 8 }).collect();
    let scattered: Vec<Pick> = (0..BLOCKS).map(|n| Pick { block: n, place: (n * 8) ^ 8 }).collect();
    let mut plane_too = plane.clone();
    let (mut work_too, idct_too) = (work.clone(), idct.clone());
    // From the second call on all blocks are zero, which takes no less time.
    stages.push(stage("idct, a block", by, BLOCKS as f64, move || {
        assert!(idct.blocks(&mut work, &side_by_side, &mut plane, BLOCKS * 8));
    }));
    stages.push(stage("idct scattered, a block", by, BLOCKS as f64, move || {
        assert!(idct_too.blocks(&mut work_too, &scattered, &mut plane_too, BLOCKS * 8));
    }));
    let rows = [noise(WIDTH), noise(WIDTH + 1), noise(WIDTH + 2)];
    let rows = rows.map(|row| -> &'static [u8] { &row.leak()[..WIDTH] });
    let [near, far, _] = rows;
    let mut out = [(); 6].map(|()| vec![0; 3 * WIDTH]);
    let units = WIDTH as f64 / 64.0;
    let [a, b, c, d, e, planes] = &mut out;
    let take = std::mem::take::<Vec<u8>>;
    let (mut a, mut b, mut c, mut d, mut e, mut planes) =
        (take(a), take(b), take(c), take(d), take(e), take(planes));
    stages.push(stage("h2v1, 64 of output", by, 2.0 * units, move || {
        upsample::h2v1(simd, black_box(near), &mut a[..2 * WIDTH]);
    }));
    stages.push(stage("h2v2, 64 of output", by, 2.0 * units, move || {
        upsample::h2v2(simd, black_box(near), far, &mut b[..2 * WIDTH]);
    }));
    stages.push(stage("h1v2, 64 of output", by, units, move || {
        upsample::h1v2(simd, black_box(near), far, true, &mut c[..WIDTH]);
    }));
    stages.push(stage("twice, 64 of output", by, 2.0 * units, move || {
        upsample::replicate(simd, black_box(near), 2, &mut d[..2 * WIDTH]);
    }));
    stages.push(stage("colour, 64 pixels", by, units, move || {
        colour::ycc_to_rgb(simd, black_box(rows), &mut e);
    }));
    stages.push(stage("colour to planes, 64 pixels", by, units, move || {
        let (red, rest) = planes.split_at_mut(WIDTH);
        let (green, blue) = rest.split_at_mut(WIDTH);
        colour::ycc_to_planes(simd, black_box(rows), [red, green, blue]);
    }));
    image(stages, simd, "image 4:2:0 to RGB, 64 pixels", 2, false);
    image(stages, simd, "image 4:2:0 to planes, 64 pixels", 2, true);
    image(stages, simd, "image 4:4:4 to RGB, 64 pixels", 1, false);
}

/// 500 x 375 pixels, upsampled and converted.
fn image(
    stages: &mut Vec<Stage<'static>>,
    simd: Simd,
    name: &'static str,
    times: usize,
    planes: bool,
) {
    let (width, height, stride) = (500, 375, 512);
    let plane: &'static [u8] = noise(stride * 384).leak();
    let luma = Component { plane, stride, width, height, h: times, v: times };
    let (width, height) = (width.div_ceil(times), height.div_ceil(times));
    let chroma = Component { width, height, h: 1, v: 1, ..luma };
    let window = Window { left: 0, top: 0, width: 500, height: 375 };
    let mut upsampler = Upsampler::new(simd);
    let mut pixels = vec![0; 3 * 512 * 375];
    stages.push(stage(name, simd.name(), 500.0 * 375.0 / 64.0, move || {
        let output = if planes {
            let (red, rest) = pixels.split_at_mut(512 * 375);
            let (green, blue) = rest.split_at_mut(512 * 375);
            Output::Planes { red, green, blue, stride: 512 }
        } else {
            Output::Rgb { pixels: &mut pixels, stride: 1500 }
        };
        upsampler.convert(Components::Ycc([luma, chroma, chroma]), window, output);
    }));
}
