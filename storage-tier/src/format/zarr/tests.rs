use std::path::PathBuf;

use std::sync::Arc;

use super::*;
use crate::format::arrays::trial::{self, Held};
use crate::format::conformance;

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
    trial::fixtures("zarr/", 14, zarr);
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
    for file in ["zarr/v3-sharded.zarr", "zarr/v3-gzip.zarr"] {
        let make = || -> Arc<dyn Format> { Arc::new(Zarr::new(&DatasetConfig::default())) };
        conformance::check(&make, &Place::of_file(&trial::path(file)));
    }
}

#[test]
fn files_that_the_package_writes_now_give_their_samples() {
    trial::written_now("zarr", 14, zarr);
}

/// Chunks are read much later, and again and again.
#[test]
fn a_compressor_within_blosc_that_is_not_read_is_named_at_the_start() {
    let format = Zarr::new(&DatasetConfig::default());
    let error = format.outlines(&trial::read_place("zarr/blosclz.zarr")).unwrap_err().to_string();
    assert!(error.contains("blosc with `blosclz` is not supported"), "{error}");
}
