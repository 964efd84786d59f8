//! Whole images of random coefficients against libjpeg-turbo, in every sampling.

use headwater_simd::Simd;

use super::super::Pick;
use super::super::idct::{BLOCK, Idct, SIDE};
use super::super::{Component, Components, Output, Upsampler, Window};
use super::noise::Noise;
use super::writer::{Planned, file};

/// Samples of a component in a plane whose rows are padded to whole blocks.
struct Decoded {
    plane: Vec<u8>,
    stride: usize,
}

fn planned(noise: &mut Noise, size: (usize, usize), factors: &[(usize, usize)]) -> Vec<Planned> {
    let h_max = factors.iter().map(|factors| factors.0).max().unwrap();
    let v_max = factors.iter().map(|factors| factors.1).max().unwrap();
    let component = |(h, v): &(usize, usize)| {
        // A single component has blocks rather than MCUs, whatever its factors.
        let blocks = if factors.len() == 1 { (1, 1, 1, 1) } else { (h_max, v_max, *h, *v) };
        let blocks_wide = size.0.div_ceil(SIDE * blocks.0) * blocks.2;
        let blocks_high = size.1.div_ceil(SIDE * blocks.1) * blocks.3;
        let mut block = || {
            std::array::from_fn(|k| match k {
                0 => noise.within(900) as i16,
                1..10 => noise.within(60) as i16,
                _ => 0,
            })
        };
        let blocks = (0..blocks_wide * blocks_high).map(|_| block()).collect();
        Planned { h: *h, v: *v, blocks_wide, blocks }
    };
    factors.iter().map(component).collect()
}

fn decoded(planned: &Planned, quant: &[u16; BLOCK]) -> Decoded {
    let stride = planned.blocks_wide * SIDE;
    let mut plane = vec![0; planned.blocks.len() * BLOCK];
    let place = |n| n / planned.blocks_wide * SIDE * stride + n % planned.blocks_wide * SIDE;
    let pick = |block| Pick { block, place: place(block) };
    let picks: Vec<Pick> = (0..planned.blocks.len()).map(pick).collect();
    let idct = Idct::new(Simd::Plain, quant);
    assert!(idct.blocks(&mut planned.blocks.clone(), &picks, &mut plane, stride));
    Decoded { plane, stride }
}

/// Pixels of the window by `simd`, which must be the same as planes and interleaved.
fn pixels(simd: Simd, components: Components<'_>, window: Window) -> Vec<u8> {
    let mut upsampler = Upsampler::new(simd);
    let len = window.width * window.height;
    let mut pixels = vec![0; 3 * len];
    let stride = 3 * window.width;
    upsampler.convert(components, window, Output::Rgb { pixels: &mut pixels, stride });
    let [mut red, mut green, mut blue] = [(); 3].map(|()| vec![0; len]);
    let (red, green, blue) = (&mut red[..], &mut green[..], &mut blue[..]);
    let stride = window.width;
    upsampler.convert(components, window, Output::Planes { red, green, blue, stride });
    for n in 0..len {
        assert_eq!(pixels[3 * n..][..3], [red[n], green[n], blue[n]], "{} pixel {n}", simd.name());
    }
    pixels
}

fn check(noise: &mut Noise, size: (usize, usize), factors: &[(usize, usize)]) {
    let (width, height) = size;
    let quant = [1; BLOCK];
    let planned = planned(noise, size, factors);
    let file = file(width, height, &quant, &planned);
    let theirs = turbojpeg::decompress(&file, turbojpeg::PixelFormat::RGB).unwrap();
    let decoded: Vec<Decoded> = planned.iter().map(|planned| decoded(planned, &quant)).collect();
    let h_max = factors.iter().map(|factors| factors.0).max().unwrap();
    let v_max = factors.iter().map(|factors| factors.1).max().unwrap();
    let component = |n: usize| {
        let Decoded { plane, stride } = &decoded[n];
        let (h, v) = factors[n];
        let (width, height) = ((width * h).div_ceil(h_max), (height * v).div_ceil(v_max));
        Component { plane, stride: *stride, width, height, h, v }
    };
    let components = match factors.len() {
        1 => Components::Gray(component(0)),
        _ => Components::Ycc(std::array::from_fn(component)),
    };
    for simd in Simd::available() {
        let window = Window { left: 0, top: 0, width, height };
        let ours = pixels(*simd, components, window);
        assert!(ours == theirs.pixels, "{} {width}x{height} {factors:?}", simd.name());
        let left = noise.below(width);
        let top = noise.below(height);
        let window = Window {
            left,
            top,
            width: 1 + noise.below(width - left),
            height: 1 + noise.below(height - top),
        };
        let ours = pixels(*simd, components, window);
        for (y, row) in ours.chunks_exact(3 * window.width).enumerate() {
            let theirs = &theirs.pixels[3 * ((top + y) * width + left)..][..row.len()];
            assert!(row == theirs, "{} {window:?} of {width}x{height} {factors:?}", simd.name());
        }
    }
}

#[test]
fn images_are_those_of_libjpeg_turbo() {
    const SIZES: [(usize, usize); 12] = [
        (1, 1),
        (2, 2),
        (3, 3),
        (4, 5),
        (5, 4),
        (7, 1),
        (1, 9),
        (17, 16),
        (31, 33),
        (130, 17),
        (257, 40),
        (700, 50),
    ];
    const FACTORS: [&[(usize, usize)]; 14] = [
        &[(1, 1)],
        &[(2, 2)],
        &[(1, 1), (1, 1), (1, 1)],
        &[(2, 1), (1, 1), (1, 1)],
        &[(1, 2), (1, 1), (1, 1)],
        &[(2, 2), (1, 1), (1, 1)],
        &[(4, 1), (1, 1), (1, 1)],
        &[(1, 4), (1, 1), (1, 1)],
        &[(2, 2), (2, 1), (1, 2)],
        &[(1, 1), (2, 2), (1, 2)],
        &[(1, 1), (2, 1), (2, 1)],
        &[(1, 4), (1, 2), (1, 2)],
        &[(4, 2), (1, 1), (1, 1)],
        &[(1, 1), (2, 4), (1, 1)],
    ];
    let mut noise = Noise::new(2);
    for factors in FACTORS {
        for size in SIZES {
            check(&mut noise, size, factors);
        }
    }
}

#[test]
fn sizes_at_random_are_those_of_libjpeg_turbo() {
    let mut noise = Noise::new(3);
    let power = |noise: &mut Noise| 1 << noise.below(2);
    for _ in 0..150 {
        let size = (1 + noise.below(300), 1 + noise.below(60));
        let factors = [(); 3].map(|()| (power(&mut noise), power(&mut noise)));
        // More than ten blocks in an MCU are not allowed.
        if factors.iter().map(|(h, v)| h * v).sum::<usize>() <= 10 {
            check(&mut noise, size, &factors);
        }
    }
}
