//! The inverse DCT against libjpeg-turbo's, and its twins against its definition.

use headwater_simd::Simd;

use super::super::idct::{BLOCK, Idct, NATURAL, Pick, SIDE};
use super::forward::{Forward, table};
use super::noise::Noise;
use super::writer::{Planned, file};

/// Coefficients of every kind: few and many, small and large.
fn blocks(noise: &mut Noise, quant: &[u16; BLOCK], len: usize) -> Vec<[i16; BLOCK]> {
    let mut block = |n: usize| {
        let rarity = [1, 2, 4, 8, 16, 64][n % 6];
        let amplitude = [3, 40, 150, 400, 900, 2500, 6000][n / 6 % 7];
        std::array::from_fn(|k| {
            let limit = (amplitude / i32::from(quant[k].max(1))).min(1023);
            let value = noise.within(limit) as i16;
            if noise.below(rarity) == 0 { value } else { 0 }
        })
    };
    (0..len).map(&mut block).collect()
}

/// Coefficients of two columns whose magnitudes add up to `sum`: the steps are 1. Signs are such that
/// most of these blocks have samples in range.
fn crowded(noise: &mut Noise, sum: usize) -> [i16; BLOCK] {
    let column = noise.below(SIDE / 2);
    let mut rest = sum;
    std::array::from_fn(|k| {
        let at = usize::from(NATURAL[k]);
        if at % (SIDE / 2) != column {
            return 0;
        }
        // Of the last place nothing is left over.
        let is_last = (k + 1..BLOCK).all(|k| usize::from(NATURAL[k]) % (SIDE / 2) != column);
        let magnitude = if is_last { rest } else { sum / 16 - 5 + noise.below(10) };
        rest -= magnitude;
        if noise.below(2) == 0 { magnitude as i16 } else { -(magnitude as i16) }
    })
}

fn quant(noise: &mut Noise, largest: usize) -> [u16; BLOCK] {
    std::array::from_fn(|_| 1 + noise.below(largest) as u16)
}

/// The samples of each block, if it is in range.
fn samples(simd: Simd, quant: &[u16; BLOCK], blocks: &[[i16; BLOCK]]) -> Vec<Option<[u8; BLOCK]>> {
    let idct = Idct::new(simd, quant);
    let one = |block: &[i16; BLOCK]| {
        let mut plane = [0; BLOCK];
        idct.blocks(&mut [*block], &[Pick::default()], &mut plane, SIDE).then_some(plane)
    };
    blocks.iter().map(one).collect()
}

#[test]
fn samples_are_those_of_libjpeg_turbo() {
    const BLOCKS: usize = 8000;
    let mut noise = Noise::new(1);
    let mut in_range = 0;
    for largest in [1, 2, 20, 255] {
        let quant = quant(&mut noise, largest);
        let mut blocks = blocks(&mut noise, &quant, BLOCKS);
        if largest == 1 {
            blocks[..BLOCKS / 4].fill_with(|| crowded(&mut noise, 5905));
        }
        let ours = samples(Simd::Plain, &quant, &blocks);
        let width = BLOCKS * SIDE;
        let planned = Planned { h: 1, v: 1, blocks_wide: BLOCKS, blocks };
        let file = file(width, SIDE, &quant, &[planned]);
        let theirs = turbojpeg::decompress(&file, turbojpeg::PixelFormat::GRAY).unwrap();
        for (n, ours) in ours.iter().enumerate() {
            let Some(ours) = ours else { continue };
            in_range += 1;
            for (y, row) in ours.as_chunks::<SIDE>().0.iter().enumerate() {
                assert_eq!(
                    theirs.pixels[y * width + n * SIDE..][..SIDE],
                    *row,
                    "block {n}, row {y}"
                );
            }
        }
    }
    assert!(in_range > 2 * BLOCKS, "{in_range} blocks in range");
    assert!(in_range < 4 * BLOCKS - 100, "{in_range} blocks in range");
}

#[test]
fn twins_give_the_samples_of_the_definition() {
    let mut noise = Noise::new(4);
    for largest in [1, 3, 30, 255, 4095] {
        let quant = quant(&mut noise, largest);
        let mut blocks = blocks(&mut noise, &quant, 3000);
        // Whatever a damaged file may hold, and what is barely too much.
        for n in 0..300 {
            blocks[7 * n][noise.below(BLOCK)] = [i16::MIN, i16::MAX, -1, 511][n % 4];
            blocks[5 * n].fill(0);
            let at = noise.below(BLOCK);
            blocks[5 * n][at] = (5904 + n % 4) as i16 / quant[at] as i16;
        }
        let expected = samples(Simd::Plain, &quant, &blocks);
        for simd in Simd::available() {
            let actual = samples(*simd, &quant, &blocks);
            let differs =
                actual.iter().zip(&expected).position(|(actual, expected)| actual != expected);
            assert_eq!(differs, None, "{} of {largest}", simd.name());
        }
    }
}

#[test]
fn sums_of_magnitudes_are_limited() {
    let mut noise = Noise::new(10);
    for simd in Simd::available() {
        let mut allowed = |sum: usize| {
            let blocks: Vec<_> = (0..500).map(|_| crowded(&mut noise, sum)).collect();
            samples(*simd, &[1; BLOCK], &blocks).iter().flatten().count()
        };
        assert!(allowed(5905) > 100, "{}", simd.name());
        assert_eq!(allowed(5906), 0, "{}", simd.name());
    }
}

#[test]
fn products_that_wrap_to_zero_are_refused() {
    let mut quant = [1; BLOCK];
    (quant[3], quant[10]) = (2, 4);
    let mut block = [0; BLOCK];
    for n in [3, 10] {
        // Both are in the first column. By 16 bits each product is zero, and so is their sum with signs.
        (block[3], block[10]) = if n == 3 { (i16::MIN, 1 << 14) } else { (i16::MIN, 0) };
        for simd in Simd::available() {
            assert_eq!(samples(*simd, &quant, &[block]), [None], "{}", simd.name());
        }
    }
}

#[test]
fn many_blocks_at_once_are_those_of_one_at_a_time() {
    const STRIDE: usize = 40 * SIDE;
    let mut noise = Noise::new(6);
    let quant = [2; BLOCK];
    for simd in Simd::available() {
        let idct = Idct::new(*simd, &quant);
        for len in (0..=40).chain([64]) {
            let mut blocks: Vec<[i16; BLOCK]> =
                (0..len).map(|_| std::array::from_fn(|_| noise.within(20) as i16)).collect();
            let expected = samples(Simd::Plain, &quant, &blocks);
            // Places side by side, sometimes with gaps, sometimes in the second row of blocks.
            let place = |n: usize| n % 40 * SIDE + n / 40 * SIDE * STRIDE;
            let step = 1 + noise.below(3);
            let skip = noise.below(5);
            let places: Vec<usize> =
                (0..len).map(|n| place((n * step + usize::from(n > skip)) % 80)).collect();
            let mut plane = vec![7; 2 * SIDE * STRIDE];
            // Not in the order in which they are in memory, and with one between them that is not
            // touched.
            let untouched = len / 2;
            blocks.insert(untouched, [9; BLOCK]);
            let picks: Vec<Pick> = (0..len)
                .map(|n| Pick { block: n + usize::from(n >= untouched), place: places[n] })
                .collect();
            assert!(idct.blocks(&mut blocks, &picks, &mut plane, STRIDE));
            assert_eq!(blocks.remove(untouched), [9; BLOCK]);
            assert!(blocks.iter().all(|block| *block == [0; BLOCK]));
            let mut drawn = vec![7; plane.len()];
            for (samples, place) in expected.iter().zip(&places) {
                for (y, row) in samples.unwrap().as_chunks::<SIDE>().0.iter().enumerate() {
                    drawn[place + y * STRIDE..][..SIDE].copy_from_slice(row);
                }
            }
            assert!(plane == drawn, "{} {len} blocks", simd.name());
        }
    }
}

#[test]
fn one_block_out_of_range_fails_the_call() {
    let mut noise = Noise::new(7);
    let fails: [fn(&mut [i16; BLOCK]); 5] = [
        |block| block[0] = 5906,
        |block| block[63] = i16::MIN,
        |block| block[..4].copy_from_slice(&[2000, 700, 700, 700]),
        |block| block[..4].copy_from_slice(&[-2000, -700, -700, -700]),
        |block| block[3] = 300 << 7,
    ];
    for simd in Simd::available() {
        let idct = Idct::new(*simd, &[1; BLOCK]);
        for fail in fails {
            for len in 1..10 {
                let mut blocks = vec![[1; BLOCK]; len];
                let mut plane = vec![0; len * BLOCK];
                let pick = |block| Pick { block, place: block * SIDE };
                let picks: Vec<Pick> = (0..len).map(pick).collect();
                assert!(idct.blocks(&mut blocks.clone(), &picks, &mut plane, len * SIDE));
                fail(&mut blocks[noise.below(len)]);
                assert!(
                    !idct.blocks(&mut blocks, &picks, &mut plane, len * SIDE),
                    "{}",
                    simd.name()
                );
            }
        }
    }
}

#[test]
#[should_panic(expected = "a block outside the plane")]
fn a_block_outside_the_plane_is_refused() {
    let idct = Idct::new(Simd::best(), &[1; BLOCK]);
    let mut plane = [0; BLOCK];
    let _ = idct.blocks(&mut [[0; BLOCK]], &[Pick { block: 0, place: 1 }], &mut plane, SIDE);
}

/// What photographs and drawings can hold at their extremes.
fn scene(noise: &mut Noise, kind: usize) -> [u8; BLOCK] {
    let (a, b, c) = (noise.below(9) as i32 - 4, noise.below(9) as i32 - 4, noise.below(40) as i32);
    std::array::from_fn(|n| {
        let (x, y) = ((n % SIDE) as i32, (n / SIDE) as i32);
        let black_or_white = |is_white: bool| if is_white { 255 } else { 0 };
        match kind % 6 {
            0 => noise.next() as u8,
            1 => black_or_white(noise.next() >> 40 & 1 == 0),
            2 => black_or_white(a * x + b * y > c - 20),
            3 => black_or_white((a * x + b * y + c) % 3 == 0),
            4 => black_or_white(noise.below(16) == 0),
            _ => (x * a * 8 + y * b * 8 + 3 * c).clamp(0, 255) as u8,
        }
    })
}

#[test]
fn transforms_of_real_samples_are_in_range() {
    let mut noise = Noise::new(5);
    let forward = Forward::new();
    let mut outside = vec![];
    for quality in 1..=100 {
        let quant = table(quality);
        let blocks: Vec<[i16; BLOCK]> =
            (0..300).map(|n| forward.coefficients(&scene(&mut noise, n), &quant)).collect();
        let samples = samples(Simd::Plain, &quant, &blocks);
        let kinds = samples.iter().enumerate().filter(|(_, samples)| samples.is_none());
        outside.extend(kinds.map(|(n, _)| (quality, n % 6)));
    }
    assert!(outside.is_empty(), "{} outside: {outside:?}", outside.len());
}
