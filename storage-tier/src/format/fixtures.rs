//! Reads files of tests/data/formats through each format, and holds what comes out against what the
//! format's own Python package reads; then breaks their bytes in every way.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use bytes::Bytes;
use headwater_proto::storage::FieldSelection;
use serde::Deserialize;
use sha2::{Digest as _, Sha256};

pub(super) use super::conformance::Memory;
use super::{Format, Opened, SampleSink};
use crate::StorageError;
use crate::source::Place;

/// A place as the JSON beside the fixtures has it.
#[derive(Debug, Deserialize)]
struct Expected {
    place: String,
    shards: Vec<Shard<Sample>>,
}

#[derive(Debug, PartialEq, Eq, Deserialize)]
pub(super) struct Shard<S> {
    pub(super) name: String,
    pub(super) samples: Vec<S>,
}

/// A sample with a digest of each field.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
struct Sample {
    key: String,
    fields: BTreeMap<String, String>,
}

/// A sample with its bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Read {
    pub(super) key: String,
    pub(super) fields: BTreeMap<String, Vec<u8>>,
}

/// Keeps samples, up to a number of bytes.
struct Kept {
    samples: Vec<Read>,
    room: usize,
}

/// The folder of the fixtures.
pub(super) fn data() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data/formats")
}

/// Every sample of a place, by shard; checks what an outline promises.
pub(super) fn read(format: &dyn Format, place: &Place) -> Result<Vec<Shard<Read>>, StorageError> {
    let outlines = format.outlines(place)?;
    assert!(!outlines.is_empty());
    let mut shards = Vec::new();
    for (number, outline) in outlines.into_iter().enumerate() {
        let samples = match format.open(place, number as u32, outline.version)? {
            Opened::InPlace(shard) => {
                assert!(format.reads_in_place());
                assert_eq!(shard.index().digest(), outline.digest);
                assert!(shard.index().field_bytes() <= outline.bytes);
                let numbers: Vec<u32> = (0..shard.index().samples()).collect();
                let read = shard.read(&numbers, &FieldSelection::all())?;
                let sample = |sample: headwater_proto::storage::EncodedSample| {
                    let fields = sample.fields.expect("a whole sample").into_iter();
                    let fields = fields.map(|field| (field.name, field.data.to_vec())).collect();
                    Read { key: sample.key, fields }
                };
                read.into_iter().map(sample).collect()
            }
            Opened::Packed(mut packed) => {
                let mut kept = Kept { samples: Vec::new(), room: 64 << 20 };
                packed.unpack(&mut kept)?;
                kept.samples
            }
        };
        if let Some(damage) = format.verify(place, number as u32, outline.version)?.pop() {
            return Err(StorageError::broken(place.name(), "a checksum", damage.fault));
        }
        assert_eq!(samples.len(), outline.samples as usize);
        for name in samples.iter().flat_map(|sample| sample.fields.keys()) {
            assert!(outline.fields.contains(name), "{name} is not in {:?}", outline.fields);
        }
        shards.push(Shard { name: outline.name, samples });
    }
    Ok(shards)
}

fn digested(shards: Vec<Shard<Read>>) -> Vec<Shard<Sample>> {
    let digest =
        |bytes: &Vec<u8>| Sha256::digest(bytes).iter().map(|b| format!("{b:02x}")).collect();
    let sample = |read: Read| {
        let fields = read.fields.iter().map(|(name, bytes)| (name.clone(), digest(bytes)));
        Sample { fields: fields.collect(), key: read.key }
    };
    let shard = |shard: Shard<Read>| Shard {
        name: shard.name,
        samples: shard.samples.into_iter().map(sample).collect(),
    };
    shards.into_iter().map(shard).collect()
}

/// Holds every file of a format, in a folder that the script has written, against its JSON.
#[track_caller]
pub(super) fn hold(format: &dyn Format, name: &str, folder: &Path) {
    let json = std::fs::read(folder.join(name).join(format!("{name}.json"))).expect("a JSON");
    let expected: BTreeMap<String, Expected> = serde_json::from_slice(&json).expect("as written");
    assert!(!expected.is_empty());
    for expected in expected.into_values() {
        let place = Place::of_file(&folder.join(name).join(&expected.place));
        let found = digested(read(format, &place).expect("a good file"));
        let names = |shards: &[Shard<Sample>]| -> Vec<String> {
            shards.iter().map(|shard| shard.name.clone()).collect()
        };
        assert_eq!(names(&found), names(&expected.shards));
        for (found, expected) in found.iter().zip(&expected.shards) {
            for (found, expected) in found.samples.iter().zip(&expected.samples) {
                assert_eq!(found, expected, "{}", place.name());
            }
            assert_eq!(found.samples.len(), expected.samples.len());
        }
    }
}

/// The same with a file that the format's package writes now, where it is installed.
#[track_caller]
pub(super) fn hold_written_now(format: &dyn Format, name: &str) {
    let venv = Path::new(env!("CARGO_MANIFEST_DIR")).join("../.venv/bin/python");
    let python = std::env::var_os("HEADWATER_FORMATS_PYTHON").map(PathBuf::from);
    let python = python.or_else(|| venv.exists().then_some(venv)).unwrap_or("python3".into());
    let folder = tempfile::tempdir().expect("a folder");
    let seed = std::time::UNIX_EPOCH.elapsed().expect("a clock").as_secs().to_string();
    println!("seed {seed}");
    let mut command = Command::new(python);
    command.arg(data().join("make_tables.py")).arg(folder.path());
    let made = command.args([name, "--seed", &seed]).output();
    match made {
        Ok(made) if made.status.success() => hold(format, name, folder.path()),
        Ok(made) if made.status.code() == Some(77) => {
            eprintln!("SKIPPED: {}", String::from_utf8_lossy(&made.stderr));
        }
        Ok(made) => panic!("{}", String::from_utf8_lossy(&made.stderr)),
        Err(error) => eprintln!("SKIPPED: no Python: {error}"),
    }
}

/// Breaks an object in every way: it is read as before or refused, but never read as something else.
/// `may_differ` says whether a change of a byte may make another sample of one, unseen. `make soak` breaks every byte,
/// or every `step`th; else one in five of these.
#[track_caller]
pub(super) fn hold_broken(
    format: &dyn Format,
    objects: &BTreeMap<PathBuf, Bytes>,
    place: &Path,
    broken: &Path,
    step: usize,
    may_differ: impl Fn(usize) -> bool,
) {
    let at = |objects: BTreeMap<PathBuf, Bytes>| Place {
        source: Arc::new(Memory::new(objects)),
        path: place.to_owned(),
    };
    let whole = read(format, &at(objects.clone())).expect("a good file");
    let mut refused = 0;
    let mut check = |bytes: Vec<u8>, at_byte: usize| {
        let mut objects = objects.clone();
        objects.insert(broken.to_owned(), bytes.into());
        let Ok(found) = read(format, &at(objects)) else {
            refused += 1;
            return;
        };
        for (found, whole) in found.iter().zip(&whole) {
            for (found, whole) in found.samples.iter().zip(&whole.samples) {
                assert!(found == whole || may_differ(at_byte), "byte {at_byte}: {found:?}");
            }
        }
    };
    let bytes = objects[broken].to_vec();
    let step = if std::env::var_os("HEADWATER_SOAK").is_some() { step } else { 5 * step };
    for (round, byte) in (0..bytes.len()).step_by(step).enumerate() {
        let mut bytes = bytes.clone();
        bytes[byte] ^= [1, 0x80, 0xff][round % 3];
        check(bytes, byte);
    }
    let cuts = (0..bytes.len()).step_by(7 * step);
    for end in cuts.clone() {
        check(bytes[..end].to_vec(), end);
    }
    assert!(refused >= cuts.len(), "{refused} of {} cuts are refused", cuts.len());
}

// === impl SampleSink ===

impl SampleSink for Kept {
    fn sample(&mut self, key: &str) -> Result<(), StorageError> {
        self.samples.push(Read { key: key.to_owned(), ..Read::default() });
        Ok(())
    }

    fn field(&mut self, name: &str, bytes: &[u8]) -> Result<(), StorageError> {
        let full = || StorageError::broken("memory", name, "no room");
        self.room = self.room.checked_sub(bytes.len()).ok_or_else(full)?;
        let sample = self.samples.last_mut().expect("a sample");
        let former = sample.fields.insert(name.to_owned(), bytes.to_vec());
        former.map_or(Ok(()), |_| Err(StorageError::broken("memory", name, "twice")))
    }
}
