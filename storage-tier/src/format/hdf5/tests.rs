use super::*;
use crate::format::arrays::trial::{self, Held};
use crate::format::conformance;

fn hdf5(dataset: &DatasetConfig) -> Box<dyn Format> {
    Box::new(Hdf5::new(dataset))
}

#[test]
fn arrays_give_the_samples_that_h5py_reads() {
    trial::fixtures("hdf5/", 53, hdf5);
}

#[test]
fn any_bytes_are_samples_or_an_error() {
    let format = hdf5(&DatasetConfig::default());
    for file in [
        "hdf5/contiguous.h5",
        "hdf5/gzip.h5",
        "hdf5/latest.h5",
        "hdf5/lzf.h5",
        "hdf5/values-packed.h5",
    ] {
        trial::mutate(file, 97, &*format);
    }
}

#[test]
fn chunks_are_compared_with_their_checksums() {
    const STEP: usize = 61;
    let bytes = std::fs::read(trial::path("hdf5/checked.h5")).unwrap();
    let read = |bytes: Vec<u8>| {
        trial::samples(&*hdf5(&DatasetConfig::default()), &Held::place("a.h5", bytes))
    };
    let samples = read(bytes.clone()).unwrap();
    let fields = samples.iter().flat_map(|(_, fields)| fields);
    // Beside each array its type and its shape.
    let elements: usize =
        fields.filter(|(name, _)| !name.contains('.')).map(|(_, value)| value.len()).sum();
    let is_refused = |at: &usize| {
        let mut changed = bytes.clone();
        changed[*at] ^= 1;
        read(changed).is_err_and(|error| error.to_string().contains("checksum mismatch"))
    };
    let refused = (0..bytes.len()).step_by(STEP).filter(is_refused).count();
    assert!(elements > 0 && 2 * STEP * refused >= elements, "{refused} of {elements} bytes");
}

#[test]
fn a_file_of_chunks_is_not_read_to_be_outlined() {
    let good = trial::read_place("hdf5/large.h5");
    let object = good.open().unwrap();
    let bytes = object.read(0..object.bytes()).unwrap().to_vec();
    let (place, reads) = Held::watched("a.h5", bytes.clone());
    Hdf5::new(&DatasetConfig::default()).outlines(&place).unwrap();
    let read: u64 = reads.lock().unwrap().iter().map(|range| range.end - range.start).sum();
    assert!(read < bytes.len() as u64 / 2, "{read} of {}", bytes.len());
}

#[test]
fn it_keeps_the_contract_of_formats() {
    let make = || -> Arc<dyn Format> { Arc::new(Hdf5::new(&DatasetConfig::default())) };
    for file in ["hdf5/contiguous.h5", "hdf5/values-plain.h5", "hdf5/values-packed.h5"] {
        conformance::check(&make, &Place::of_file(&trial::path(file)));
    }
}

#[test]
fn files_that_the_package_writes_now_give_their_samples() {
    trial::written_now("hdf5", 53, hdf5);
}

#[test]
fn structures_of_a_file_are_read_once_for_all_its_shards() {
    let bytes = std::fs::read(trial::path("hdf5/gzip.h5")).unwrap();
    let (place, reads) = Held::watched("a.h5", bytes.clone());
    let dataset = DatasetConfig { shard_samples: 3, ..DatasetConfig::default() };
    let format = Hdf5::new(&dataset);
    let outlines = format.outlines(&place).unwrap();
    assert!(outlines.len() > 2);
    let taken = || std::mem::take(&mut *reads.lock().unwrap()).len();
    assert!(taken() > 0);
    for shard in 0..outlines.len() as u32 {
        format.open(&place, shard, outlines[0].version).unwrap();
    }
    assert_eq!(taken(), 0);
    // Another process has not outlined it.
    let format = Hdf5::new(&dataset);
    let opened = || format.open(&place, 0, outlines[0].version).map(|_| taken()).unwrap();
    assert!(opened() > 0);
    assert_eq!(opened(), 0);
    let changed = Held::place("a.h5", [&bytes[..], b"more"].concat());
    assert_ne!(format.outlines(&changed).unwrap()[0].version, outlines[0].version);
    let error = format.open(&changed, 0, outlines[0].version).unwrap_err();
    assert!(matches!(error, StorageError::ShardChanged { .. }), "{error}");
}

/// Each look at an index of chunks may cost a walk over all of it.
#[test]
fn chunks_that_fit_are_read_at_once() {
    let object = trial::read_place("hdf5/gzip.h5").open().unwrap();
    let file = File::open(object, Arc::default()).unwrap();
    let [array] = &file.arrays(&["image".to_owned()]).unwrap()[..] else { panic!("not one array") };
    let (rows, mut band) = (array.column.rows, rows::Band::default());
    assert!(array.dataset.chunks().unwrap()[0] < rows as u32 / 2);
    band.load(&file, array, 1, rows).unwrap();
    assert_eq!(band.rows, 1..rows);
}

/// A store takes a request for each.
#[test]
fn a_large_chunk_is_read_in_one_piece() {
    let mut file = std::fs::read(trial::path("hdf5/values-plain.h5")).unwrap();
    file.resize(1 << 20, 0);
    let (place, reads) = Held::watched("a.h5", file);
    let ranges = storage::Ranges::new(place.open().unwrap(), Arc::default());
    let blocks = storage::Blocks::new(ranges);
    let read = |at, bytes| hdf5_reader::Storage::read_range(&blocks, at, bytes).unwrap().len();
    assert_eq!((read(100, 300_000), reads.lock().unwrap().len()), (300_000, 1));
    assert_eq!((read(8190, 4), reads.lock().unwrap().len()), (4, 3));
    let refused = hdf5_reader::Storage::read_range(&blocks, 0, 257 << 20);
    assert!(refused.is_err());
}

/// A run that goes on compares them.
#[test]
fn digests_stay_from_release_to_release() {
    for (file, shard_samples, digest) in [
        ("hdf5/gzip.h5", 1024, "410f9baa2c492db806bf530c6c9b52e3"),
        ("hdf5/gzip.h5", 3, "1fce2d3cec18d9acc32b93afd3f799cb"),
        ("hdf5/latest.h5", 3, "c2f1e5958ec56c8f5e48e1091d0ef972"),
        ("hdf5/netcdf.nc", 1024, "f19f15caae1b6044c3ae99a4bc019854"),
    ] {
        let dataset = DatasetConfig { shard_samples, ..DatasetConfig::default() };
        let found = trial::manifest_digest(&*hdf5(&dataset), &trial::read_place(file));
        assert_eq!(found, digest, "{file}");
    }
}
