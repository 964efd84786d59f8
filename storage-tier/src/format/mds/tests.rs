use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use sha2::{Digest as _, Sha256};

use super::*;
use crate::format::conformance::{self, Memory};
use crate::format::fixtures;

fn format(folder: &tempfile::TempDir) -> Mds {
    of(folder, &[])
}

/// Reads these columns.
fn of(folder: &tempfile::TempDir, columns: &[&str]) -> Mds {
    let columns = columns.iter().map(|&name| name.to_owned()).collect();
    let kept = Arc::new(KeptIndices::new(Some(folder.path().to_owned()), None));
    Mds::new(&DatasetConfig { columns, ..DatasetConfig::default() }, kept)
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

/// The files of a folder of the fixtures.
fn objects(name: &str) -> BTreeMap<PathBuf, Bytes> {
    let folder = fixtures::data().join("mds").join(name);
    let read = |entry: std::io::Result<std::fs::DirEntry>| {
        let path = entry.unwrap().path();
        let bytes = std::fs::read(&path).unwrap();
        (Path::new("set").join(path.file_name().unwrap()), bytes.into())
    };
    std::fs::read_dir(folder).unwrap().map(read).collect()
}

fn refused(index: &str) -> String {
    let mut objects = objects("raw");
    objects.insert("set/index.json".into(), Bytes::from(index.to_owned()));
    let place = Place { source: Arc::new(Memory::new(objects)), path: "set".into() };
    format(&folder()).outlines(&place).unwrap_err().to_string()
}

#[test]
fn folders_of_the_package_give_what_it_reads_of_them() {
    let kept = folder();
    fixtures::hold(&format(&kept), "mds", &fixtures::data());
    fixtures::hold(&format(&kept), "mds", &fixtures::data());
}

#[test]
fn a_folder_that_the_package_writes_now_gives_what_it_reads_of_it() {
    fixtures::hold_written_now(&format(&folder()), "mds");
}

#[test]
fn the_index_itself_may_be_named() {
    let source = Arc::new(Memory::new(objects("raw")));
    let outlines = |path: &str| {
        let place = Place { source: source.clone(), path: path.into() };
        format(&folder()).outlines(&place).unwrap()
    };
    assert_eq!(outlines("set"), outlines("set/index.json"));
}

/// As `streaming.base.util.merge_index` writes it for folders that several processes wrote.
#[test]
fn an_index_may_name_shards_in_folders_below() {
    let kept = folder();
    let one = objects("raw");
    let alone = Place { source: Arc::new(Memory::new(one.clone())), path: "set".into() };
    let index: serde_json::Value =
        serde_json::from_slice(&one[Path::new("set/index.json")]).unwrap();
    let (mut shards, mut objects) = (Vec::new(), BTreeMap::new());
    for part in ["0", "1"] {
        for shard in index["shards"].as_array().unwrap() {
            let mut shard = shard.clone();
            let name = shard["raw_data"]["basename"].as_str().unwrap().to_owned();
            let path = format!("set/{part}/{name}");
            objects.insert(path.into(), one[Path::new(&format!("set/{name}"))].clone());
            shard["raw_data"]["basename"] = format!("{part}/{name}").into();
            shards.push(shard);
        }
    }
    let merged = serde_json::json!({"version": 2, "shards": shards}).to_string();
    objects.insert("set/index.json".into(), merged.into());
    let place = Place { source: Arc::new(Memory::new(objects)), path: "set".into() };
    let twice = fixtures::read(&format(&kept), &place).unwrap();
    let once = fixtures::read(&format(&kept), &alone).unwrap();
    assert_eq!(twice.len(), 2 * once.len());
    for (shard, same) in twice.iter().zip(once.iter().chain(&once)) {
        for (sample, same) in shard.samples.iter().zip(&same.samples) {
            assert_eq!(sample.fields, same.fields);
        }
    }
    let keys = |shards: &[fixtures::Shard<fixtures::Read>]| -> std::collections::BTreeSet<String> {
        shards.iter().flat_map(|shard| &shard.samples).map(|sample| sample.key.clone()).collect()
    };
    assert_eq!(keys(&twice).len(), 2 * keys(&once).len());
}

/// It may have megabytes, and each shard that is opened needs it.
#[test]
fn an_index_is_read_once_and_again_when_it_has_changed() {
    let format = unkept();
    let mut files = objects("raw");
    let calls = |files: &BTreeMap<PathBuf, Bytes>| {
        let source = Arc::new(Memory::new(files.clone()));
        let place = Place { source: source.clone(), path: "set".into() };
        let index = format.index(&place).unwrap();
        (source.calls(), index.shards.len())
    };
    let (first, shards) = calls(&files);
    // Whether it has changed.
    assert_eq!(calls(&files), (1, shards));
    let index = String::from_utf8(files[Path::new("set/index.json")].to_vec()).unwrap();
    let mut index: serde_json::Value = serde_json::from_str(&index).unwrap();
    index["shards"].as_array_mut().unwrap().truncate(1);
    files.insert("set/index.json".into(), index.to_string().into());
    assert_eq!(calls(&files), (1 + first, 1));
}

#[test]
fn only_the_columns_named_are_read_whatever_the_others_are() {
    let kept = folder();
    for name in ["raw", "zstd"] {
        let mut objects = objects(name);
        let all = fixtures::data().join("mds").join(name);
        let all = fixtures::read(&format(&kept), &Place::of_file(&all)).unwrap();
        let index = objects[Path::new("set/index.json")].to_vec();
        // An encoding that is refused where it is wanted.
        let index = String::from_utf8(index).unwrap().replace("\"json\"", "\"pkl\"");
        objects.insert("set/index.json".into(), index.into());
        let place = Place { source: Arc::new(Memory::new(objects)), path: "set".into() };
        assert!(format(&kept).outlines(&place).is_err());
        let error = of(&kept, &["picture"]).outlines(&place).unwrap_err().to_string();
        assert!(error.contains("`columns` names `picture`, and it has `"), "{error}");
        let few = fixtures::read(&of(&kept, &["label", "image"]), &place).unwrap();
        for (few, all) in few.iter().zip(&all) {
            for (few, all) in few.samples.iter().zip(&all.samples) {
                assert_eq!(few.fields.keys().collect::<Vec<_>>(), ["image", "label"]);
                assert!(few.fields.iter().all(|(name, value)| all.fields[name] == *value));
            }
        }
    }
}

#[test]
fn what_cannot_be_served_is_refused_by_name() {
    let good = String::from_utf8(objects("raw")[Path::new("set/index.json")].to_vec()).unwrap();
    for (old, new, says) in [
        ("\"jpeg\"", "\"pil\"", "`pil`"),
        ("\"jpeg\"", "\"list[jpeg]\"", "`list[jpeg]`"),
        ("shard.00000.mds", "../shard.00000.mds", "../shard.00000.mds"),
        ("\"samples\": 7", "\"samples\": 8", "number of samples"),
        ("\"column_sizes\": [null", "\"column_sizes\": [7", "`array`"),
        ("\"format\": \"mds\"", "\"format\": \"json\"", "not mds 2"),
    ] {
        assert!(good.contains(old), "{old}");
        let error = refused(&good.replacen(old, new, 1));
        assert!(error.contains(says), "{says}: {error}");
    }
}

#[test]
fn a_hash_of_a_shard_that_is_read_in_place_is_verified() {
    let format = format(&folder());
    let verify = |objects: &BTreeMap<PathBuf, Bytes>| {
        let source = Arc::new(Memory::new(objects.clone()));
        let place = Place { source, path: "set".into() };
        let version = format.outlines(&place).unwrap()[1].version;
        format.verify(&place, 1, version).unwrap()
    };
    let mut objects = objects("raw");
    let shard = Path::new("set/shard.00001.mds");
    let sum: String = Sha256::digest(&objects[shard]).iter().map(|b| format!("{b:02x}")).collect();
    let index = String::from_utf8(objects[Path::new("set/index.json")].to_vec()).unwrap();
    let (first, last) = index.rsplit_once("\"hashes\": {}").unwrap();
    let index = format!("{first}\"hashes\": {{\"sha256\": \"{sum}\", \"other\": \"0\"}}{last}");
    objects.insert("set/index.json".into(), index.into());
    assert_eq!(verify(&objects), []);
    let mut broken = objects[shard].to_vec();
    // Within a picture.
    *broken.last_mut().unwrap() ^= 1;
    objects.insert(shard.to_owned(), broken.into());
    let damage = verify(&objects);
    assert_eq!(damage.len(), 1);
    assert!(damage[0].sample.is_none() && damage[0].fault.contains("sha256"), "{damage:?}");
}

/// Keeps no index.
fn unkept() -> Mds {
    let kept = Arc::new(KeptIndices::new(Some("/proc/nowhere".into()), None));
    Mds::new(&DatasetConfig::default(), kept)
}

#[test]
fn mds_keeps_the_contract_of_formats() {
    for name in ["raw", "zstd"] {
        let place = Place::of_file(&fixtures::data().join("mds").join(name));
        let make = || Arc::new(unkept()) as Arc<dyn Format>;
        assert_eq!(conformance::check(&make, &place).len(), 8);
    }
}

#[test]
fn broken_bytes_are_refused_and_nothing_panics() {
    let format = unkept();
    let set = Path::new("set");
    // In place, a byte of a value is not checked, as in a tar. An index may have another name in it.
    for (name, file) in [("raw", "shard.00001.mds"), ("raw", "index.json"), ("zstd", "index.json")]
    {
        fixtures::hold_broken(&format, &objects(name), set, &set.join(file), 1, |_| true);
    }
    // Compressed, every byte is.
    let path = set.join("shard.00001.mds.zstd");
    fixtures::hold_broken(&format, &objects("zstd"), set, &path, 1, |_| false);
}
