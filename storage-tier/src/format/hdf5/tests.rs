use super::*;
use crate::format::arrays::trial::{self, Held};
use crate::format::conformance;

fn hdf5(dataset: &DatasetConfig) -> Box<dyn Format> {
    Box::new(Hdf5::new(dataset))
}

#[test]
fn arrays_give_the_samples_that_h5py_reads() {
    trial::fixtures("hdf5/", 12, hdf5);
}

#[test]
fn any_bytes_are_samples_or_an_error() {
    let format = hdf5(&DatasetConfig::default());
    for file in ["hdf5/contiguous.h5", "hdf5/gzip.h5", "hdf5/latest.h5", "hdf5/lzf.h5"] {
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
    conformance::check(&make, &Place::of_file(&trial::path("hdf5/contiguous.h5")));
}

#[test]
fn files_that_the_package_writes_now_give_their_samples() {
    trial::written_now("hdf5", 12, hdf5);
}
