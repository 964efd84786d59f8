//! Decoding photographs beside libjpeg-turbo, in turns: `HEADWATER_BENCH_PHOTOS=FOLDER cargo bench -p headwater-jpeg
//! --bench photos -- [ROUNDS] [SIMD]`. Each file's least time of all rounds counts.

use std::time::Instant;

use headwater_jpeg::{Choice, Decoder, Entries, Output, Request, Speeds, Window};
use headwater_simd::Simd;

/// A way to decode, and the sum of its least times.
const WAYS: [&str; 8] = [
    "libjpeg-turbo, interleaved",
    "no entries, interleaved",
    "no entries, planes",
    "no entries, entries made, planes",
    "entries, interleaved",
    "entries, planes",
    "no entries, one stream, planes",
    "no entries, one stream, made, planes",
];

struct Photo {
    file: Vec<u8>,
    entries: Option<Entries>,
    least: [f64; WAYS.len()],
}

fn main() {
    let mut arguments = std::env::args().skip(1).filter(|argument| argument != "--bench");
    let rounds: usize =
        arguments.next().map_or(5, |text| text.parse().expect("a number of rounds"));
    let name = arguments.next();
    let simd = Simd::available()
        .iter()
        .copied()
        .rfind(|simd| name.as_deref().is_none_or(|name| simd.name() == name));
    let simd = simd.expect("instructions of this processor");
    let speeds = Speeds::of(simd);
    println!("{:?} in {:?}: {speeds}", speeds.choice, speeds.took);
    let Some(folder) = std::env::var_os("HEADWATER_BENCH_PHOTOS") else {
        return println!("HEADWATER_BENCH_PHOTOS names no folder of photographs");
    };
    let mut decoder = Decoder::new(simd);
    // One that never falls into step.
    let mut one = Decoder::new(simd).choosing(Choice {
        speculates_from: None,
        windows_from: None,
        ..speeds.choice
    });
    let mut photos: Vec<Photo> = std::fs::read_dir(folder)
        .expect("a folder")
        .map(|entry| entry.expect("an entry of the folder").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "jpg"))
        .map(|path| Photo {
            file: std::fs::read(path).expect("a photograph"),
            entries: None,
            least: [f64::MAX; WAYS.len()],
        })
        .collect();
    let mut out = vec![0; 64 << 20];
    photos.retain_mut(|photo| {
        let Ok(decoded) = decode(&mut decoder, &photo.file, None, true, true, &mut out) else {
            return false;
        };
        photo.entries = decoded;
        true
    });
    let mut turbo = turbojpeg::Decompressor::new().expect("libjpeg-turbo");
    let count = WAYS.len();
    for round in 0..rounds {
        for (n, photo) in photos.iter_mut().enumerate() {
            for way in (0..count).map(|way| (way + round + n) % count) {
                let started = Instant::now();
                if way == 0 {
                    by_turbo(&mut turbo, &photo.file, &mut out);
                } else {
                    let entries = photo.entries.as_ref().filter(|_| matches!(way, 4 | 5));
                    let planar = matches!(way, 2 | 3 | 5 | 6 | 7);
                    let decoder = if way >= 6 { &mut one } else { &mut decoder };
                    decode(decoder, &photo.file, entries, matches!(way, 3 | 7), planar, &mut out)
                        .expect("as before");
                }
                photo.least[way] = photo.least[way].min(started.elapsed().as_secs_f64());
            }
        }
    }
    println!("{} photographs, {rounds} rounds, {}", photos.len(), simd.name());
    let total = |way: usize| photos.iter().map(|photo| photo.least[way]).sum::<f64>();
    for (way, name) in WAYS.iter().enumerate() {
        let mean_us = total(way) / photos.len() as f64 * 1e6;
        println!(
            "{name:36} {mean_us:8.1} us a photograph, {:.3} of libjpeg-turbo's time, {:.2} x",
            total(way) / total(0),
            total(0) / total(way)
        );
    }
}

fn decode(
    decoder: &mut Decoder,
    file: &[u8],
    entries: Option<&Entries>,
    record: bool,
    planar: bool,
    out: &mut [u8],
) -> Result<Option<Entries>, headwater_jpeg::Declined> {
    let image = decoder.read(file)?;
    let (width, height) = (image.width() as usize, image.height() as usize);
    let window = Window { left: 0, top: 0, width, height };
    let request = Request { window, entries, record };
    let stride = width.next_multiple_of(64);
    let output = if planar {
        let (red, rest) = out.split_at_mut(stride * height + 64);
        let (green, blue) = rest.split_at_mut(stride * height + 64);
        Output::Planes { red, green, blue, stride }
    } else {
        Output::Rgb { pixels: &mut out[..3 * width * height], stride: 3 * width }
    };
    Ok(image.decode(&request, output)?.entries)
}

fn by_turbo(turbo: &mut turbojpeg::Decompressor, file: &[u8], out: &mut [u8]) {
    let header = turbo.read_header(file).expect("a header");
    let pixels = &mut out[..3 * header.width * header.height];
    let (width, height) = (header.width, header.height);
    let image = turbojpeg::Image {
        pixels,
        width,
        pitch: 3 * width,
        height,
        format: turbojpeg::PixelFormat::RGB,
    };
    turbo.decompress(file, image).expect("an image");
}
