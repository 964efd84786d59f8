use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use headwater_core::ShardIndex;
use headwater_storage_client::{IndexedShard, Object, ObjectError, ShardFile};

use super::*;
use crate::filter::{FilterConfig, FilterKind};
use crate::format::conformance::samples;
use crate::format::{Packed, Parquet, SampleSink, Tar};
use crate::kept::{KeptIndices, KeptPlaces};
use crate::{DatasetConfig, OnBrokenShard};

fn tar_format() -> Tar {
    Tar::new(OnBrokenShard::Fail, Arc::new(KeptIndices::none()))
}

fn filtering(all: &[FilterConfig]) -> Filtering {
    let filters = Filters::of("d", all).unwrap().unwrap();
    Filtering::new(filters, KeptPositions::new(KeptPlaces::default(), true))
}

fn decided(format: &dyn Format, place: &Place, all: &[FilterConfig]) -> Positions {
    let outlines = format.outlines(place).unwrap();
    filtering(all).decide(format, place, 0, &outlines[0]).unwrap()
}

/// Keys of the samples that stay.
fn staying(format: &dyn Format, place: &Place, positions: &Positions) -> Vec<String> {
    let shown = samples(format, place).unwrap().into_iter().zip(0..);
    shown.filter(|(_, at)| positions.stays(*at)).map(|((key, _), _)| key).collect()
}

fn filter(kind: FilterKind, field: &str, min: f64, max: f64) -> FilterConfig {
    let field = field.to_owned();
    FilterConfig { kind, field, min: Some(min), max: Some(max), ..FilterConfig::default() }
}

fn data(name: &str) -> Place {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data");
    Place::of_file(&folder.join(name))
}

fn tar_of(path: &Path, members: &[(&str, &[u8])]) -> Place {
    let mut archive = tar::Builder::new(std::fs::File::create(path).unwrap());
    for (name, bytes) in members {
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        archive.append_data(&mut header, name, *bytes).unwrap();
    }
    archive.finish().unwrap();
    Place::of_file(path)
}

/// Samples `0` to `5` with a caption, a score in a document, and a number; not all of them.
fn captions(folder: &Path) -> Place {
    tar_of(
        &folder.join("captions.tar"),
        &[
            ("0.txt", b"a"),
            ("0.json", b"{\"scores\": {\"clip\": 0.3}}"),
            ("1.json", b"{\"scores\": {\"clip\": 0.9}}"),
            ("2.txt", b"ccc"),
            ("2.json", b"{\"scores\": {\"clip\": 0.1}}"),
            ("3.txt", b"dd"),
            ("3.json", b"{\"scores\": {}}"),
            ("4.txt", b"eeeee"),
            ("4.json", b"{\"scores\": {\"clip\": 0.5}}"),
            ("4.len", b" 5\n"),
            ("5.txt", b"ff"),
            ("5.json", b"{\"scores\": {\"clip\": 0.7"),
        ],
    )
}

#[test]
fn samples_stay_that_meet_all_filters_and_each_filter_counts_what_it_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let place = captions(folder.path());
    let present = |field: &str| FilterConfig { field: field.into(), ..FilterConfig::default() };
    let clip = FilterConfig {
        path: "/scores/clip".into(),
        ..filter(FilterKind::Number, "json", 0.2, f64::INFINITY)
    };
    let bytes = filter(FilterKind::Bytes, "txt", 1.0, 3.0);
    let len = filter(FilterKind::Number, "len", 5.0, 5.0);
    for (filters, stay, left_out) in [
        (vec![present("txt")], "02345", vec![1]),
        (vec![clip.clone()], "014", vec![3]),
        (vec![present("txt"), clip.clone()], "04", vec![1, 3]),
        (vec![clip.clone(), present("txt")], "04", vec![3, 1]),
        (vec![bytes], "0235", vec![2]),
        (vec![present("caption|TXT"), len], "4", vec![1, 4]),
    ] {
        let positions = decided(&tar_format(), &place, &filters);
        let keys = staying(&tar_format(), &place, &positions).concat();
        assert_eq!((&*keys, &positions.left_out), (stay, &left_out), "{filters:?}");
    }
}

/// A TIFF of 4 columns and 3 rows, gray, to be seen turned by a quarter.
fn turned_tiff() -> Vec<u8> {
    let tags: [(u16, u16, u32); 10] = [
        (256, 3, 4),   // ImageWidth
        (257, 3, 3),   // ImageLength
        (258, 3, 8),   // BitsPerSample
        (259, 3, 1),   // Compression: none
        (262, 3, 1),   // PhotometricInterpretation: black is zero
        (273, 4, 134), // StripOffsets
        (274, 3, 6),   // Orientation
        (277, 3, 1),   // SamplesPerPixel
        (278, 3, 3),   // RowsPerStrip
        (279, 4, 12),  // StripByteCounts
    ];
    let mut file = b"II*\0\x08\0\0\0".to_vec();
    file.extend((tags.len() as u16).to_le_bytes());
    for (tag, kind, value) in tags {
        file.extend([tag, kind].map(u16::to_le_bytes).concat());
        file.extend([1, value].map(u32::to_le_bytes).concat());
    }
    file.extend([0; 4]);
    assert_eq!(file.len(), 134);
    file.extend(0..12);
    file
}

#[test]
fn sizes_are_those_of_stored_images_and_only_a_tiff_counts_as_it_is_turned() {
    let folder = tempfile::tempdir().unwrap();
    let photo =
        std::fs::read(data("../../libs/render/tests/fixtures/views/chelsea.jpg").path).unwrap();
    // `Exif`, and the directory of the TIFF, whose tag 274 says that it is turned.
    let tiff = turned_tiff();
    let mut turned = photo[..2].to_vec();
    turned.extend([0xff, 0xe1]);
    turned.extend((2 + 6 + tiff.len() as u16).to_be_bytes());
    turned.extend(b"Exif\0\0".iter().chain(&tiff).chain(&photo[2..]));
    let members: [(&str, &[u8]); 3] = [("0.jpg", &photo), ("1.jpg", &turned), ("2.tiff", &tiff)];
    let place = tar_of(&folder.path().join("turned.tar"), &members);
    for (kind, least, most, stay) in [
        (FilterKind::Width, 40.0, 40.0, "01"),
        (FilterKind::Height, 23.0, 23.0, "01"),
        (FilterKind::Width, 3.0, 3.0, "2"),
        (FilterKind::Height, 4.0, 4.0, "2"),
        (FilterKind::Aspect, 0.0, 0.99, "2"),
    ] {
        let filters = [filter(kind, "jpg|tiff", least, most)];
        let positions = decided(&tar_format(), &place, &filters);
        let keys = staying(&tar_format(), &place, &positions).concat();
        assert_eq!(keys, stay, "{filters:?}");
    }
}

/// What a filter asks of a field has the same answer in both: read in place, or unpacked.
#[test]
fn samples_that_are_unpacked_are_judged_as_those_in_place() {
    let folder = tempfile::tempdir().unwrap();
    let photo =
        std::fs::read(data("../../libs/render/tests/fixtures/views/chelsea.jpg").path).unwrap();
    // A header behind more than what is read of it at first, and a document larger than is taken.
    let mut late = photo[..2].to_vec();
    late.extend([0xff, 0xfe, 0xff, 0xff].iter().chain(&[0; 65533]).chain(&photo[2..]));
    let large = format!("{{\"s\": 1, \"pad\": \"{}\"}}", " ".repeat(4 << 20));
    let members: &[(&str, &[u8])] = &[
        ("0.jpg", &photo),
        ("0.json", b"{\"s\": 1}"),
        ("1.jpg", &late),
        ("1.json", b"{\"s\": 0}"),
        ("2.jpg", &photo[..photo.len() - 9]),
        ("2.json", large.as_bytes()),
        ("3.jpg", &photo[..20]),
        ("3.json", b"{\"s\": 1}"),
    ];
    let place = tar_of(&folder.path().join("a.tar"), members);
    let s = FilterConfig { path: "/s".into(), ..filter(FilterKind::Number, "json", 1.0, 1.0) };
    let wide = filter(FilterKind::Width, "jpg", 2.0, f64::INFINITY);
    for (filters, stay) in
        [(vec![s.clone()], "03"), (vec![wide.clone()], "012"), (vec![wide, s], "0")]
    {
        let positions = decided(&tar_format(), &place, &filters);
        assert_eq!(staying(&tar_format(), &place, &positions).concat(), stay, "{filters:?}");
        let verdict = judge_packed(&filtering(&filters).filters, &mut Members(members)).unwrap();
        let unpacked: Vec<_> = (0..4).map(|at| positions.stays(at)).collect();
        assert_eq!(
            (verdict.stays, verdict.left_out),
            (unpacked, positions.left_out),
            "{filters:?}"
        );
    }
}

/// A shard that counts what is read of it.
#[derive(Debug)]
struct CountedShard {
    file: ShardFile,
    reads: Arc<Mutex<Vec<Vec<Range<u64>>>>>,
}

impl Object for CountedShard {
    fn name(&self) -> String {
        Object::name(&self.file)
    }

    fn bytes(&self) -> u64 {
        self.file.bytes()
    }

    fn version(&self) -> String {
        Object::version(&self.file)
    }

    fn read_many(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>, ObjectError> {
        self.reads.lock().unwrap().push(ranges.to_vec());
        self.file.read_many(ranges)
    }

    fn check_unchanged(&self) -> Result<(), ObjectError> {
        Object::check_unchanged(&self.file)
    }
}

/// Which samples of a tar stay, and the ranges of each call that read them.
fn judged(place: &Place, filters: &[FilterConfig]) -> (Vec<bool>, Vec<Vec<Range<u64>>>) {
    let version = tar_format().outlines(place).unwrap()[0].version;
    let Opened::InPlace(shard) = tar_format().open(place, 0, version).unwrap() else {
        panic!("a tar is read in place");
    };
    let (file, reads) = (ShardFile::open(&place.path).unwrap(), Arc::default());
    let object = CountedShard { file, reads: Arc::clone(&reads) };
    let shard = IndexedShard::new(Arc::new(object), shard.index().clone()).unwrap();
    let verdict = judge_in_place(&filtering(filters).filters, &shard).unwrap();
    let reads = reads.lock().unwrap().clone();
    (verdict.stays, reads)
}

#[test]
fn the_first_bytes_of_a_large_webp_are_enough() {
    let folder = tempfile::tempdir().unwrap();
    let small = data("../../libs/render/tests/fixtures/decode/lossy.webp").path;
    let mut large = std::fs::read(small).unwrap();
    large.extend([&b"JUNK"[..], &60_000_u32.to_le_bytes(), &[0; 60_000]].concat());
    let len = large.len() as u32 - 8;
    large[4..8].copy_from_slice(&len.to_le_bytes());
    let cut = &large[..large.len() - 1];
    let place = tar_of(&folder.path().join("a.tar"), &[("0.webp", &large), ("1.webp", cut)]);
    // 83 columns, as Pillow says.
    let (stays, reads) = judged(&place, &[filter(FilterKind::Width, "webp", 83.0, 83.0)]);
    assert_eq!(stays, [true, false], "what is cut is no image");
    let most = reads[0].iter().map(|range| range.end - range.start).max();
    assert_eq!((reads[0].len(), most), (2, Some(16 << 10)));
    assert!(reads[1..].iter().flatten().all(|range| range.start > large.len() as u64), "{reads:?}");
}

/// Every read of an object store waits for an answer.
#[test]
fn what_is_read_of_samples_once_more_is_read_together() {
    let folder = tempfile::tempdir().unwrap();
    let photo =
        std::fs::read(data("../../libs/render/tests/fixtures/views/chelsea.jpg").path).unwrap();
    let mut late = photo[..2].to_vec();
    late.extend([0xff, 0xfe, 0xff, 0xff].iter().chain(&[0; 65533]).chain(&photo[2..]));
    let names: Vec<String> = (0..30).map(|number| format!("{number:02}.jpg")).collect();
    let members: Vec<(&str, &[u8])> = names
        .iter()
        .zip(0..)
        .map(|(name, at)| (&**name, if at % 3 == 0 { &late[..] } else { &photo }))
        .collect();
    let place = tar_of(&folder.path().join("a.tar"), &members);
    let (stays, reads) = judged(&place, &[filter(FilterKind::Width, "jpg", 2.0, f64::INFINITY)]);
    assert_eq!(stays, [true; 30]);
    assert_eq!(reads.iter().map(Vec::len).collect::<Vec<_>>(), [30, 10]);
}

/// Samples of two fields each.
#[derive(Debug)]
struct Members<'a>(&'a [(&'a str, &'a [u8])]);

impl Packed for Members<'_> {
    fn unpack(&mut self, sink: &mut dyn SampleSink) -> Result<(), StorageError> {
        for sample in self.0.chunks(2) {
            sink.sample(&sample[0].0[..1])?;
            sample.iter().try_for_each(|(name, bytes)| sink.field(&name[2..], bytes))?;
        }
        Ok(())
    }
}

#[test]
fn rows_are_filtered_by_their_columns() {
    let parquet = Parquet::new(&DatasetConfig::default());
    let place = data("formats/parquet/hub.parquet");
    let some = [filter(FilterKind::Number, "label", 0.0, 2.0)];
    let positions = decided(&parquet, &place, &some);
    let all = samples(&parquet, &place).unwrap();
    let first = parquet.outlines(&place).unwrap()[0].samples;
    for ((_, fields), at) in all.iter().zip(0..first) {
        let label = fields.iter().find(|(name, _)| name == "label").map(|(_, value)| value);
        let label: Option<f64> =
            label.map(|value| std::str::from_utf8(value).unwrap().parse().unwrap());
        let is_in = label.is_some_and(|label| (0.0..=2.0).contains(&label));
        assert_eq!(positions.stays(at), is_in, "{at}: {label:?}");
    }
    assert!((1..first).contains(&positions.count()));
}

/// Two filters that leave the same samples make the same dataset, and others another.
#[test]
fn the_digest_follows_from_the_samples_that_stay() {
    let folder = tempfile::tempdir().unwrap();
    let place = captions(folder.path());
    let digest = |filter: FilterConfig| decided(&tar_format(), &place, &[filter]).digest;
    let len = |max| digest(filter(FilterKind::Number, "len", 5.0, max));
    let bytes = |min| digest(filter(FilterKind::Bytes, "txt", min, 9.0));
    assert_eq!(len(5.0), len(6.0));
    assert_eq!(len(5.0), bytes(5.0));
    assert_ne!(len(5.0), bytes(3.0));
    assert_ne!(len(5.0), ShardIndex::default().digest());
}

/// What was decided holds for the same files and no others.
#[test]
fn positions_are_kept_beside_the_shard() {
    let folder = tempfile::tempdir().unwrap();
    let place = captions(folder.path());
    let filtering = filtering(&[filter(FilterKind::Bytes, "txt", 1.0, 3.0)]);
    let outlines = || tar_format().outlines(&place).unwrap();
    let known = || filtering.known(&tar_format(), &place, &outlines());
    assert_eq!(known(), None);
    let found = vec![filtering.decide(&tar_format(), &place, 0, &outlines()[0]).unwrap()];
    filtering.keep(&tar_format(), &place, &outlines(), &found);
    assert_eq!(known(), Some(found));
    let kept: Vec<PathBuf> =
        std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(kept.iter().any(|path| path.extension().is_some_and(|end| end == "hwfilter")));
    tar_of(&place.path, &[("0.txt", b"another")]);
    assert_eq!(known(), None);
}
