//! Shards of the tests: tar files of tests/data, and made-up ones.

use std::io::Read;
use std::path::Path;

use bytes::Bytes;
use headwater_core::{Digest, Manifest, ShardEntry};

#[derive(Clone, Debug)]
pub(crate) struct TestSample {
    pub(crate) key: String,
    pub(crate) fields: Vec<(String, Bytes)>,
    /// What goes with its `jpg` as that one's entry points.
    pub(crate) entries: Bytes,
}

#[derive(Clone, Debug)]
pub(crate) struct TestShard {
    pub(crate) name: String,
    pub(crate) samples: Vec<TestSample>,
    /// Samples that the storage node cannot read.
    pub(crate) unreadable: Vec<u32>,
    /// Samples whose image comes cut off, unless they are read again.
    pub(crate) broken_at_first: Vec<u32>,
}

// === impl TestSample ===

impl TestSample {
    pub(crate) fn image(&self) -> Bytes {
        self.field("jpg").expect("an image")
    }

    pub(crate) fn label(&self) -> i64 {
        let cls = self.field("cls").expect("a label");
        std::str::from_utf8(&cls).unwrap().parse().unwrap()
    }

    pub(crate) fn field(&self, name: &str) -> Option<Bytes> {
        self.fields.iter().find(|(n, _)| n == name).map(|(_, data)| data.clone())
    }

    pub(crate) fn set(&mut self, name: &str, data: &'static [u8]) {
        self.fields.retain(|(n, _)| n != name);
        self.fields.push((name.to_owned(), Bytes::from_static(data)));
    }
}

/// A tar file below tests/data of the repository.
pub(crate) fn shard(path: &str) -> TestShard {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data").join(path);
    let mut archive = tar::Archive::new(std::fs::File::open(&path).unwrap());
    let mut samples: Vec<TestSample> = Vec::new();
    for entry in archive.entries().unwrap() {
        let mut entry = entry.unwrap();
        let name = entry.path().unwrap().to_str().unwrap().to_owned();
        let (key, field) = name.split_once('.').unwrap();
        let mut data = Vec::new();
        entry.read_to_end(&mut data).unwrap();
        if samples.last().is_none_or(|last| last.key != key) {
            samples.push(TestSample {
                key: key.to_owned(),
                fields: Vec::new(),
                entries: Bytes::new(),
            });
        }
        samples.last_mut().unwrap().fields.push((field.to_owned(), data.into()));
    }
    let name = path.file_name().unwrap().to_str().unwrap().to_owned();
    TestShard { name, samples, unreadable: Vec::new(), broken_at_first: Vec::new() }
}

/// Two shards of photographs.
pub(crate) fn photos() -> Vec<TestShard> {
    vec![shard("photos/photos-000000.tar"), shard("photos/photos-000003.tar")]
}

pub(crate) fn manifest(dataset: &str, shards: &[TestShard]) -> Manifest {
    let entry = |shard: &TestShard| ShardEntry {
        name: shard.name.clone(),
        samples: shard.samples.len() as u32,
        bytes: shard.samples.iter().flat_map(|s| &s.fields).map(|(_, d)| d.len() as u64).sum(),
        digest: Digest(7),
    };
    let fields = vec!["cls".to_owned(), "jpg".to_owned()];
    Manifest::new(dataset.to_owned(), fields, shards.iter().map(entry).collect()).unwrap()
}
