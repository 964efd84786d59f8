//! Each operation on a view of 224 x 224, by every set of instructions that the machine has.
#![allow(missing_docs, reason = "criterion's macros make undocumented functions")]

use criterion::{BenchmarkGroup, BenchmarkId, Criterion, criterion_group, criterion_main};
use headwater_core::draw::{CropBox, Extent, Filter, Origin};
use headwater_core::recipe::ResizePasses;
use headwater_core::{Dtype, Recipe};
use headwater_pixels::image::{Planes, RgbImage};
use headwater_pixels::ops::cast::mx::{self, MxTable};
use headwater_pixels::ops::cast::{self, CastTable, Normalise};
use headwater_pixels::ops::resize::{Geometry, Resizer};
use headwater_pixels::ops::{
    amax, blur, brightness, contrast, flip, grayscale, hue, saturation, solarize,
};
use headwater_simd::Simd;

const SIDE: u32 = 224;
/// ImageNet's median.
const IMAGE: Extent = Extent { width: 500, height: 375 };

type Group<'a> = BenchmarkGroup<'a, criterion::measurement::WallTime>;

/// Bytes without a pattern that a processor could learn.
fn noise(len: usize) -> Vec<u8> {
    let mut state = 1u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    (0..len).map(|_| next()).collect()
}

fn view() -> Planes {
    let extent = Extent { width: SIDE, height: SIDE };
    Planes::from_values(extent, noise((3 * SIDE * SIDE) as usize))
}

fn on_a_view(group: &mut Group<'_>, simd: Simd, mut operation: impl FnMut(&mut Planes)) {
    let source = view();
    let mut view = view();
    group.bench_function(BenchmarkId::from_parameter(simd.name()), |bencher| {
        bencher.iter_batched_ref(
            || (),
            |()| {
                // Anew each time: a view that is changed again and again ends up black or white.
                view.values_mut().copy_from_slice(source.values());
                operation(&mut view);
            },
            criterion::BatchSize::NumIterations(64),
        );
    });
}

fn operations(c: &mut Criterion) {
    type Operation = (&'static str, Box<dyn Fn(Simd) -> Box<dyn FnMut(&mut Planes)>>);
    let all: [Operation; 9] = [
        ("copy alone", Box::new(|_| Box::new(|_| ()))),
        ("flip", Box::new(|simd| Box::new(move |view| flip::apply(simd, view)))),
        ("brightness", Box::new(|simd| Box::new(move |view| brightness::apply(simd, view, 1.2)))),
        ("contrast", Box::new(|simd| Box::new(move |view| contrast::apply(simd, view, 1.2)))),
        ("saturation", Box::new(|simd| Box::new(move |view| saturation::apply(simd, view, 1.1)))),
        ("hue", Box::new(|simd| Box::new(move |view| hue::apply(simd, view, 0.05)))),
        ("grayscale", Box::new(|simd| Box::new(move |view| grayscale::apply(simd, view)))),
        ("solarize", Box::new(|simd| Box::new(move |view| solarize::apply(simd, view, 128)))),
        (
            "blur",
            Box::new(|simd| {
                let mut scratch = blur::Scratch::default();
                Box::new(move |view| blur::apply(simd, view, 1.0, &mut scratch))
            }),
        ),
    ];
    for (name, operation) in all {
        let mut group = c.benchmark_group(name);
        for &simd in Simd::available() {
            on_a_view(&mut group, simd, operation(simd));
        }
        group.finish();
    }
}

fn resizes(c: &mut Criterion) {
    let pixels = noise((3 * IMAGE.width * IMAGE.height) as usize);
    let image = RgbImage::from_pixels(IMAGE, pixels);
    use ResizePasses::{HorizontalFirst, Pillow13};
    for (name, width, height, side, passes) in [
        ("resize 400x300 to 224", 400, 300, 224, HorizontalFirst),
        ("resize 150x120 to 96", 150, 120, 96, HorizontalFirst),
        ("resize 300x375 to 224, horizontal first", 300, 375, 224, HorizontalFirst),
        ("resize 300x375 to 224, vertical first", 300, 375, 224, Pillow13),
        ("resize 120x150 to 96, horizontal first", 120, 150, 96, HorizontalFirst),
        ("resize 120x150 to 96, vertical first", 120, 150, 96, Pillow13),
    ] {
        let extent = Extent { width: side, height: side };
        let geometry = Geometry {
            crop: CropBox { left: 13, top: 0, width, height },
            resized: extent,
            window: Origin::default(),
            view: extent,
            passes,
            filter: Filter::Bicubic,
        };
        let mut group = c.benchmark_group(name);
        for &simd in Simd::available() {
            let (mut resizer, mut view) = (Resizer::new(simd), Planes::new());
            group.bench_function(BenchmarkId::from_parameter(simd.name()), |bencher| {
                bencher.iter(|| resizer.resize(&image, &geometry, false, &mut view));
            });
        }
        group.finish();
    }
}

fn casts(c: &mut Criterion) {
    let view = view();
    for dtype in [Dtype::Bf16, Dtype::F32, Dtype::U8, Dtype::Fp8E4m3] {
        let recipe = Recipe::preset("imagenet-train", dtype).expect("a preset");
        let table = CastTable::new(&recipe, dtype);
        let mut row = vec![0; (3 * SIDE * SIDE) as usize * dtype.size_bytes() as usize];
        let mut group = c.benchmark_group(format!("cast to {}", dtype.name()));
        for &simd in Simd::available() {
            group.bench_function(BenchmarkId::from_parameter(simd.name()), |bencher| {
                bencher.iter(|| cast::write(simd, &view, &table, &mut row));
            });
        }
        group.finish();
    }
}

fn blocks(c: &mut Criterion) {
    let view = view();
    let recipe = Recipe::preset("imagenet-train", Dtype::Mxfp8E4m3).expect("a preset");
    let table = MxTable::new(Normalise::of(&recipe));
    let mut elements = vec![0; (3 * SIDE * SIDE) as usize];
    let mut scales = vec![0; elements.len() / mx::BLOCK];
    let mut group = c.benchmark_group("cast to mxfp8_e4m3");
    for &simd in Simd::available() {
        group.bench_function(BenchmarkId::from_parameter(simd.name()), |bencher| {
            bencher.iter(|| mx::write(simd, &view, &table, &mut elements, &mut scales));
        });
    }
    group.finish();
    let mut group = c.benchmark_group("amax");
    for &simd in Simd::available() {
        group.bench_function(BenchmarkId::from_parameter(simd.name()), |bencher| {
            bencher.iter(|| amax::of_view(simd, &view, table.normalise()));
        });
    }
    group.finish();
}

criterion_group!(benches, operations, resizes, casts, blocks);
criterion_main!(benches);
