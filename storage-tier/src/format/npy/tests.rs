use super::*;
use crate::format::arrays::trial;
use crate::format::conformance;

fn npy(dataset: &DatasetConfig) -> Box<dyn Format> {
    Box::new(Npy::new(dataset))
}

#[test]
fn arrays_give_the_samples_that_numpy_reads() {
    trial::fixtures("npy/", 20, npy);
    trial::fixtures("npz/", 9, npy);
}

#[test]
fn any_bytes_are_samples_or_an_error() {
    let format = npy(&DatasetConfig::default());
    trial::mutate("npy/rows.npy", 1, &*format);
    trial::mutate("npz/stored.npz", 3, &*format);
    trial::mutate("npz/deflated.npz", 2, &*format);
}

#[test]
fn a_deflated_array_that_does_not_fit_its_checksum_is_broken() {
    let place = trial::read_place("npz/deflated.npz");
    let bytes = place.open().unwrap();
    let mut bytes = bytes.read(0..bytes.bytes()).unwrap().to_vec();
    let entry = bytes.windows(4).position(|four| four == b"PK\x01\x02").unwrap();
    bytes[entry + 16] ^= 1;
    let place = trial::Held::place("a.npz", bytes);
    let error = trial::samples(&*npy(&DatasetConfig::default()), &place).unwrap_err();
    assert!(error.to_string().contains("checksum"), "{error}");
}

#[test]
fn more_rows_than_an_archive_has_bytes_for_are_refused() {
    let rows = crate::format::PACKED_SAMPLES as usize + 1;
    let dictionary =
        format!("{{'descr': '|u1', 'fortran_order': False, 'shape': ({rows}, 1), }}\n");
    let mut array = [&b"\x93NUMPY\x01\x00"[..], &(dictionary.len() as u16).to_le_bytes()].concat();
    array.extend_from_slice(dictionary.as_bytes());
    array.resize(array.len() + rows, 0);
    let place = trial::Held::place("a.npz", zip("x.npy", &array));
    let error = npy(&DatasetConfig::default()).outlines(&place).unwrap_err().to_string();
    assert!(error.contains("1048577 samples or more, limit 1048576"), "{error}");
}

/// An archive of one deflated member.
fn zip(name: &str, content: &[u8]) -> Vec<u8> {
    let mut crc = flate2::Crc::new();
    crc.update(content);
    let mut deflate = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut deflate, content).unwrap();
    let deflated = deflate.finish().unwrap();
    let short = |number: usize| (number as u16).to_le_bytes();
    let long = |number: usize| (number as u32).to_le_bytes();
    // Version, flags, method, time, date; checksum, both sizes, lengths of name and extra field.
    let mut head = [20, 0, 8, 0, 0].map(short).concat();
    head.extend([crc.sum() as usize, deflated.len(), content.len()].map(long).concat());
    head.extend([short(name.len()), short(0)].concat());
    let local = [&b"PK\x03\x04"[..], &head, name.as_bytes(), &deflated[..]].concat();
    let central = [&b"PK\x01\x02\x14\0"[..], &head, &[0; 14], name.as_bytes()].concat();
    let mut end = b"PK\x05\x06\0\0\0\0\x01\0\x01\0".to_vec();
    end.extend([long(central.len()), long(local.len())].concat());
    end.extend(short(0));
    [local, central, end].concat()
}

#[test]
fn a_stored_array_that_was_changed_is_verified_once_for_all_shards() {
    let format = npy(&DatasetConfig { shard_samples: 4, ..DatasetConfig::default() });
    let verify = |bytes: Vec<u8>| {
        let place = trial::Held::place("a.npz", bytes);
        let outlines = format.outlines(&place).unwrap();
        assert_eq!(outlines.len(), 2);
        let of = |shard| format.verify(&place, shard, outlines[0].version).unwrap();
        [of(0), of(1)]
    };
    let place = trial::read_place("npz/stored.npz");
    let object = place.open().unwrap();
    let mut bytes = object.read(0..object.bytes()).unwrap().to_vec();
    assert_eq!(verify(bytes.clone()), [[], []]);
    let shard = format.open(&place, 0, format.outlines(&place).unwrap()[0].version).unwrap();
    let Opened::InPlace(shard) = shard else { panic!("it lies in place") };
    let picture = shard.index().fields(0).find(|field| field.inline.is_none()).unwrap();
    bytes[picture.offset as usize] ^= 1;
    let [first, second] = verify(bytes);
    assert!(second.is_empty() && first.len() == 1 && first[0].fault.contains("image.npy"));
}

#[test]
fn rows_are_found_without_reading_them() {
    let dictionary = "{'descr': '|u1', 'fortran_order': False, 'shape': (64, 9000), }\n";
    let mut whole = [&b"\x93NUMPY\x01\x00"[..], &(dictionary.len() as u16).to_le_bytes()].concat();
    whole.extend_from_slice(dictionary.as_bytes());
    let header = whole.len() as u64;
    whole.resize(whole.len() + 64 * 9000, 7);
    let (place, reads) = trial::Held::watched("a.npy", whole);
    let found = Npy::new(&DatasetConfig::default()).outlines(&place).unwrap();
    assert_eq!(found[0].samples, 64);
    assert!(reads.lock().unwrap().iter().all(|range| range.end <= header));
}

#[test]
fn it_keeps_the_contract_of_formats() {
    for file in ["npy/rows.npy", "npz/stored.npz"] {
        let make = || -> Arc<dyn Format> { Arc::new(Npy::new(&DatasetConfig::default())) };
        conformance::check(&make, &Place::of_file(&trial::path(file)));
    }
}

#[test]
fn files_that_the_package_writes_now_give_their_samples() {
    trial::written_now("npy", 27, npy);
}
