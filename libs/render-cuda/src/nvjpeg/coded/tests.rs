use headwater_core::SampleId;
use headwater_core::draw::DrawKey;
use turbojpeg::PixelFormat;

use super::Checker;
use super::header::{Header, Tables};

const BASELINE: [&[u8]; 12] = [
    include_bytes!("../../../../render/tests/fixtures/decode/baseline-420.jpg"),
    include_bytes!("../../../../render/tests/fixtures/decode/baseline-422.jpg"),
    include_bytes!("../../../../render/tests/fixtures/decode/baseline-444.jpg"),
    include_bytes!("../../../../render/tests/fixtures/decode/gray.jpg"),
    include_bytes!("../../../../render/tests/fixtures/decode/restart.jpg"),
    include_bytes!("../../../../render/tests/fixtures/decode/rgb-not-ycbcr.jpg"),
    include_bytes!("../../../../render/tests/fixtures/decode/tiny-1.jpg"),
    include_bytes!("../../../../render/tests/fixtures/decode/tiny-7.jpg"),
    include_bytes!("../../../../render/tests/fixtures/decode/tiny-8.jpg"),
    include_bytes!("../../../../render/tests/fixtures/decode/tiny-9.jpg"),
    include_bytes!("../../../../render/tests/fixtures/decode/tiny-17.jpg"),
    include_bytes!("../../../../render/tests/fixtures/decode/turned-by-exif.jpg"),
];

/// What libjpeg-turbo says against it: an error, or a warning.
fn fault(encoded: &[u8]) -> Option<String> {
    turbojpeg::decompress(encoded, PixelFormat::RGB).err().map(|error| error.to_string())
}

fn is_whole(encoded: &[u8]) -> bool {
    Checker::default().is_whole(encoded)
}

/// The first byte of the scan's pixels.
fn scan_start(encoded: &[u8]) -> usize {
    let mut tables = Tables::default();
    let header = Header::read(encoded, &mut tables).expect("a baseline image");
    encoded.len() - header.scan.len()
}

#[test]
fn images_that_libjpeg_finds_no_fault_with_are_whole() {
    for (number, encoded) in BASELINE.iter().enumerate() {
        assert_eq!((fault(encoded), is_whole(encoded)), (None, true), "image {number}");
        assert!(is_whole(&[encoded, &b"more"[..]].concat()), "what follows the end is nothing");
    }
}

#[test]
fn other_kinds_of_jpeg_are_left_alone() {
    let others: [&[u8]; 4] = [
        include_bytes!("../../../../render/tests/fixtures/decode/progressive-420.jpg"),
        include_bytes!("../../../../render/tests/fixtures/decode/gray-progressive.jpg"),
        include_bytes!("../../../../render/tests/fixtures/decode/rgb.png"),
        b"",
    ];
    assert!(!others.into_iter().any(is_whole));
}

#[test]
fn an_image_that_ends_early_is_not_whole() {
    for encoded in BASELINE {
        let start = scan_start(encoded);
        for end in (start..encoded.len() - 2).step_by(1 + (encoded.len() - start) / 200) {
            // The marker would otherwise be taken for one more byte of ones.
            let end = if encoded[end - 1] == 0xff { end - 1 } else { end };
            assert!(!is_whole(&encoded[..end]), "{end}: without the end's marker");
            let ended = [&encoded[..end], &[0xff, 0xd9]].concat();
            assert!(!is_whole(&ended) || end + 2 == encoded.len(), "{end}");
        }
    }
}

/// libjpeg warns of a code that is not in its table, of an early end, and of bytes behind the last
/// block. What damage leaves undetected by it is another image, and as whole as any.
#[test]
fn whatever_libjpeg_warns_of_is_not_whole() {
    let key = DrawKey { seed: 71, epoch: 0, pass: 0, sample: SampleId(0), stream: 0 };
    let mut rng = key.rng();
    let mut refused = 0;
    for round in 0..6000 {
        let mut encoded = BASELINE[rng.below(BASELINE.len() as u64) as usize].to_vec();
        let start = scan_start(&encoded);
        let length = (encoded.len() - start - 2) as u64;
        let at = start + rng.below(length) as usize;
        match rng.below(4) {
            0 => encoded[at] ^= 1 << rng.below(8),
            1 => drop(encoded.drain(at..encoded.len() - 2)),
            2 => drop(encoded.splice(at..at, [0xff, 0xd0 + rng.below(8) as u8])),
            _ => encoded.insert(at, rng.below(256) as u8),
        }
        let whole = is_whole(&encoded);
        refused += u32::from(!whole);
        let fault = fault(&encoded).filter(|_| whole);
        assert_eq!(fault, None, "round {round}");
    }
    assert!((1000..5900).contains(&refused), "{refused} of 6000");
}

/// One table out of a file must not be found by the next one, which has none.
#[test]
fn what_one_file_has_told_is_not_known_of_the_next_one() {
    let mut checker = Checker::default();
    let whole = BASELINE[0];
    let table = memchr::memmem::find(whole, &[0xff, 0xc4]).expect("tables");
    let length = usize::from(u16::from_be_bytes([whole[table + 2], whole[table + 3]]));
    let without = [&whole[..table], &whole[table + 2 + length..]].concat();
    for _ in 0..2 {
        assert!(checker.is_whole(whole) && !checker.is_whole(&without));
    }
}

#[test]
fn whatever_a_header_says_there_is_an_answer() {
    let key = DrawKey { seed: 72, epoch: 0, pass: 0, sample: SampleId(0), stream: 0 };
    let mut rng = key.rng();
    let (mut whole, mut checker) = (0, Checker::default());
    for _ in 0..4000 {
        let mut encoded = BASELINE[rng.below(BASELINE.len() as u64) as usize].to_vec();
        let start = scan_start(&encoded) as u64;
        for _ in 0..=rng.below(3) {
            encoded[rng.below(start) as usize] = rng.below(256) as u8;
        }
        let found = checker.is_whole(&encoded);
        assert_eq!(found, is_whole(&encoded), "what came before changes nothing");
        whole += u32::from(found);
    }
    assert!((200..3800).contains(&whole), "{whole} of 4000");
}
