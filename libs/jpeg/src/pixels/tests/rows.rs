//! Upsampling and colours by each set of instructions against the definitions.

use headwater_simd::Simd;

use super::super::{colour, upsample};
use super::noise::Noise;

/// Lengths around those of vectors, and a few rows of photographs.
fn lengths() -> impl Iterator<Item = usize> {
    (0..=200).chain([250, 255, 256, 257, 500, 1023])
}

/// Bytes; some of them are at the ends of their range.
fn extremes(noise: &mut Noise, len: usize) -> Vec<u8> {
    let keep = noise.below(3);
    let mut bytes = noise.bytes(len);
    for byte in &mut bytes {
        let choice = noise.below(3);
        if choice >= keep {
            *byte = if *byte < 128 { 0 } else { 255 };
        }
    }
    bytes
}

#[test]
fn upsampled_rows_are_those_of_the_definition() {
    let mut noise = Noise::new(8);
    for len in lengths() {
        let [near, far] = [extremes(&mut noise, len), extremes(&mut noise, len)];
        let all = |simd: Simd| {
            let mut out =
                [vec![0; 2 * len], vec![0; 2 * len], vec![0; len], vec![0; len], vec![0; 2 * len]];
            let [h2v1, h2v2, upper, lower, twice] = &mut out;
            upsample::h2v1(simd, &near, h2v1);
            upsample::h2v2(simd, &near, &far, h2v2);
            upsample::h1v2(simd, &near, &far, true, upper);
            upsample::h1v2(simd, &near, &far, false, lower);
            upsample::replicate(simd, &near, 2, twice);
            out
        };
        let expected = all(Simd::Plain);
        for simd in Simd::available() {
            assert!(all(*simd) == expected, "{} {len}", simd.name());
        }
    }
}

#[test]
fn colours_are_those_of_the_definition() {
    let mut noise = Noise::new(9);
    for len in lengths() {
        let ycc = [(); 3].map(|()| extremes(&mut noise, len));
        let ycc = ycc.each_ref().map(|row| &row[..]);
        let all = |simd: Simd| {
            let mut pixels = vec![0; 3 * len];
            colour::ycc_to_rgb(simd, ycc, &mut pixels);
            let mut planes = [vec![0; len], vec![0; len], vec![0; len]];
            colour::ycc_to_planes(simd, ycc, planes.each_mut().map(|plane| &mut plane[..]));
            (pixels, planes)
        };
        let expected = all(Simd::Plain);
        for simd in Simd::available() {
            assert!(all(*simd) == expected, "{} {len}", simd.name());
        }
    }
}

#[test]
fn all_colours_are_those_of_the_definition() {
    let every: Vec<u8> = (0..=255).collect();
    let mut expected = [0; 3 * 256];
    let mut actual = [0; 3 * 256];
    let mut planes = [[0; 256]; 3];
    for (blue, red) in (0..=255_u8).flat_map(|blue| (0..=255_u8).map(move |red| (blue, red))) {
        let ycc = [&every[..], &[blue; 256], &[red; 256]];
        colour::ycc_to_rgb(Simd::Plain, ycc, &mut expected);
        for simd in Simd::available() {
            colour::ycc_to_rgb(*simd, ycc, &mut actual);
            assert!(actual == expected, "{} {blue} {red}", simd.name());
            colour::ycc_to_planes(*simd, ycc, planes.each_mut().map(|plane| &mut plane[..]));
            colour::interleave(*simd, planes.each_ref().map(|plane| &plane[..]), &mut actual);
            assert!(actual == expected, "{} {blue} {red}", simd.name());
        }
    }
}
