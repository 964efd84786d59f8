use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;

use super::*;
use crate::format::arrays::trial::{self, Held};
use crate::format::conformance::{self, Memory};
use crate::format::fixtures;

fn zarr(dataset: &DatasetConfig) -> Box<dyn Format> {
    Box::new(Zarr::new(dataset))
}

fn in_memory(file: &str, array: &str, bytes: Vec<u8>) -> Place {
    let files: Vec<(PathBuf, Vec<u8>)> = trial::files_below(file)
        .into_iter()
        .map(|(path, held)| {
            let wanted = path == PathBuf::from(file).join(array);
            (path, if wanted { bytes.clone() } else { held })
        })
        .collect();
    Held::place_among(file, files)
}

#[test]
fn arrays_give_the_samples_that_zarr_reads() {
    trial::fixtures("zarr/", 26, zarr);
}

#[test]
fn any_metadata_and_any_chunk_are_samples_or_an_error() {
    for (file, object) in [
        ("zarr/v3-sharded.zarr", "zarr.json"),
        ("zarr/v3-sharded.zarr", "c/0/0/0"),
        ("zarr/v2-lz4.zarr", ".zarray"),
        ("zarr/v2-lz4.zarr", "0.0.0"),
        ("zarr/v2-bits.zarr", "0.0.0"),
        ("zarr/v3-gzip.zarr", "c/0/0/0"),
        ("zarr/values-v2.zarr", "caption/.zarray"),
        ("zarr/values-v2.zarr", "caption/0"),
        ("zarr/values-v3.zarr", "jpg/zarr.json"),
        ("zarr/values-v3.zarr", "jpg/c/0"),
    ] {
        let object_path = PathBuf::from(file).join(object);
        let whole = trial::files_below(file).into_iter().find(|(path, _)| *path == object_path);
        let (_, whole) = whole.expect("an object of the fixture");
        let format = Zarr::new(&DatasetConfig::default());
        trial::mutate_with(&whole, 1, &|bytes| {
            trial::samples(&format, &in_memory(file, object, bytes))
        });
    }
}

#[test]
fn chunks_and_the_index_of_a_shard_are_compared_with_their_checksums() {
    for (file, object, from_end) in [
        ("zarr/v3-checked.zarr", "c/0/0/0", usize::MAX),
        // Bytes of gzip's header mean nothing; those behind it have a checksum.
        ("zarr/v3-gzip.zarr", "c/0/0/0", usize::MAX),
        ("zarr/v2-zlib.zarr", "0.0.0", usize::MAX),
        // The index of the chunks in an object is at its end, its checksum last.
        ("zarr/v3-sharded.zarr", "c/0/0/0", 20),
    ] {
        let object_path = PathBuf::from(file).join(object);
        let whole = trial::files_below(file).into_iter().find(|(path, _)| *path == object_path);
        let (_, whole) = whole.expect("an object of the fixture");
        let format = Zarr::new(&DatasetConfig::default());
        let start = whole.len().saturating_sub(from_end);
        trial::no_change_is_unseen(&whole, start..whole.len(), &|bytes| {
            trial::samples(&format, &in_memory(file, object, bytes))
        });
    }
}

#[test]
fn a_chunk_that_was_changed_since_is_no_sample() {
    let format = Zarr::new(&DatasetConfig::default());
    let place = trial::read_place("zarr/v2-lz4.zarr");
    let outline = format.outlines(&place).unwrap().remove(0);
    let changed = in_memory("zarr/v2-lz4.zarr", "0.0.0", vec![1, 2, 3]);
    let error = format.open(&changed, 0, outline.version).unwrap_err();
    assert!(matches!(error, StorageError::ShardChanged { .. }), "{error}");
}

#[test]
fn it_keeps_the_contract_of_formats() {
    for file in ["zarr/v3-sharded.zarr", "zarr/v3-gzip.zarr", "zarr/values-v3.zarr"] {
        let make = || -> Arc<dyn Format> { Arc::new(Zarr::new(&DatasetConfig::default())) };
        conformance::check(&make, &Place::of_file(&trial::path(file)));
    }
}

#[test]
fn files_that_the_package_writes_now_give_their_samples() {
    trial::written_now("zarr", 26, zarr);
}

/// Chunks are read much later, and again and again.
#[test]
fn a_compressor_within_blosc_that_is_not_read_is_named_at_the_start() {
    let format = Zarr::new(&DatasetConfig::default());
    let error = format.outlines(&trial::read_place("zarr/blosclz.zarr")).unwrap_err().to_string();
    assert!(error.contains("blosc with `blosclz` is not supported"), "{error}");
}

/// The samples of an array without chunks, or why there are none.
fn of_metadata(data_type: &str, fill: &str, more: &str) -> Result<Vec<String>, String> {
    let json = format!(
        r#"{{"zarr_format": 3, "node_type": "array", "shape": [2], "data_type": "{data_type}", "fill_value": {fill},
            "chunk_grid": {{"name": "regular", "configuration": {{"chunk_shape": [2]}}}},
            "chunk_key_encoding": {{"name": "default"}}, "attributes": {{"a": NaN}}, "dimension_names": ["x"]{more},
            "codecs": [{{"name": "bytes", "configuration": {{"endian": "little"}}}}]}}"#
    );
    let memory = Memory::new([(PathBuf::from("a.zarr/zarr.json"), json.into())].into());
    let place = Place { source: Arc::new(memory), path: "a.zarr".into() };
    let format = Zarr::new(&DatasetConfig::default());
    let shards = fixtures::read(&format, &place).map_err(|error| error.to_string())?;
    let samples = shards.into_iter().flat_map(|shard| shard.samples);
    let value = |sample: fixtures::Read| sample.fields.into_values().next();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("a number");
    Ok(samples.filter_map(value).map(text).collect())
}

/// zarr-python refuses the same.
#[test]
fn a_fill_value_that_does_not_fit_and_an_unknown_extension_are_refused() {
    for (data_type, fill) in [
        ("int16", "-32768"),
        ("uint16", "65535"),
        ("int8", "127"),
        ("uint64", "18446744073709551615"),
    ] {
        assert_eq!(of_metadata(data_type, fill, "").unwrap(), [fill, fill], "{data_type}");
    }
    for (data_type, fill) in
        [("int16", "70000"), ("int16", "32768"), ("uint16", "-1"), ("uint8", "256"), ("bool", "2")]
    {
        let error = of_metadata(data_type, fill, "").unwrap_err();
        assert!(error.contains(&format!("fill value {fill} does not fit")), "{error}");
    }
    let error = of_metadata("int16", "0", r#", "reversed": {"name": "x"}"#).unwrap_err();
    assert!(error.contains("extension `reversed` is not supported"), "{error}");
    let passed_over = r#", "hint": {"must_understand": false}"#;
    assert!(of_metadata("int16", "0", passed_over).is_ok());
}

/// OME-Zarr has its labels in a group below.
#[test]
fn a_group_within_a_group_is_looked_at_once_however_many_objects_lie_in_it() {
    let calls = |chunks: usize| {
        let array = trial::files_below("zarr/v2-plain.zarr");
        let array = array.into_iter().map(|(path, bytes)| {
            (Path::new("a.zarr/0").join(path.strip_prefix("zarr/v2-plain.zarr").unwrap()), bytes)
        });
        let chunk = |at: usize| (format!("a.zarr/labels/0/{at}").into(), vec![0]);
        let group =
            [".zgroup", "labels/.zgroup"].map(|name| (Path::new("a.zarr").join(name), vec![]));
        let files = array.chain(group).chain((0..chunks).map(chunk));
        let memory = Memory::new(files.map(|(path, bytes)| (path, bytes.into())).collect());
        let place = Place { source: Arc::new(memory.clone()), path: "a.zarr".into() };
        let outlines = Zarr::new(&DatasetConfig::default()).outlines(&place).unwrap();
        assert_eq!(outlines[0].fields[0], "0");
        memory.calls()
    };
    assert_eq!(calls(1), calls(1000));
}

#[test]
fn metadata_is_read_once_and_again_when_it_has_changed() {
    let mut files: BTreeMap<PathBuf, Bytes> = trial::files_below("zarr/group-v3.zarr")
        .into_iter()
        .map(|(path, bytes)| (path, bytes.into()))
        .collect();
    let place = |files: &BTreeMap<PathBuf, Bytes>| {
        let memory = Memory::new(files.clone());
        let path = "zarr/group-v3.zarr".into();
        (memory.clone(), Place { source: Arc::new(memory), path })
    };
    let (memory, here) = place(&files);
    let dataset = DatasetConfig { shard_samples: 4, ..DatasetConfig::default() };
    let format = Zarr::new(&dataset);
    let version = format.outlines(&here).unwrap()[0].version;
    let calls = |format: &Zarr| {
        let before = memory.calls();
        format.open(&here, 0, version).unwrap();
        memory.calls() - before
    };
    let node = format.node_now(&here).unwrap();
    let objects = node.arrays.iter().flat_map(|array| array.objects(&(0..4))).count();
    // Whether each is still the same; no list, and no byte.
    assert_eq!(calls(&format), (node.metadata.files.len() + objects) as i64);
    let other = Zarr::new(&dataset);
    assert!(calls(&other) > calls(&format));
    assert_eq!(calls(&other), calls(&format));
    let label = PathBuf::from("zarr/group-v3.zarr/label/zarr.json");
    let changed = [&files[&label][..], b" "].concat();
    files.insert(label, changed.into());
    let error = format.open(&place(&files).1, 0, version).unwrap_err();
    assert!(matches!(error, StorageError::ShardChanged { .. }), "{error}");
}

/// A run that goes on compares them.
#[test]
fn digests_stay_from_release_to_release() {
    for (file, shard_samples, digest) in [
        ("zarr/group-v3.zarr", 1024, "d30d58c3de08bd59df0ba472fb254d9b"),
        ("zarr/group-v3.zarr", 3, "aeaa6fb4f5f1af17d57ca1b0a1aeae60"),
        ("zarr/group-v2.zarr", 3, "bc328da21ccbc649a4d80f0f50346fba"),
        ("zarr/v3-sharded.zarr", 1024, "11354ba8d18b1aabecddd92b6506b288"),
    ] {
        let dataset = DatasetConfig { shard_samples, ..DatasetConfig::default() };
        let found = trial::manifest_digest(&*zarr(&dataset), &trial::read_place(file));
        assert_eq!(found, digest, "{file}");
    }
}

#[test]
fn an_array_that_says_it_has_any_number_of_strings_is_refused_or_read() {
    let object = PathBuf::from("zarr/values-v2.zarr/caption/.zarray");
    let files = trial::files_below("zarr/values-v2.zarr");
    let (_, json) = files.into_iter().find(|(path, _)| *path == object).unwrap();
    let json = String::from_utf8(json).unwrap();
    let mut json: serde_json::Value = serde_json::from_str(&json).unwrap();
    for rows in [u64::MAX, u64::MAX / 64, 1 << 40] {
        json["shape"] = serde_json::json!([rows]);
        json["chunks"] = serde_json::json!([rows]);
        let place = in_memory("zarr/values-v2.zarr", "caption/.zarray", json.to_string().into());
        let dataset = DatasetConfig { columns: vec!["caption".to_owned()], ..Default::default() };
        Zarr::new(&dataset).outlines(&place).unwrap_err();
    }
}

/// A folder that is not mounted for a moment says nothing of what is in it.
#[test]
fn metadata_that_is_away_after_the_start_is_no_broken_shard() {
    let folder = tempfile::tempdir().unwrap();
    let from = fixtures::data().join("arrays/zarr/v3-checked.zarr");
    let to = folder.path().join("a.zarr");
    for entry in Place::of_file(&from).list().unwrap() {
        let file = to.join(entry.path.strip_prefix(&from).unwrap());
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::copy(&entry.path, file).unwrap();
    }
    let (zarr, place) = (Zarr::new(&DatasetConfig::default()), Place::of_file(&to));
    let version = zarr.outlines(&place).unwrap()[0].version;
    let metadata = to.join("zarr.json");
    let whole = std::fs::read(&metadata).unwrap();
    for now in [None, Some(&whole[..9])] {
        std::fs::remove_file(&metadata).unwrap();
        if let Some(bytes) = now {
            std::fs::write(&metadata, bytes).unwrap();
        }
        let error = zarr.open(&place, 0, version).unwrap_err();
        assert!(error.kind().is_retryable(), "{}", error.sentence());
        std::fs::write(&metadata, &whole).unwrap();
    }
}
