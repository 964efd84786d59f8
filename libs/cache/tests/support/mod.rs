//! Entries that say whether they are what they should be.
#![allow(dead_code, reason = "each test file uses its part")]

use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

use headwater_cache::{Cache, CacheConfig, CacheLevel, Cached, FillError, Key};

/// Time for whatever a test waits for.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
pub(crate) const MIB: u64 = 1 << 20;

/// An error of a filler.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Broken(pub(crate) &'static str);

impl std::fmt::Display for Broken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for Broken {}

impl From<headwater_cache::Unavailable> for Broken {
    fn from(_: headwater_cache::Unavailable) -> Self {
        Self("a write failed")
    }
}

pub(crate) fn config(levels: &[(&Path, u64)]) -> CacheConfig {
    let level = |&(dir, bytes): &(&Path, u64)| CacheLevel { dir: dir.to_owned(), bytes };
    let levels = levels.iter().map(level).collect();
    CacheConfig::node(levels, PATIENCE, false)
}

pub(crate) fn open(levels: &[(&Path, u64)]) -> Cache {
    Cache::open(&config(levels)).expect("a cache")
}

pub(crate) fn key(number: u64) -> Key {
    // Multiplied: keys of neighbours lie in different folders.
    let digest = u128::from(number + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835);
    Key::new(digest.to_be_bytes())
}

/// The payload of an entry: other bytes for each number.
pub(crate) fn payload(number: u64, bytes: u64) -> Vec<u8> {
    let word = |at: u64| (at ^ number << 40).wrapping_mul(0x9E37_79B9_7F4A_7C15).to_le_bytes();
    let words = (0..bytes.div_ceil(8)).flat_map(word);
    words.take(bytes as usize).collect()
}

pub(crate) fn meta(number: u64) -> Vec<u8> {
    format!("meta of {number}").into_bytes()
}

/// Asks for an entry; it is filled by writes of 1000 bytes and of a long rest.
pub(crate) fn ask(cache: &Cache, number: u64, bytes: u64) -> Result<Cached, FillError<Broken>> {
    cache.get_or_fill(&key(number), bytes, |writer| {
        let payload = payload(number, bytes);
        let (short, long) = payload.split_at(payload.len().min(5000));
        for piece in short.chunks(1000).chain([long]) {
            writer.write_all(piece)?;
        }
        Ok(meta(number))
    })
}

/// As [`ask`]; whether it had to be filled.
pub(crate) fn had_to_fill(cache: &Cache, number: u64, bytes: u64) -> bool {
    let mut is_filled = false;
    let cached = cache.get_or_fill(&key(number), bytes, |writer| {
        is_filled = true;
        writer.write_all(&payload(number, bytes))?;
        Ok::<_, Broken>(meta(number))
    });
    check(&cached.expect("an entry"), number, bytes);
    is_filled
}

pub(crate) fn bytes_of(cached: &Cached) -> Vec<u8> {
    let mut bytes = vec![0; cached.payload_bytes() as usize];
    cached.file().read_exact_at(&mut bytes, cached.payload_offset()).expect("the payload");
    bytes
}

/// Whether an entry has the bytes of its number.
pub(crate) fn check(cached: &Cached, number: u64, bytes: u64) {
    assert!(bytes_of(cached) == payload(number, bytes), "wrong bytes of entry {number}");
    assert_eq!(cached.meta(), meta(number));
}

/// Files below a folder, with their lengths.
pub(crate) fn files(folder: &Path) -> Vec<(std::path::PathBuf, u64)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let metadata = entry.metadata().expect("its metadata");
        match metadata.is_dir() {
            true => found.extend(files(&entry.path())),
            false => found.push((entry.path(), metadata.len())),
        }
    }
    found
}

/// Files of a part of the cache's folder: `entries`, `filling` or `flights`.
pub(crate) fn part(dir: &Path, part: &str) -> Vec<(std::path::PathBuf, u64)> {
    files(&user_folder(dir).join(part))
}

pub(crate) fn user_folder(dir: &Path) -> std::path::PathBuf {
    let folders = std::fs::read_dir(dir).expect("the folder").flatten();
    let mut paths = folders.map(|entry| entry.path());
    let is_ours = |path: &std::path::PathBuf| path.to_string_lossy().contains("headwater-cache-");
    paths.find(is_ours).expect("the user's folder")
}

/// Bytes that the tally of a folder has.
pub(crate) fn tally(dir: &Path) -> u64 {
    let words = std::fs::read(user_folder(dir).join("tally")).expect("a tally");
    u64::from_le_bytes(std::array::from_fn(|at| words[at]))
}

/// Bytes that entries and begun ones take.
pub(crate) fn taken(dir: &Path) -> u64 {
    let all = [part(dir, "entries"), part(dir, "filling")].concat();
    all.iter().map(|(_, bytes)| bytes.next_multiple_of(4096)).sum()
}
