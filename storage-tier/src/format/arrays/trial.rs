//! Objects in memory, and what a format makes of them: for the formats' tests.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use headwater_storage_client::{Object, ObjectError};

use crate::format::{Format, Opened, SampleSink};
use crate::source::{Listed, Place, Source, Stat, Version};
use crate::{DatasetConfig, StorageError};

/// Files in memory.
#[derive(Debug, Default)]
pub(crate) struct Held {
    files: BTreeMap<PathBuf, Bytes>,
    /// Ranges that were read.
    reads: Arc<Mutex<Vec<Range<u64>>>>,
}

#[derive(Debug)]
struct HeldObject {
    name: String,
    bytes: Bytes,
    reads: Arc<Mutex<Vec<Range<u64>>>>,
}

/// Key and fields of a sample.
pub(crate) type Sample = (String, Vec<(String, Vec<u8>)>);

#[derive(Default)]
struct Collected {
    samples: Vec<Sample>,
    bytes: u64,
}

// === impl Held ===

impl Held {
    pub(crate) fn place(path: &str, bytes: Vec<u8>) -> Place {
        let held = Self { files: [(path.into(), bytes.into())].into(), ..Self::default() };
        Place { source: Arc::new(held), path: path.into() }
    }

    /// A place, and what was read of it.
    pub(crate) fn watched(path: &str, bytes: Vec<u8>) -> (Place, Arc<Mutex<Vec<Range<u64>>>>) {
        let held = Self { files: [(path.into(), bytes.into())].into(), ..Self::default() };
        let reads = held.reads.clone();
        (Place { source: Arc::new(held), path: path.into() }, reads)
    }

    /// A place beside which other files lie.
    pub(crate) fn place_among(path: &str, files: Vec<(PathBuf, Vec<u8>)>) -> Place {
        let files = files.into_iter().map(|(path, bytes)| (path, bytes.into())).collect();
        Place { source: Arc::new(Self { files, ..Self::default() }), path: path.into() }
    }
}

impl Source for Held {
    fn name(&self, path: &Path) -> String {
        format!("held:{}", path.display())
    }

    fn stat(&self, path: &Path) -> Result<Stat, ObjectError> {
        if let Ok(object) = self.open(path) {
            return Ok(Stat::Object(Version::of(&*object)));
        }
        if self.files.keys().any(|file| file.starts_with(path)) {
            return Ok(Stat::Folder);
        }
        Err(ObjectError::NotFound { name: self.name(path) })
    }

    fn list(&self, folder: &Path) -> Result<Vec<Listed>, ObjectError> {
        let seen = |path: &Path| !path.iter().any(|part| part.as_encoded_bytes().starts_with(b"."));
        let below = self.files.iter().filter(|(path, _)| path.starts_with(folder) && seen(path));
        let listed = |(path, bytes): (&PathBuf, &Bytes)| Listed {
            path: path.clone(),
            version: Version { bytes: bytes.len() as u64, tag: String::new() },
        };
        Ok(below.map(listed).collect())
    }

    fn open(&self, path: &Path) -> Result<Arc<dyn Object>, ObjectError> {
        let name = self.name(path);
        let bytes = self.files.get(path).cloned();
        let bytes = bytes.ok_or_else(|| ObjectError::NotFound { name: name.clone() })?;
        Ok(Arc::new(HeldObject { name, bytes, reads: self.reads.clone() }))
    }
}

impl Object for HeldObject {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn bytes(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn version(&self) -> String {
        String::new()
    }

    fn read_many(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>, ObjectError> {
        self.reads.lock().unwrap().extend_from_slice(ranges);
        // A range beyond the end is a fault of the format: it believed a size.
        let read = |range: &Range<u64>| self.bytes.slice(range.start as usize..range.end as usize);
        Ok(ranges.iter().map(read).collect())
    }

    fn check_unchanged(&self) -> Result<(), ObjectError> {
        Ok(())
    }
}

impl SampleSink for Collected {
    fn sample(&mut self, key: &str) -> Result<(), StorageError> {
        self.samples.push((key.to_owned(), Vec::new()));
        Ok(())
    }

    fn field(&mut self, name: &str, bytes: &[u8]) -> Result<(), StorageError> {
        let (_, fields) = self.samples.last_mut().expect("a sample was begun");
        assert!(fields.iter().all(|(other, _)| other != name), "field {name} twice");
        fields.push((name.to_owned(), bytes.to_vec()));
        self.bytes += bytes.len() as u64;
        Ok(())
    }
}

/// The samples of a shard that is unpacked.
pub(crate) fn unpacked(opened: Opened) -> Result<Vec<Sample>, StorageError> {
    let Opened::Packed(mut packed) = opened else { panic!("it lies in place") };
    let mut found = Collected::default();
    packed.unpack(&mut found)?;
    Ok(found.samples)
}

/// All samples of a place. Panics where the format breaks its contract.
pub(crate) fn samples(format: &dyn Format, place: &Place) -> Result<Vec<Sample>, StorageError> {
    let outlines = format.outlines(place)?;
    assert_eq!(format.outlines(place)?, outlines, "the same bytes, another outline");
    let mut all = Vec::new();
    for (number, outline) in outlines.iter().enumerate() {
        let mut found = Collected::default();
        if let Some(damage) = format.verify(place, number as u32, outline.version)?.pop() {
            return Err(StorageError::broken(place.name(), "a checksum", damage.fault));
        }
        match format.open(place, number as u32, outline.version)? {
            Opened::Packed(mut packed) => {
                packed.unpack(&mut found)?;
                assert!(found.bytes <= outline.bytes, "{} > {}", found.bytes, outline.bytes);
            }
            Opened::InPlace(shard) => {
                let index = shard.index();
                assert_eq!(index.digest(), outline.digest);
                assert!(index.field_bytes() <= outline.bytes);
                for sample in 0..index.samples() {
                    found.sample(index.key(sample).expect("a key"))?;
                    for field in index.fields(sample) {
                        let read = match field.inline {
                            Some(value) => Bytes::copy_from_slice(value),
                            None => {
                                shard.object().read(field.offset..field.offset + field.bytes)?
                            }
                        };
                        found.field(field.name, &read)?;
                    }
                }
            }
        }
        assert_eq!(found.samples.len(), outline.samples as usize, "another number of samples");
        for (_, fields) in &found.samples {
            assert!(fields.iter().all(|(name, _)| outline.fields.contains(name)), "{fields:?}");
        }
        all.append(&mut found.samples);
    }
    Ok(all)
}

/// Digest of a dataset `x` that has this place, as `headwater datasets list` shows it: states of a run hold to it.
pub(crate) fn manifest_digest(format: &dyn Format, place: &Place) -> String {
    let entry = |outline: crate::format::Outline| {
        let crate::format::Outline { name, samples, bytes, digest, .. } = outline;
        headwater_core::ShardEntry { name, samples, bytes, digest }
    };
    let entries = format.outlines(place).expect("outlines").into_iter().map(entry).collect();
    let manifest = headwater_core::Manifest::new("x".to_owned(), Vec::new(), entries);
    manifest.expect("a manifest").digest().to_string()
}

/// Holds a format against all fixtures in a folder of `tests/data/formats/arrays`, at least `least`.
pub(crate) fn fixtures(folder: &str, least: usize, format: fn(&DatasetConfig) -> Box<dyn Format>) {
    fixtures_in(&top(), folder, least, format);
}

/// As [`fixtures`], of files that the formats' packages write now. Skipped where one is missing: name
/// a Python that has them in `HEADWATER_FORMATS_PYTHON`.
pub(crate) fn written_now(kind: &str, least: usize, format: fn(&DatasetConfig) -> Box<dyn Format>) {
    let folder = tempfile::tempdir().expect("a folder");
    let tree = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let environment = tree.join(".venv/bin/python");
    let python = std::env::var_os("HEADWATER_FORMATS_PYTHON").map(PathBuf::from);
    let python =
        python.unwrap_or(if environment.exists() { environment } else { "python3".into() });
    let script = tree.join("tests/data/formats/make_arrays.py");
    let mut command = std::process::Command::new(&python);
    let Ok(ran) = command.arg(script).arg(folder.path()).arg(kind).output() else {
        println!("skipped: {} cannot be run", python.display());
        return;
    };
    let said =
        format!("{}{}", String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    if ran.status.code() == Some(77) {
        println!("skipped: {said}");
        return;
    }
    assert!(ran.status.success(), "{said}");
    fixtures_in(folder.path(), "", least, format);
}

fn fixtures_in(
    top: &Path,
    folder: &str,
    least: usize,
    format: fn(&DatasetConfig) -> Box<dyn Format>,
) {
    let mut held = 0;
    for case in cases(top).iter().filter(|case| case.file.starts_with(folder)) {
        let options: Vec<String> = case.options.iter().map(|(k, v)| format!("{k}={v}")).collect();
        println!("{} {}", case.file, options.join(" "));
        let found = samples(&*format(&case.dataset()), &read_place_in(top, &case.file));
        match (&case.refused, found) {
            (Some(words), Err(error)) => {
                assert!(error.to_string().contains(words.as_str()), "{error}");
            }
            (None, found) => assert_eq!(hashed(found.expect("samples")), case.samples),
            (Some(words), Ok(_)) => panic!("it was to be refused: {words}"),
        }
        held += 1;
    }
    assert!(held >= least, "only {held} fixtures of {folder}");
}

/// One line of `expected.json`.
#[derive(serde::Deserialize)]
struct Case {
    file: String,
    options: serde_json::Map<String, serde_json::Value>,
    #[serde(default)]
    samples: Vec<(String, BTreeMap<String, String>)>,
    refused: Option<String>,
}

fn top() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data/formats/arrays")
}

/// Where a fixture lies.
pub(crate) fn path(file: &str) -> PathBuf {
    top().join(file)
}

fn cases(top: &Path) -> Vec<Case> {
    let text = std::fs::read(top.join("expected.json")).expect("expected samples");
    serde_json::from_slice(&text).expect("cases")
}

// === impl Case ===

impl Case {
    fn dataset(&self) -> DatasetConfig {
        let mut whole = serde_json::json!({"name": "d", "shards": [self.file]});
        whole.as_object_mut().expect("a table").extend(self.options.clone());
        serde_json::from_value(whole).expect("keys of a dataset")
    }
}

/// A fixture with all files in its folder, held in memory.
pub(crate) fn read_place(file: &str) -> Place {
    read_place_in(&top(), file)
}

fn read_place_in(top: &Path, file: &str) -> Place {
    let parent = Path::new(file).parent().expect("a folder").to_str().expect("UTF-8");
    Held::place_among(file, files_in(top, parent))
}

/// All files in a folder of fixtures, at any depth.
pub(crate) fn files_below(folder: &str) -> Vec<(PathBuf, Vec<u8>)> {
    files_in(&top(), folder)
}

fn files_in(top: &Path, folder_name: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let mut files = Vec::new();
    let mut folders = vec![top.join(folder_name)];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(top).expect("below the top").to_owned();
                files.push((name, std::fs::read(&path).expect("a file")));
            }
        }
    }
    files
}

fn hashed(samples: Vec<Sample>) -> Vec<(String, BTreeMap<String, String>)> {
    use sha2::Digest as _;
    let hex = |bytes: &[u8]| -> String {
        sha2::Sha256::digest(bytes)[..8].iter().map(|byte| format!("{byte:02x}")).collect()
    };
    let hashed = |(key, fields): Sample| {
        (key, fields.into_iter().map(|(name, value)| (name, hex(&value))).collect())
    };
    samples.into_iter().map(hashed).collect()
}

/// Changes each bit of some bytes: the samples are as before, or an error.
pub(crate) fn no_change_is_unseen(
    whole: &[u8],
    range: Range<usize>,
    read: &dyn Fn(Vec<u8>) -> Result<Vec<Sample>, StorageError>,
) {
    let expected = read(whole.to_vec()).expect("a good file");
    let mut refused = 0;
    for bit in 8 * range.start..8 * range.end {
        let mut bytes = whole.to_vec();
        bytes[bit / 8] ^= 1 << (bit % 8);
        match read(bytes) {
            Ok(found) => assert_eq!(found, expected, "bit {bit}"),
            Err(_) => refused += 1,
        }
    }
    assert!(refused >= 4 * range.len(), "{refused} of {} bits", 8 * range.len());
}

/// Tries every byte of a file with other values, and every length: samples or an error, no panic, and
/// no read beyond the end. Samples of a file that was cut are an error.
pub(crate) fn mutate(file: &str, step: usize, format: &dyn Format) {
    let whole = std::fs::read(top().join(file)).expect("a fixture");
    let name = Path::new(file).file_name().expect("a name").to_string_lossy().into_owned();
    mutate_with(&whole, step, &|bytes| samples(format, &Held::place(&name, bytes)));
}

/// As [`mutate`], for formats whose places are more than one file.
pub(crate) fn mutate_with(
    whole: &[u8],
    step: usize,
    read: &dyn Fn(Vec<u8>) -> Result<Vec<Sample>, StorageError>,
) {
    let expected = read(whole.to_vec()).expect("a good file");
    for at in (0..whole.len()).step_by(step) {
        for flip in [0x01, 0x80, 0xff] {
            let mut bytes = whole.to_vec();
            bytes[at] ^= flip;
            drop(read(bytes));
        }
        if let Ok(found) = read(whole[..at].to_vec()) {
            assert!(found.len() <= expected.len(), "more samples of {at} bytes than of all");
        }
    }
}
