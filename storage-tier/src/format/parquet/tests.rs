use std::collections::BTreeMap;
use std::path::Path;

use bytes::Bytes;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::data_type::{ByteArray, ByteArrayType, Int32Type};
use parquet::file::properties::{WriterProperties, WriterVersion};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;

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
    assert!(
        error.contains("cannot be served: `columns` names `picture`, and it has `image`"),
        "{error}"
    );
}

#[test]
fn the_hubs_classes_of_the_label_are_those_of_the_dataset() {
    let of = |name: &str| {
        let place = Place::of_file(&fixtures::data().join("parquet").join(name));
        parquet().classes(&place).unwrap()
    };
    assert_eq!(of("hub.parquet"), ["cat", "dog", "a horse, grey"]);
    assert!(of("encodings.parquet").is_empty());
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

/// Equal values pack to nothing: 50 million rows have 178 kB, and take gigabytes of an index.
#[test]
fn more_rows_than_a_file_has_bytes_for_are_refused_from_its_footer() {
    let rows = crate::format::PACKED_SAMPLES as usize + 1;
    let schema = parse_message_type("message m { required int32 label; }").unwrap();
    let mut writer =
        SerializedFileWriter::new(Vec::new(), Arc::new(schema), Arc::default()).unwrap();
    let mut group = writer.next_row_group().unwrap();
    let mut column = group.next_column().unwrap().unwrap();
    column.typed::<Int32Type>().write_batch(&vec![7; rows], None, None).unwrap();
    column.close().unwrap();
    group.close().unwrap();
    let bytes = Bytes::from(writer.into_inner().unwrap());
    assert!(bytes.len() < 1 << 20);
    let path = Path::new("a.parquet");
    let objects = BTreeMap::from([(path.to_owned(), bytes)]);
    let place = Place { source: Arc::new(fixtures::Memory::new(objects)), path: path.to_owned() };
    let error = parquet().outlines(&place).unwrap_err().to_string();
    assert!(error.contains("row group 0 has 1048577 rows"), "{error}");
    assert!(error.contains("limit 1048576: write smaller row groups"), "{error}");
}

/// Of these rows in pages of the second version, whose heads say what they should not.
fn labels_of_pages(rows: i32, compression: Compression, says_unpacked: bool) -> Vec<String> {
    let schema = parse_message_type("message m { required int32 label; }").unwrap();
    let properties = WriterProperties::builder()
        .set_writer_version(WriterVersion::PARQUET_2_0)
        .set_compression(compression)
        .set_dictionary_enabled(false)
        .set_encoding(Encoding::PLAIN);
    let properties = Arc::new(properties.build());
    let mut writer = SerializedFileWriter::new(Vec::new(), Arc::new(schema), properties).unwrap();
    let mut group = writer.next_row_group().unwrap();
    let mut column = group.next_column().unwrap().unwrap();
    let values: Vec<i32> = (0..rows).map(|row| row / 100).collect();
    column.typed::<Int32Type>().write_batch(&values, None, None).unwrap();
    column.close().unwrap();
    group.close().unwrap();
    let mut bytes = writer.into_inner().unwrap();
    if says_unpacked {
        // After the fields 5 and 6 of the page's head, numbers of one byte, its seventh: on.
        let is_on = |at: &usize| matches!(bytes[*at..*at + 5], [0x15, _, 0x15, _, 0x11 | 0x12]);
        let at = (4..64).find(is_on).expect("a switch");
        bytes[at + 4] = 0x12;
    }
    let path = Path::new("a.parquet");
    let objects = BTreeMap::from([(path.to_owned(), Bytes::from(bytes))]);
    let place = Place { source: Arc::new(fixtures::Memory::new(objects)), path: path.to_owned() };
    let shards = fixtures::read(&parquet(), &place).unwrap();
    let samples = shards.iter().flat_map(|shard| &shard.samples);
    samples.map(|sample| String::from_utf8(sample.fields["label"].to_vec()).unwrap()).collect()
}

/// Arrow's C++ library wrote such heads before 3.0; pyarrow reads them.
#[test]
fn pages_that_say_that_they_are_not_compressed_and_are_have_their_values() {
    let expected: Vec<String> = (0..2000).map(|row| (row / 100).to_string()).collect();
    for compression in [Compression::SNAPPY, Compression::UNCOMPRESSED] {
        assert_eq!(labels_of_pages(2000, compression, false), expected);
        assert_eq!(labels_of_pages(2000, compression, true), expected);
    }
}

/// A text of a few megabytes that repeats itself, as Zstandard packs it.
#[test]
fn a_page_may_become_much_larger_than_its_bytes() {
    let zstd = Compression::ZSTD(ZstdLevel::default());
    let schema = parse_message_type("message m { required binary text (UTF8); }").unwrap();
    let properties =
        WriterProperties::builder().set_compression(zstd).set_dictionary_enabled(false);
    let properties = Arc::new(properties.build());
    let mut writer = SerializedFileWriter::new(Vec::new(), Arc::new(schema), properties).unwrap();
    let mut group = writer.next_row_group().unwrap();
    let mut column = group.next_column().unwrap().unwrap();
    let text = ByteArray::from(vec![b'a'; 12 << 20]);
    column.typed::<ByteArrayType>().write_batch(&[text], None, None).unwrap();
    column.close().unwrap();
    group.close().unwrap();
    let bytes = writer.into_inner().unwrap();
    assert!(bytes.len() < 4 << 10, "{}", bytes.len());
    let path = Path::new("a.parquet");
    let objects = BTreeMap::from([(path.to_owned(), Bytes::from(bytes))]);
    let place = Place { source: Arc::new(fixtures::Memory::new(objects)), path: path.to_owned() };
    let shards = fixtures::read(&parquet(), &place).unwrap();
    assert_eq!(shards[0].samples[0].fields["text"].len(), 12 << 20);
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

/// A file of the columns `a` and `b`. Pages of `b` are encrypted, and the footer is not.
fn file_with_an_encrypted_column() -> Vec<u8> {
    // Of INT32, required.
    let leaf = |name: u8| [0x15, 2, 0x25, 0, 0x18, 1, name, 0];
    let column = |name: u8, crypto: &[u8]| {
        // Type, encoding, path, codec, values, bytes unpacked and packed, and where the first page is.
        let metadata = [
            &[0x15, 2, 0x19, 0x15, 0, 0x19, 0x18, 1, name][..],
            &[0x15, 0, 0x16, 2, 0x16, 8, 0x16, 8, 0x26, 8, 0],
        ];
        [&[0x26, 0, 0x1c], &metadata.concat()[..], crypto, &[0]].concat()
    };
    // The eighth field: with the key of the footer.
    let columns = [column(b'a', &[]), column(b'b', &[0x5c, 0x1c, 0, 0])].concat();
    let schema = [&[0x48, 1, b'm', 0x15, 4, 0][..], &leaf(b'a'), &leaf(b'b')].concat();
    let group = [&[0x19, 0x2c][..], &columns, &[0x16, 0x10, 0x16, 2, 0]].concat();
    let footer =
        [&[0x15, 2, 0x19, 0x3c][..], &schema, &[0x16, 2, 0x19, 0x1c], &group, &[0]].concat();
    let bytes = (footer.len() as u32).to_le_bytes();
    [&b"PAR1"[..], &[0; 8], &footer, &bytes, b"PAR1"].concat()
}

#[test]
fn an_encrypted_column_is_refused_by_name_and_others_are_served() {
    let objects = BTreeMap::from([("a.parquet".into(), file_with_an_encrypted_column().into())]);
    let place =
        Place { source: Arc::new(conformance::Memory::new(objects)), path: "a.parquet".into() };
    let outlines = |columns: &[&str]| {
        let columns = columns.iter().map(|&name| name.to_owned()).collect();
        Parquet::new(&DatasetConfig { columns, ..DatasetConfig::default() }).outlines(&place)
    };
    assert_eq!(outlines(&["a"]).unwrap().len(), 1);
    for columns in [&[][..], &["b"]] {
        let error = outlines(columns).unwrap_err().to_string();
        assert!(error.contains("column `b` is encrypted: write it without"), "{error}");
    }
}

/// Spark writes a file for each of its tasks, those without a row included.
#[test]
fn a_file_without_rows_has_no_shards() {
    let schema = Arc::new(parse_message_type("message rows { required int32 label; }").unwrap());
    let writer = SerializedFileWriter::new(Vec::new(), schema, Arc::default()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("part-1.parquet");
    std::fs::write(&path, writer.into_inner().unwrap()).unwrap();
    assert_eq!(parquet().outlines(&Place::of_file(&path)).unwrap(), []);
}

#[test]
fn a_compression_that_is_not_read_is_named_at_the_start() {
    let bytes = std::fs::read(fixtures::data().join("parquet/codecs.parquet")).unwrap();
    // The column's path, then its codec: Brotli is 4, LZO is 3.
    let (brotli, lzo) = (b"number\x15\x08", b"number\x15\x06");
    let at = bytes.windows(brotli.len()).position(|part| part == brotli).unwrap();
    let bytes = [&bytes[..at], lzo, &bytes[at + lzo.len()..]].concat();
    let objects = BTreeMap::from([("a.parquet".into(), Bytes::from(bytes))]);
    let place =
        Place { source: Arc::new(conformance::Memory::new(objects)), path: "a.parquet".into() };
    let error = parquet().outlines(&place).unwrap_err().to_string();
    assert!(error.contains("column `number` is compressed with LZO"), "{error}");
}

#[test]
fn a_footer_is_read_once_for_all_row_groups_and_anew_for_another_version() {
    let bytes = Bytes::from(std::fs::read(fixtures::data().join("parquet/hub.parquet")).unwrap());
    let place = |bytes: &Bytes| {
        let objects = BTreeMap::from([("a.parquet".into(), bytes.clone())]);
        let memory = conformance::Memory::new(objects);
        (memory.clone(), Place { source: Arc::new(memory), path: "a.parquet".into() })
    };
    let (memory, here) = place(&bytes);
    let format = parquet();
    let outlines = format.outlines(&here).unwrap();
    let before = memory.calls();
    for shard in 0..outlines.len() as u32 {
        format.open(&here, shard, outlines[0].version).unwrap();
    }
    assert_eq!(memory.calls() - before, outlines.len() as i64, "each file is opened, no byte read");
    let other = std::fs::read(fixtures::data().join("parquet/encodings.parquet")).unwrap();
    let (_, changed) = place(&other.into());
    assert_ne!(format.outlines(&changed).unwrap()[0].fields, outlines[0].fields);
}
