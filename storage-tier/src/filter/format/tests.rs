use std::path::{Path, PathBuf};

use super::*;
use crate::filter::{FilterConfig, FilterKind};
use crate::format::conformance::{self, samples};
use crate::format::{Parquet, Tar};
use crate::kept::{KeptIndices, KeptPlaces};
use crate::{DatasetConfig, OnBrokenShard};

fn tar_format() -> Arc<dyn Format> {
    Arc::new(Tar::new(OnBrokenShard::Fail, Arc::new(KeptIndices::none())))
}

fn filtered(format: Arc<dyn Format>, all: &[FilterConfig], writes: bool) -> Arc<Filtered> {
    let filters = Filters::of("d", all).unwrap().unwrap();
    let kept = KeptPositions::new(KeptPlaces::default(), writes);
    Arc::new(Filtered::new(format, Arc::new(filters), Arc::new(kept)))
}

fn filter(kind: FilterKind, field: &str, min: f64, max: f64) -> FilterConfig {
    let field = field.to_owned();
    FilterConfig { kind, field, min: Some(min), max: Some(max), ..FilterConfig::default() }
}

fn data(name: &str) -> Place {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data");
    Place::of_file(&folder.join(name))
}

/// Samples `0` to `5` with a caption, a score in a document, and a number; not all of them.
fn captions(folder: &Path) -> PathBuf {
    let path = folder.join("captions.tar");
    let mut archive = tar::Builder::new(std::fs::File::create(&path).unwrap());
    for (name, bytes) in [
        ("0.txt", "a"),
        ("0.json", "{\"scores\": {\"clip\": 0.3}}"),
        ("1.json", "{\"scores\": {\"clip\": 0.9}}"),
        ("2.txt", "ccc"),
        ("2.json", "{\"scores\": {\"clip\": 0.1}}"),
        ("3.txt", "dd"),
        ("3.json", "{\"scores\": {}}"),
        ("4.txt", "eeeee"),
        ("4.json", "{\"scores\": {\"clip\": 0.5}}"),
        ("4.len", " 5\n"),
        ("5.txt", "ff"),
        ("5.json", "{\"scores\": {\"clip\": 0.7"),
    ] {
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        archive.append_data(&mut header, name, bytes.as_bytes()).unwrap();
    }
    archive.finish().unwrap();
    path
}

#[test]
fn samples_stay_that_meet_all_filters_and_each_filter_counts_what_it_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let place = Place::of_file(&captions(folder.path()));
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
        let format = filtered(tar_format(), &filters, false);
        let shown = samples(&*format, &place).unwrap();
        let keys: String = shown.iter().map(|(key, _)| key.as_str()).collect();
        assert_eq!((keys.as_str(), format.left_out()), (stay, left_out), "{filters:?}");
    }
}

#[test]
fn a_filtered_format_keeps_the_contract() {
    let wide = [filter(FilterKind::Width, "", 300.0, f64::INFINITY)];
    let make = || filtered(tar_format(), &wide, false) as Arc<dyn Format>;
    let found = conformance::check(&make, &data("photos/photos-000001.tar"));
    let all = samples(&*tar_format(), &data("photos/photos-000001.tar")).unwrap();
    assert!(found.len() < all.len() && found.iter().all(|sample| all.contains(sample)));

    let dataset = DatasetConfig::default();
    let parquet = || Arc::new(Parquet::new(&dataset)) as Arc<dyn Format>;
    let place = data("formats/parquet/hub.parquet");
    let all = samples(&*parquet(), &place).unwrap();
    let label = |sample: &conformance::Shown| {
        let value = sample.1.iter().find(|(name, _)| name == "label");
        value.map_or(f64::NAN, |(_, value)| std::str::from_utf8(value).unwrap().parse().unwrap())
    };
    let some = [filter(FilterKind::Number, "label", 0.0, 2.0)];
    let make = || filtered(parquet(), &some, false) as Arc<dyn Format>;
    let found = conformance::check(&make, &place);
    let expected: Vec<_> =
        all.into_iter().filter(|sample| (0.0..=2.0).contains(&label(sample))).collect();
    assert!(found == expected && !found.is_empty());
}

/// Two filters that leave the same samples make the same dataset, and others another.
#[test]
fn the_digest_follows_from_the_samples_that_stay() {
    let folder = tempfile::tempdir().unwrap();
    let place = Place::of_file(&captions(folder.path()));
    let digest = |filter: FilterConfig| {
        filtered(tar_format(), &[filter], false).outlines(&place).unwrap()[0].digest
    };
    let len = |max| digest(filter(FilterKind::Number, "len", 5.0, max));
    let bytes = |min| digest(filter(FilterKind::Bytes, "txt", min, 9.0));
    assert_eq!(len(5.0), len(6.0));
    assert_eq!(len(5.0), bytes(5.0));
    assert_ne!(len(5.0), bytes(3.0));
}

/// What was decided is not decided again, and not believed of a file that has changed.
#[test]
fn positions_are_kept_beside_the_shard() {
    let folder = tempfile::tempdir().unwrap();
    let path = captions(folder.path());
    let place = Place::of_file(&path);
    let filters = [filter(FilterKind::Bytes, "txt", 1.0, 3.0)];
    let keys = || {
        let shown = samples(&*filtered(tar_format(), &filters, true), &place).unwrap();
        shown.into_iter().map(|(key, _)| key).collect::<String>()
    };
    assert_eq!(keys(), "0235");
    let kept: Vec<PathBuf> =
        std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
    let kept = kept.iter().find(|path| path.extension().is_some_and(|end| end == "hwfilter"));
    let written = std::fs::metadata(kept.unwrap()).unwrap().modified().unwrap();
    assert_eq!(keys(), "0235");
    let again = std::fs::metadata(kept.unwrap()).unwrap().modified().unwrap();
    assert_eq!(written, again, "it was decided again");
    let bytes = std::fs::read(&path).unwrap();
    let at = bytes.windows(5).position(|five| five == b"3.txt").unwrap();
    let mut other = bytes.clone();
    // Its caption lies in the next block, and becomes longer: `dd` and two more.
    other[at + 124..at + 136].copy_from_slice(b"00000000004\0");
    let sum: u32 = other[at..at + 512]
        .iter()
        .enumerate()
        .map(|(i, byte)| if (148..156).contains(&i) { 32 } else { u32::from(*byte) })
        .sum();
    other[at + 148..at + 156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    std::fs::write(&path, other).unwrap();
    let later = std::time::SystemTime::now() + std::time::Duration::from_secs(5);
    std::fs::File::options().append(true).open(&path).unwrap().set_modified(later).unwrap();
    assert_eq!(keys(), "025");
}
