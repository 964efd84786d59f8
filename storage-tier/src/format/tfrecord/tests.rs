use std::collections::BTreeMap;
use std::path::Path;

use bytes::Bytes;

use super::*;
use crate::format::conformance::{self, Memory};
use crate::format::fixtures;

fn format(folder: &tempfile::TempDir) -> TfRecord {
    of(folder, &[])
}

/// Reads these features.
fn of(folder: &tempfile::TempDir, columns: &[&str]) -> TfRecord {
    let columns = columns.iter().map(|&name| name.to_owned()).collect();
    let kept = Arc::new(KeptIndices::new(Some(folder.path().to_owned()), None));
    TfRecord::new(&DatasetConfig { columns, ..DatasetConfig::default() }, kept)
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

fn file(name: &str) -> Bytes {
    std::fs::read(fixtures::data().join("tfrecord").join(name)).unwrap().into()
}

fn place(objects: &[(&str, Bytes)]) -> Place {
    let path = objects[0].0.into();
    let objects = objects.iter().map(|(name, bytes)| ((*name).into(), bytes.clone()));
    Place { source: Arc::new(Memory::new(objects.collect())), path }
}

#[test]
fn more_records_than_a_file_has_bytes_for_are_refused() {
    let mut record = 0u64.to_le_bytes().to_vec();
    record.extend(crc::masked(&record).to_le_bytes());
    record.extend(crc::masked(b"").to_le_bytes());
    let records = record.repeat(crate::format::PACKED_SAMPLES as usize + 1);
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut gzip, &records).unwrap();
    let place = place(&[("a.tfrecord.gz", gzip.finish().unwrap().into())]);
    let error = format(&folder()).outlines(&place).unwrap_err().to_string();
    assert!(error.contains("1048577 samples or more, limit 1048576"), "{error}");
}

#[test]
fn files_of_the_package_give_what_it_reads_of_them() {
    let kept = folder();
    fixtures::hold(&format(&kept), "tfrecord", &fixtures::data());
    // And once more from the indices that were kept.
    fixtures::hold(&format(&kept), "tfrecord", &fixtures::data());
}

#[test]
fn a_file_that_the_package_writes_now_gives_what_it_reads_of_it() {
    fixtures::hold_written_now(&format(&folder()), "tfrecord");
}

#[test]
fn an_index_gives_the_same_as_none_and_one_of_another_file_is_refused_with_its_line() {
    let (records, idx) = (file("photos.tfrecord"), file("photos.idx"));
    let outline = |objects: &[(&str, Bytes)]| {
        let mut outlines = format(&folder()).outlines(&place(objects))?;
        Ok::<_, StorageError>(outlines.remove(0))
    };
    let alone = outline(&[("a.tfrecord", records.clone())]).unwrap();
    let with = outline(&[("a.tfrecord", records.clone()), ("a.idx", idx.clone())]).unwrap();
    assert_eq!((alone.by, with.by), ("scan", "idx"));
    assert_eq!(alone.digest, with.digest);

    let text = String::from_utf8(idx.to_vec()).unwrap();
    let cut = text.lines().take(3).collect::<Vec<_>>().join("\n");
    let moved = text.replacen("951", "950", 1);
    for (wrong, line) in [(cut, "line 4"), (moved, "line 2"), ("0 x\n".to_owned(), "line 1")] {
        let objects = [("a.tfrecord", records.clone()), ("a.idx", wrong.into())];
        let error = outline(&objects).unwrap_err().to_string();
        assert!(error.contains(line) && error.contains("a.idx"), "{error}");
    }
}

#[test]
fn only_the_features_named_are_read() {
    let kept = folder();
    for name in ["photos.tfrecord", "packed.tfrecord.gz"] {
        let place = place(&[(name, file(name))]);
        // The kept index of all of them is not taken for that of a few.
        let all = format(&kept).outlines(&place).unwrap();
        let few = of(&kept, &["image/encoded"]).outlines(&place).unwrap();
        assert_eq!(few[0].fields, ["image/encoded"]);
        assert_ne!(few[0].digest, all[0].digest);
    }
}

#[test]
fn examples_of_sequences_are_refused_by_name() {
    let place = place(&[("a.tfrecord", file("sequences.tfrecord"))]);
    let error = format(&folder()).outlines(&place).unwrap_err().to_string();
    assert!(error.contains("SequenceExample") && error.contains("a.tfrecord"), "{error}");
}

#[test]
fn a_record_whose_data_were_changed_is_named_by_its_number() {
    let bytes = file("photos.tfrecord");
    let mut broken = bytes.to_vec();
    // Within the picture of the second record.
    let mut pictures = broken.windows(3).enumerate().filter(|(_, start)| start == b"\xff\xd8\xff");
    let (picture, _) = pictures.nth(1).unwrap();
    broken[picture + 20] ^= 1;
    let format = format(&folder());
    let verify = |bytes: Bytes| {
        let place = place(&[("a.tfrecord", bytes)]);
        let version = format.outlines(&place)?[0].version;
        format.verify(&place, 0, version)
    };
    assert_eq!(verify(bytes).unwrap(), []);
    let damage = verify(broken.into()).unwrap();
    assert_eq!(damage.iter().map(|damage| damage.sample).collect::<Vec<_>>(), [Some(1)]);
}

/// Keeps no index.
fn unkept() -> TfRecord {
    let kept = Arc::new(KeptIndices::new(Some("/proc/nowhere".into()), None));
    TfRecord::new(&DatasetConfig::default(), kept)
}

#[test]
fn tfrecords_keep_the_contract_of_formats() {
    for name in ["photos.tfrecord", "packed.tfrecord.gz"] {
        let place = Place::of_file(&fixtures::data().join("tfrecord").join(name));
        let make = || Arc::new(unkept()) as Arc<dyn Format>;
        assert_eq!(conformance::check(&make, &place).len(), 6);
    }
}

#[test]
fn broken_bytes_are_refused_and_nothing_panics() {
    let format = unkept();
    // Every byte has a checksum, of those of a value only `verify` looks at it.
    let path = Path::new("a.tfrecord");
    let objects = BTreeMap::from([(path.to_owned(), file("photos.tfrecord"))]);
    fixtures::hold_broken(&format, &objects, path, path, 2, |_| false);
    let path = Path::new("a.tfrecord.gz");
    let objects = BTreeMap::from([(path.to_owned(), file("packed.tfrecord.gz"))]);
    fixtures::hold_broken(&format, &objects, path, path, 2, |_| false);
}
