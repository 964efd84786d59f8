use std::collections::BTreeMap;
use std::path::Path;

use bytes::Bytes;

use super::*;
use crate::format::{conformance, fixtures};

fn parquet() -> Parquet {
    Parquet::new(&DatasetConfig::default())
}

#[test]
fn only_the_columns_named_are_read_and_one_that_is_not_there_is_told() {
    let dataset = |columns: &[&str]| DatasetConfig {
        columns: columns.iter().map(|&name| name.to_owned()).collect(),
        ..DatasetConfig::default()
    };
    let place = Place::of_file(&fixtures::data().join("parquet/hub.parquet"));
    let format = Parquet::new(&dataset(&["image", "label"]));
    let shards = fixtures::read(&format, &place).unwrap();
    let fields: Vec<_> = shards[0].samples[0].fields.keys().map(String::as_str).collect();
    assert!(["image", "label"].iter().all(|name| fields.contains(name)), "{fields:?}");
    assert!(!fields.contains(&"score"), "{fields:?}");
    let all = parquet().outlines(&place).unwrap();
    assert_ne!(all[0].digest, format.outlines(&place).unwrap()[0].digest);
    let error = Parquet::new(&dataset(&["picture"])).outlines(&place).unwrap_err().to_string();
    assert!(error.contains("`picture`") && error.contains("image"), "{error}");
}

#[test]
fn files_of_pyarrow_give_what_it_reads_of_them() {
    fixtures::hold(&parquet(), "parquet", &fixtures::data());
}

#[test]
fn a_file_that_pyarrow_writes_now_gives_what_it_reads_of_it() {
    fixtures::hold_written_now(&parquet(), "parquet");
}

#[test]
fn parquet_keeps_the_contract_of_formats() {
    let place = Place::of_file(&fixtures::data().join("parquet/encodings.parquet"));
    let make = || Arc::new(parquet()) as Arc<dyn Format>;
    assert_eq!(conformance::check(&make, &place).len(), 100);
}

#[test]
fn broken_bytes_are_refused_and_nothing_panics() {
    // The footer is not checked by any sum, nor are pages without one: a name or a value may be
    // another. Where pages have sums, none is.
    for (name, step, sums) in [("encodings.parquet", 1, true), ("hub.parquet", 23, false)] {
        let path = Path::new(name);
        let bytes =
            Bytes::from(std::fs::read(fixtures::data().join("parquet").join(name)).unwrap());
        let footer = u32::from_le_bytes(*bytes[..bytes.len() - 4].last_chunk().unwrap()) as usize;
        let data_end = bytes.len() - 8 - footer;
        let objects = BTreeMap::from([(path.to_owned(), bytes)]);
        let may_differ = |at| !sums || at >= data_end;
        fixtures::hold_broken(&parquet(), &objects, path, path, step, may_differ);
    }
}

#[test]
fn a_file_of_something_else_is_refused_with_its_name() {
    let path = Path::new("set/a.parquet");
    for (bytes, says) in [
        (&b""[..], "too short"),
        (b"PAR1 but no end of it", "does not end as Parquet does"),
        (b"PAR1\0\0\0\0PARE", "encrypted"),
        (b"PAR1\xff\xff\0\0PAR1", "longer than the file"),
    ] {
        let objects = BTreeMap::from([(path.to_owned(), Bytes::from(bytes))]);
        let place =
            Place { source: Arc::new(fixtures::Memory::new(objects)), path: path.to_owned() };
        let error = parquet().outlines(&place).unwrap_err().to_string();
        assert!(error.contains("set/a.parquet") && error.contains(says), "{error}");
    }
}
