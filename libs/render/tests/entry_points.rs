//! Entry points change no pixel, whoever made them, and stay within their bound.

use headwater_core::SampleId;
use headwater_core::draw::{CropBox, DrawKey, Extent};
use headwater_render::decode::{DecodeLimits, Decoder, EntryTable, Wanted};

use crate::photos;

/// Every fourth photograph of `tests/data`, numbered.
fn photos() -> impl Iterator<Item = (usize, Vec<u8>)> {
    photos::all().into_iter().enumerate().step_by(4)
}

fn decoder() -> Decoder {
    Decoder::new(DecodeLimits::default()).expect("a decoder")
}

/// All pixels, by libjpeg-turbo itself; none of four inks.
fn judged(encoded: &[u8]) -> Option<Vec<u8>> {
    let header = turbojpeg::read_header(encoded).expect("a photograph");
    let four_inks =
        matches!(header.colorspace, turbojpeg::Colorspace::CMYK | turbojpeg::Colorspace::YCCK);
    let decoded = || turbojpeg::decompress(encoded, turbojpeg::PixelFormat::RGB);
    (!four_inks).then(|| decoded().expect("a photograph").pixels)
}

/// What one thread has learnt, another one uses.
#[test]
fn images_that_were_decoded_before_have_the_same_pixels() {
    let table = EntryTable::new(1 << 20).expect("a table");
    let mut first = decoder().sharing(Some(table.clone()));
    let mut second = decoder().sharing(Some(table.clone()));
    for (name, encoded) in photos::all().into_iter().enumerate() {
        let Some(expected) = judged(&encoded) else { continue };
        for decoder in [&mut first, &mut second] {
            assert!(decoder.decode(&encoded).expect("a photograph").pixels() == expected, "{name}");
        }
    }
    assert!(table.images() > 20, "{} images", table.images());
    assert!((1000..1 << 20).contains(&table.bytes()), "{} bytes", table.bytes());
}

/// Rows above a window are left out only where that is right.
#[test]
fn windows_of_known_images_are_those_of_the_whole() {
    let table = EntryTable::new(1 << 20).expect("a table");
    let mut known = decoder().sharing(Some(table));
    for (name, encoded) in photos() {
        let Some(expected) = judged(&encoded) else { continue };
        let Extent { width, height } = known.decode(&encoded).expect("a photograph").extent();
        let key = DrawKey { seed: 1, epoch: 0, pass: 0, sample: SampleId(name as u64), stream: 0 };
        let mut rng = key.rng();
        for _ in 0..8 {
            let mut below = |bound: u32| rng.below(u64::from(bound)) as u32;
            let (left, top) = (below(width), below(height));
            let (columns, rows) = (1 + below(width - left), 1 + below(height - top));
            let window = CropBox { left, top, width: columns, height: rows };
            let wanted = Wanted { reduction: 1, window };
            let image = known.decode_wanted(&encoded, |_| wanted).expect("a photograph");
            let found = (0..3).flat_map(|channel| {
                let rows = image.rows(channel).skip(top as usize).take(rows as usize);
                let columns = left as usize..(left + columns) as usize;
                rows.flat_map(move |row| row[columns.clone()].to_vec())
            });
            let expected = (0..3).flat_map(|channel| {
                let rows = expected.chunks_exact(3 * width as usize);
                let rows = rows.skip(top as usize).take(window.height as usize);
                let pixels = left as usize..(left + columns) as usize;
                rows.flat_map(move |row| pixels.clone().map(move |x| row[3 * x + channel]))
            });
            assert!(found.eq(expected), "{name}, {window:?}");
        }
    }
}

/// Bytes that anybody may have sent.
#[test]
fn entries_that_are_wrong_change_no_pixel() {
    let all: Vec<_> = photos().collect();
    let made: Vec<Vec<u8>> = all
        .iter()
        .map(|(_, encoded)| {
            let mut decoder = headwater_jpeg::Decoder::new(headwater_simd::Simd::best());
            let entries = decoder.read(encoded).and_then(|image| image.entries());
            let mut bytes = Vec::new();
            if let Ok(entries) = entries {
                entries.write(&mut bytes);
            }
            bytes
        })
        .collect();
    let with_entries = made.iter().filter(|bytes| !bytes.is_empty()).count();
    assert!(with_entries > 20, "{with_entries} photographs with entries");
    for (number, (name, encoded)) in all.iter().enumerate() {
        let Some(expected) = judged(encoded) else { continue };
        let own = &made[number];
        let other = &made[(number + 1) % made.len()];
        let mut changed = own.clone();
        let middle = changed.len() / 2;
        if let Some(byte) = changed.get_mut(middle) {
            *byte ^= 4;
        }
        for entries in [own, other, &changed, &vec![0; 14], &vec![255; 14 * 31], &vec![7; 5]] {
            let table = EntryTable::new(1 << 20);
            let mut decoder = decoder().sharing(table);
            for _ in 0..2 {
                let image = decoder.decode_from(encoded, entries, Wanted::all);
                assert!(image.expect("a photograph").pixels() == expected, "{name}");
            }
        }
    }
}

#[test]
fn a_table_stays_within_its_bound() {
    let table = EntryTable::new(4000).expect("a table");
    let mut decoder = decoder().sharing(Some(table.clone()));
    for (_, encoded) in photos() {
        decoder.decode(&encoded).expect("a photograph");
        assert!(table.bytes() <= 4000, "{} bytes", table.bytes());
    }
    assert!(table.images() > 0);
    assert!(EntryTable::new(0).is_none() && EntryTable::new(100).is_none());
}
