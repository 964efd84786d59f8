//! Our decoder (libjpeg-turbo) beside `zune-jpeg`, over all `.jpg` members of a folder
//! of tars.

use std::fs::File;
use std::hint::black_box;
use std::io::Read;
use std::time::Instant;

use headwater_render::decode::{DecodeLimits, Decoder};
use zune_jpeg::JpegDecoder;
use zune_jpeg::zune_core::bytestream::ZCursor;
use zune_jpeg::zune_core::colorspace::ColorSpace;
use zune_jpeg::zune_core::options::DecoderOptions;

use crate::median;

pub(crate) fn run(folder: &str, rounds: usize) {
    let photos = photos(folder);
    let mut decoder = Decoder::new(DecodeLimits::default()).expect("a decoder");
    let mut times: [Vec<f64>; 2] = Default::default();
    for _ in 0..rounds {
        times[0].push(timed(|| {
            for photo in &photos {
                black_box(decoder.decode(photo).expect("a photo"));
            }
        }));
        times[1].push(timed(|| {
            for photo in &photos {
                black_box(by_zune(photo));
            }
        }));
    }
    let ratios = times[1].iter().zip(&times[0]).map(|(theirs, ours)| theirs / ours).collect();
    let images = photos.len() as f64;
    let [ours, theirs] = times.map(|times| images / median(times));

    let (mut values, mut differ, mut most) = (0_u64, 0_u64, 0);
    for photo in &photos {
        let truth = decoder.decode(photo).expect("a photo");
        for (ours, theirs) in truth.pixels().iter().zip(by_zune(photo)) {
            values += 1;
            differ += u64::from(*ours != theirs);
            most = most.max(ours.abs_diff(theirs));
        }
    }
    println!(
        "decode of {} photos: ours {ours:.0} images/s, zune-jpeg {theirs:.0}; ratio {:.2}; {:.2} % of \
         its values differ, by up to {most}",
        photos.len(),
        median(ratios),
        100.0 * differ as f64 / values as f64
    );
}

fn by_zune(photo: &[u8]) -> Vec<u8> {
    let options = DecoderOptions::new_fast().jpeg_set_out_colorspace(ColorSpace::RGB);
    JpegDecoder::new_with_options(ZCursor::new(photo), options).decode().expect("a photo")
}

fn timed(work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_secs_f64()
}

fn photos(folder: &str) -> Vec<Vec<u8>> {
    let mut photos = Vec::new();
    for shard in std::fs::read_dir(folder).expect("a folder of tars") {
        let shard = shard.expect("an entry").path();
        if shard.extension().is_none_or(|extension| extension != "tar") {
            continue;
        }
        let mut archive = tar::Archive::new(File::open(&shard).expect("a tar"));
        for member in archive.entries().expect("members") {
            let mut member = member.expect("a member");
            if member.path().is_ok_and(|path| path.extension().is_some_and(|e| e == "jpg")) {
                let mut photo = Vec::new();
                member.read_to_end(&mut photo).expect("a photo");
                photos.push(photo);
            }
        }
    }
    assert!(!photos.is_empty(), "no .jpg member in the tars of {folder}");
    photos
}
