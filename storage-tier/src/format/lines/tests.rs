use std::io::Write;

use super::*;
use crate::format::arrays::trial::{self, Held};
use crate::format::conformance;

fn kind(file: &str) -> LineKind {
    match file.trim_end_matches(".gz").rsplit_once('.').unwrap().1 {
        "csv" => LineKind::Csv,
        "tsv" => LineKind::Tsv,
        "jsonl" => LineKind::Json,
        _ => LineKind::Text,
    }
}

fn lines(dataset: &DatasetConfig) -> Box<dyn Format> {
    Box::new(Lines::new(kind(&dataset.shards[0]), dataset))
}

fn read(file: &str, bytes: &[u8]) -> Result<Vec<trial::Sample>, StorageError> {
    let dataset = DatasetConfig { shard_samples: 2, ..DatasetConfig::default() };
    trial::samples(&Lines::new(kind(file), &dataset), &Held::place(file, bytes.to_vec()))
}

#[test]
fn lines_give_the_values_that_python_reads() {
    trial::fixtures("lines/", 14, lines);
}

#[test]
fn any_bytes_are_samples_or_an_error() {
    for file in ["lines/plain.csv", "lines/plain.jsonl", "lines/plain.txt", "lines/zipped.csv.gz"] {
        trial::mutate(file, 1, &Lines::new(kind(file), &DatasetConfig::default()));
    }
}

#[test]
fn what_is_wrong_is_named_with_its_record() {
    let cases = [
        ("a.csv", &b"a,b\n1,2\n3\n"[..], "record 2"),
        ("a.csv", b"a,a\n1,2\n", "column 2 is named `a`"),
        ("a.csv", b"a,b\n1,\xff\n", "not UTF-8"),
        ("a.jsonl", b"{\"a\":1}\n\n[]\n", "record 2: it is no JSON object"),
        ("a.jsonl", b"{\"a\":1,\"a\":2}\n", "two values named `a`"),
        ("a.txt", b"one\n\xff\n", "record 2: it is not UTF-8"),
        ("a.txt.gz", b"\x1f\x8b\x08\0\0", "record 1"),
    ];
    for (file, bytes, words) in cases {
        let error = read(file, bytes).unwrap_err().to_string();
        assert!(error.contains(words) && error.contains(file), "{error}");
    }
    assert!(matches!(read("a.txt", b""), Err(StorageError::EmptyFile { .. })));
}

#[test]
fn a_shard_is_the_same_whoever_opens_it() {
    let text = b"n,t\r\n0,\"a\r\nb\"\r\n1,\r\n\r\n2,c\r\n3,\"\"\"d\"\r\n4,e".to_vec();
    let dataset = DatasetConfig { shard_samples: 2, ..DatasetConfig::default() };
    let place = Held::place("a.csv", text);
    let here = Lines::new(LineKind::Csv, &dataset);
    let outlines = here.outlines(&place).unwrap();
    assert_eq!(outlines.iter().map(|outline| outline.samples).collect::<Vec<_>>(), [2, 2, 1]);
    // Another process has not gone through the file.
    let elsewhere = Lines::new(LineKind::Csv, &dataset);
    for (shard, outline) in outlines.iter().enumerate() {
        let unpack = |lines: &Lines| {
            let opened = lines.open(&place, shard as u32, outline.version).unwrap();
            trial::unpacked(opened).unwrap()
        };
        assert_eq!(unpack(&here), unpack(&elsewhere));
    }
}

#[test]
fn a_table_of_very_many_columns_is_refused_at_once_unless_some_are_chosen() {
    let header: Vec<String> = (0..200_000).map(|number| format!("c{number}")).collect();
    let table = format!("{}\n{}0\n", header.join(","), "0,".repeat(header.len() - 1));
    let begun = std::time::Instant::now();
    let error = read("a.csv", table.as_bytes()).unwrap_err().to_string();
    assert!(error.contains("200000 columns, limit 4096"), "{error}");
    let columns = vec!["c199999".to_owned()];
    let dataset = DatasetConfig { columns, ..DatasetConfig::default() };
    let outlines =
        Lines::new(LineKind::Csv, &dataset).outlines(&Held::place("a.csv", table.into())).unwrap();
    assert_eq!((outlines[0].samples, &outlines[0].fields[..]), (1, &["c199999".to_owned()][..]));
    assert!(begun.elapsed().as_secs() < 10, "{:?}", begun.elapsed());
}

#[test]
fn an_endless_record_is_refused_within_bounds() {
    let level = flate2::Compression::fast();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), level);
    gzip.write_all(b"a,b\n1,\"").unwrap();
    for _ in 0..65 {
        gzip.write_all(&vec![b'x'; 1 << 20]).unwrap();
    }
    let bytes = gzip.finish().unwrap();
    for file in ["a.csv.gz", "a.txt.gz"] {
        let error = read(file, &bytes).unwrap_err().to_string();
        assert!(error.contains("longer than 67108864 bytes"), "{error}");
    }
}

/// The checksum of a file in gzip is behind all of its lines, and each shard has some of them.
#[test]
fn every_shard_of_a_file_in_gzip_is_compared_with_its_checksum() {
    let dataset = DatasetConfig { shard_samples: 3, ..DatasetConfig::default() };
    for file in ["a.csv.gz", "a.txt.gz"] {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::none());
        gzip.write_all(b"name\none\ntwo\nthree\nfour\nfive\nsix\n").unwrap();
        let mut bytes = gzip.finish().unwrap();
        let lines = Lines::new(kind(file), &dataset);
        let place = Held::place(file, bytes.clone());
        let outlines = lines.outlines(&place).unwrap();
        let first = bytes.windows(3).position(|three| three == b"two").unwrap();
        // A file system that gives other bytes now: same size, same time.
        bytes[first] = b'T';
        let place = Held::place(file, bytes);
        for (shard, outline) in outlines.iter().enumerate() {
            let opened = lines.open(&place, shard as u32, outline.version).unwrap();
            let error = trial::unpacked(opened).unwrap_err().to_string();
            assert!(error.contains("corrupt gzip stream"), "{shard}: {error}");
        }
    }
}

#[test]
fn it_keeps_the_contract_of_formats() {
    for file in ["lines/plain.csv", "lines/plain.jsonl", "lines/plain.txt", "lines/zipped.csv.gz"] {
        let dataset = DatasetConfig { shard_samples: 3, ..DatasetConfig::default() };
        let make = || -> Arc<dyn Format> { Arc::new(Lines::new(kind(file), &dataset)) };
        conformance::check(&make, &Place::of_file(&trial::path(file)));
    }
}

#[test]
fn files_that_the_package_writes_now_give_their_samples() {
    trial::written_now("lines", 14, lines);
}
