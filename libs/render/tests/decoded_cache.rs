//! Images of the decoded cache have the decoder's pixels, whoever has written them and whatever became of their files.

#[path = "support/photos.rs"]
mod photos;

use std::fs::{File, FileTimes, OpenOptions};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use headwater_cache::CacheLevel;
use headwater_core::draw::{CropBox, DrawKey, Extent};
use headwater_core::recipe::ExifOrientation;
use headwater_core::{Dtype, Recipe, SampleId};
use headwater_render::decode::{DecodeLimits, DecodedCache, Decoder, Wanted};
use xxhash_rust::xxh3::xxh3_128;

const MIB: u64 = 1 << 20;
const HOUR: Duration = Duration::from_secs(3600);
/// Bytes of a file before the pixels.
const HEADER: u64 = 4096;

/// A folder and what is in it.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a folder"))
    }

    /// A cache as one more process would open it.
    fn cache(&self, bytes: u64, keep: Duration) -> Arc<DecodedCache> {
        let level = CacheLevel { dir: self.0.path().to_owned(), bytes };
        DecodedCache::open(&[level], keep, 1).expect("a cache").expect("a level")
    }

    fn decoder(&self) -> Decoder {
        decoder().caching(Some(self.cache(1 << 30, HOUR)))
    }

    /// Files of images that are whole.
    fn entries(&self) -> Vec<PathBuf> {
        files(self.0.path())
            .into_iter()
            .filter(|path| path.to_string_lossy().contains("/entries/"))
            .collect()
    }

    fn bytes(&self) -> u64 {
        let files = files(self.0.path());
        files.iter().map(|path| path.metadata().expect("a file").len()).sum()
    }
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found
}

fn decoder() -> Decoder {
    Decoder::new(DecodeLimits::default()).expect("a decoder")
}

/// Every fourth photograph of `tests/data`: baseline, progressive, gray, of four inks.
fn some_photos() -> impl Iterator<Item = (usize, Vec<u8>)> {
    photos::all().into_iter().enumerate().step_by(4)
}

/// A file of `tests/fixtures/decode`.
fn fixture(name: &str) -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/decode");
    std::fs::read(folder.join(name)).expect("a fixture")
}

/// Number of a file, which is another one when it is written again while the first is open.
fn number(path: &Path) -> u64 {
    path.metadata().expect("a file").ino()
}

fn used_at(path: &Path) -> SystemTime {
    path.metadata().and_then(|metadata| metadata.accessed()).expect("a time")
}

#[test]
fn an_image_is_decoded_once_and_read_by_others_from_then_on() {
    let folder = Folder::new();
    let (mut plain, mut writer, mut reader) = (decoder(), folder.decoder(), folder.decoder());
    let mut written = 0;
    for (name, encoded) in some_photos() {
        let expected = plain.decode(&encoded).expect("a photograph").pixels();
        let first = writer.decode(&encoded).expect("a photograph").pixels();
        assert!(first == expected, "{name}, decoded");
        written += 1;
        assert_eq!(folder.entries().len(), written);
    }
    let long_ago = SystemTime::UNIX_EPOCH + HOUR;
    // Open: no other file has the number of one of them.
    let mut before = Vec::new();
    for path in folder.entries() {
        let file = File::open(&path).unwrap();
        file.set_times(FileTimes::new().set_accessed(long_ago)).unwrap();
        before.push((path, file));
    }
    for (name, encoded) in some_photos() {
        let expected = plain.decode(&encoded).expect("a photograph").pixels();
        assert!(
            reader.decode(&encoded).expect("a photograph").pixels() == expected,
            "{name}, read"
        );
    }
    assert!(folder.entries().iter().all(|path| used_at(path) > long_ago), "all were read");
    assert_eq!((folder.entries().len(), before.len()), (written, written));
    let is_same = |(path, file): &(PathBuf, File)| number(path) == file.metadata().unwrap().ino();
    assert!(before.iter().all(is_same), "none was written again");
}

/// What the first view wants is not all that is there for the next one.
#[test]
fn any_window_can_be_read_after_another_one_was_wanted() {
    let folder = Folder::new();
    let (mut plain, mut known) = (decoder(), folder.decoder());
    for (name, encoded) in some_photos() {
        let whole = plain.decode(&encoded).expect("a photograph");
        let Extent { width, height } = whole.extent();
        let key = DrawKey { seed: 1, epoch: 0, pass: 0, sample: SampleId(name as u64), stream: 0 };
        let mut rng = key.rng();
        for _ in 0..6 {
            let mut below = |bound: u32| rng.below(u64::from(bound)) as u32;
            let (left, top) = (below(width), below(height));
            let (columns, rows) = (1 + below(width - left), 1 + below(height - top));
            let window = CropBox { left, top, width: columns, height: rows };
            let image = known.decode_wanted(&encoded, |_| Wanted { reduction: 1, window });
            let image = image.expect("a photograph");
            assert_eq!(image.extent(), whole.extent());
            for channel in 0..3 {
                let rows = top as usize..(top + rows) as usize;
                let columns = left as usize..(left + columns) as usize;
                let both = image.rows(channel).zip(whole.rows(channel));
                let mut both = both.skip(rows.start).take(rows.len());
                let is_equal =
                    both.all(|(row, expected)| row[columns.clone()] == expected[columns.clone()]);
                assert!(is_equal, "{name}, {window:?}");
            }
        }
    }
}

/// As a drive gives back other bytes than were written: without a trace in the file's times.
#[test]
fn damaged_pixels_are_never_seen_and_are_written_anew() {
    let folder = Folder::new();
    let mut known = folder.decoder();
    for (name, encoded) in some_photos().take(8) {
        let expected = known.decode(&encoded).expect("a photograph").pixels();
        let [path] = &folder.entries()[..] else { panic!("one image") };
        let length = path.metadata().unwrap().len();
        let good = std::fs::read(path).unwrap();
        for at in [0, 3000, HEADER, HEADER + (length - HEADER) / 2, length - 1] {
            let changed_at = path.metadata().unwrap().modified().unwrap();
            let file = OpenOptions::new().write(true).open(path).unwrap();
            file.write_all_at(&[good[at as usize] ^ 0x10], at).unwrap();
            file.set_times(FileTimes::new().set_modified(changed_at)).unwrap();
            drop(file);
            for _ in 0..2 {
                let found = known.decode(&encoded).expect("a photograph").pixels();
                assert!(found == expected, "{name}, byte {at}");
            }
            let again = std::fs::read(path).unwrap();
            assert!(again[HEADER as usize..] == good[HEADER as usize..], "{name}, byte {at}");
        }
        std::fs::remove_file(path).unwrap();
    }
}

#[test]
fn a_full_cache_stays_within_its_bytes_and_keeps_what_was_used() {
    let mut all: Vec<_> = some_photos().collect();
    for keep in [HOUR, Duration::ZERO] {
        let folder = Folder::new();
        let mut known = decoder().caching(Some(folder.cache(4 * MIB, keep)));
        let mut seen = Vec::new();
        for _ in 0..2 {
            for (_, encoded) in &all {
                known.decode(encoded).expect("a photograph");
                assert!(folder.bytes() <= 4 * MIB + HEADER, "{} bytes", folder.bytes());
            }
            seen.push(folder.entries());
            // Those that came last are the first to come again.
            all.reverse();
        }
        assert!(!seen[0].is_empty());
        seen.iter_mut().for_each(|entries| entries.sort());
        assert_eq!(seen[0] == seen[1], keep > Duration::ZERO, "what is there stays for {keep:?}");
    }
}

/// It is kept as it is stored, whoever turns it.
#[test]
fn an_image_that_is_there_is_turned_for_those_who_ask_for_it() {
    let encoded = fixture("../turned/6.jpg");
    let (ignore, apply) = (ExifOrientation::Ignore, ExifOrientation::Apply);
    for order in [[ignore, apply, ignore], [apply, ignore, apply]] {
        let folder = Folder::new();
        for exif_orientation in order {
            let recipe = Recipe { exif_orientation, ..bounded(DecodeLimits::default()) };
            let (mut known, mut plain) = (folder.decoder(), decoder());
            known.follow(&recipe).expect("memory");
            plain.follow(&recipe).expect("memory");
            let expected = plain.decode(&encoded).expect("an image");
            let found = known.decode(&encoded).expect("an image");
            assert_eq!(found.extent(), expected.extent());
            assert!(found.pixels() == expected.pixels());
        }
        assert_eq!(folder.entries().len(), 1);
    }
}

fn bounded(decode_limits: DecodeLimits) -> Recipe {
    Recipe { decode_limits, ..Recipe::preset("imagenet-eval", Dtype::U8).expect("a preset") }
}

/// What a recipe allows decides as it does without a cache.
#[test]
fn an_image_that_is_there_is_held_against_the_limits() {
    let folder = Folder::new();
    let (_, encoded) = some_photos().next().expect("a photograph");
    let mut known = folder.decoder();
    let extent = known.decode(&encoded).expect("a photograph").extent();
    let pixels_max = u64::from(extent.width) * u64::from(extent.height) - 1;
    let limits = DecodeLimits { pixels_max, ..DecodeLimits::default() };
    let mut plain = Decoder::new(limits).expect("a decoder");
    let expected = plain.decode(&encoded).map(|_| ()).expect_err("it is too large");
    known.follow(&bounded(limits)).expect("memory");
    assert_eq!(known.decode(&encoded).map(|_| ()).expect_err("it is too large"), expected);
}

#[test]
fn a_progressive_image_that_is_there_is_held_against_the_limit_of_scans() {
    let folder = Folder::new();
    let encoded = fixture("progressive-444.jpg");
    let mut known = folder.decoder();
    known.decode(&encoded).expect("few enough scans");
    assert_eq!(folder.entries().len(), 1);
    let limits = DecodeLimits { jpeg_scans_max: 3, ..DecodeLimits::default() };
    let mut plain = Decoder::new(limits).expect("a decoder");
    let expected = plain.decode(&encoded).map(|_| ()).expect_err("too many scans");
    known.follow(&bounded(limits)).expect("memory");
    assert_eq!(known.decode(&encoded).map(|_| ()).expect_err("too many scans"), expected);
}

/// It would not be read either, as who wants less decodes it.
#[test]
fn an_image_that_is_wanted_smaller_is_not_kept_whatever_its_format() {
    let folder = Folder::new();
    let mut known = folder.decoder();
    let names = ["rgb.png", "lossy.webp", "baseline-420.jpg"];
    for name in names {
        let encoded = fixture(name);
        let reduced = |extent| Wanted::reduced(extent, 2);
        let found = known.decode_wanted(&encoded, reduced).expect("an image").pixels();
        let mut plain = decoder();
        assert!(plain.decode_wanted(&encoded, reduced).expect("an image").pixels() == found);
        assert!(folder.entries().is_empty(), "{name}");
    }
    for (before, name) in names.into_iter().enumerate() {
        known.decode(&fixture(name)).expect("an image");
        assert_eq!(folder.entries().len(), before + 1, "{name}");
    }
}

/// As another release may write it.
#[test]
fn an_entry_of_an_unknown_form_is_written_anew() {
    let folder = Folder::new();
    let mut known = folder.decoder();
    let encoded = fixture("baseline-420.jpg");
    let expected = known.decode(&encoded).expect("an image").pixels();
    let [path] = &folder.entries()[..] else { panic!("one image") };
    let good = std::fs::read(path).unwrap();
    let changed_at = path.metadata().unwrap().modified().unwrap();
    let payload_bytes = u64::from_le_bytes(std::array::from_fn(|at| good[32 + at]));
    let meta_at = (HEADER + payload_bytes) as usize;
    let mut other = good.clone();
    other[meta_at] = 9;
    let checksum = xxh3_128(&other[meta_at..]).to_le_bytes();
    other[64..80].copy_from_slice(&checksum);
    let checksum = xxh3_128(&other[..4080]).to_le_bytes();
    other[4080..4096].copy_from_slice(&checksum);
    let file = OpenOptions::new().write(true).open(path).unwrap();
    file.write_all_at(&other, 0).unwrap();
    file.set_times(FileTimes::new().set_modified(changed_at)).unwrap();
    assert!(known.decode(&encoded).expect("an image").pixels() == expected);
    assert_eq!(std::fs::read(path).unwrap()[HEADER as usize..], good[HEADER as usize..]);
    assert_ne!(number(path), file.metadata().unwrap().ino());
}

#[test]
fn what_cannot_be_decoded_is_not_kept() {
    let folder = Folder::new();
    let mut known = folder.decoder();
    for (name, encoded) in some_photos().take(8) {
        let cut = &encoded[..encoded.len() / 2];
        let expected = decoder().decode(cut).map(|_| ()).expect_err("half a photograph");
        for _ in 0..2 {
            assert_eq!(known.decode(cut).map(|_| ()).expect_err("half"), expected, "{name}");
        }
    }
    assert!(folder.entries().is_empty());
}
