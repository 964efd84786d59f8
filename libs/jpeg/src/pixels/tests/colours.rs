//! All 2^24 colours against libjpeg-turbo: images of uniform colour differences, under blocks of brightness that have
//! all 256 values together.

use headwater_simd::Simd;

use super::super::colour;
use super::super::idct::{BLOCK, Idct, Pick, SIDE};
use super::forward::Forward;
use super::noise::Noise;
use super::writer::{Planned, file};

const QUANT: [u16; BLOCK] = [1; BLOCK];
/// Blocks of a row: one for each value of the red difference.
const WIDE: usize = 256;

fn samples(block: &[i16; BLOCK]) -> [u8; BLOCK] {
    let mut plane = [0; BLOCK];
    assert!(Idct::new(Simd::Plain, &QUANT).blocks(
        &mut [*block],
        &[Pick::default()],
        &mut plane,
        SIDE
    ));
    plane
}

/// Blocks whose samples have all values together: the transform does not keep each value.
fn brightness() -> Vec<[i16; BLOCK]> {
    let forward = Forward::new();
    let mut noise = Noise::new(11);
    let mut missing: Vec<u8> = (0..=255).collect();
    let mut blocks = Vec::new();
    while !missing.is_empty() {
        let from = noise.below(missing.len());
        let wanted = std::array::from_fn(|n| missing[(from + n) % missing.len()]);
        let block = forward.coefficients(&wanted, &QUANT);
        let found = samples(&block);
        missing.retain(|value| !found.contains(value));
        blocks.push(block);
    }
    blocks
}

/// The block of samples that all have this value.
fn uniform(value: usize) -> [i16; BLOCK] {
    let mut block = [0; BLOCK];
    block[0] = (value as i16 - 128) * 8;
    assert_eq!(samples(&block), [value as u8; BLOCK]);
    block
}

#[test]
fn all_colours_are_those_of_libjpeg_turbo() {
    let brightness = brightness();
    let high = brightness.len();
    let luma: Vec<_> = brightness.iter().flat_map(|block| [*block; WIDE]).collect();
    let values: Vec<_> = brightness.iter().map(samples).collect();
    let red: Vec<_> = (0..WIDE * high).map(|n| uniform(n % WIDE)).collect();
    let (width, height) = (WIDE * SIDE, high * SIDE);
    let mut pixels = vec![0; 3 * width];
    for blue in 0..256 {
        let blocks = [luma.clone(), vec![uniform(blue); WIDE * high], red.clone()];
        let planned = blocks.map(|blocks| Planned { h: 1, v: 1, blocks_wide: WIDE, blocks });
        let file = file(width, height, &QUANT, &planned);
        let theirs = turbojpeg::decompress(&file, turbojpeg::PixelFormat::RGB).unwrap();
        for (y, theirs) in theirs.pixels.chunks_exact(3 * width).enumerate() {
            let luma: Vec<u8> =
                (0..width).map(|x| values[y / SIDE][y % SIDE * SIDE + x % SIDE]).collect();
            let red: Vec<u8> = (0..width).map(|x| (x / SIDE) as u8).collect();
            let ycc = [&luma[..], &vec![blue as u8; width], &red];
            colour::ycc_to_rgb(Simd::Plain, ycc, &mut pixels);
            assert!(pixels == theirs, "blue difference {blue}, row {y}");
        }
    }
}
