//! Indices kept from one start to the next.
//!
//! A file holds: the magic, the stamp of the shard and of its `.idx`, the size and digest of what
//! follows, and the index. It counts only if all of it is as it should be; anything else is made
//! again. It is written under another name and renamed, so that nobody sees half of it.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::{fs, io};

use headwater_core::{Digest, ShardIndex, ShardIndexBuilder};
use headwater_storage_client::FileIdentity;
use std::os::unix::fs::PermissionsExt;

/// Ending of the files in which indices are kept.
pub(crate) const KEPT_ENDING: &str = ".hwidx";

const MAGIC: [u8; 8] = *b"HWINDEX1";
/// Magic, four numbers of the stamp, size, digest.
const HEAD_BYTES: usize = 8 + 4 * 8 + 8 + 16;

/// Keeps indices beside their shards or in a folder.
#[derive(Debug)]
pub(super) struct KeptIndices {
    /// Where all of them lie; without one, beside their shards.
    folder: Option<PathBuf>,
    /// For shards whose own folder cannot be written to.
    fallback: Option<PathBuf>,
    /// The log was told that indices cannot be kept.
    told: AtomicBool,
}

/// From which files an index was made; another stamp means another index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    shard_bytes: u64,
    shard_modified_ns: i64,
    /// Both 0 where there is no `.idx`.
    idx_bytes: u64,
    idx_modified_ns: i64,
}

// === impl Stamp ===

impl Stamp {
    pub(super) fn of(shard: FileIdentity, idx: Option<&Path>) -> Self {
        let idx = idx.and_then(|path| fs::metadata(path).ok()).map(|m| FileIdentity::of(&m));
        Self {
            shard_bytes: shard.bytes,
            shard_modified_ns: shard.modified_ns,
            idx_bytes: idx.map_or(0, |idx| idx.bytes),
            idx_modified_ns: idx.map_or(0, |idx| idx.modified_ns),
        }
    }

    fn to_bytes(self) -> [u8; 32] {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&self.shard_bytes.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.shard_modified_ns.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.idx_bytes.to_le_bytes());
        bytes[24..].copy_from_slice(&self.idx_modified_ns.to_le_bytes());
        bytes
    }
}

// === impl KeptIndices ===

impl KeptIndices {
    pub(super) fn new(folder: Option<PathBuf>, fallback: Option<PathBuf>) -> Self {
        Self { folder, fallback, told: AtomicBool::new(false) }
    }

    /// The index kept for a shard, if it is whole and of that stamp.
    pub(super) fn load(&self, shard: &Path, stamp: Stamp) -> Option<ShardIndex> {
        let load = |path: &PathBuf| decode(&fs::read(path).ok()?, stamp);
        self.places(shard).iter().find_map(load)
    }

    /// Keeps an index in the first place that can be written to. Where there is none, it is made
    /// again at the next start.
    pub(super) fn store(&self, shard: &Path, stamp: Stamp, index: &ShardIndex) {
        let bytes = encode(index, stamp);
        let mut last = None;
        for place in self.places(shard) {
            match write(&place, &bytes) {
                Ok(()) => return,
                Err(error) => last = Some((place, error)),
            }
        }
        if let Some((place, error)) = last
            && !self.told.swap(true, Ordering::Relaxed)
        {
            let place = place.display();
            tracing::warn!(%place, %error, "indices are not kept: set `index_dir` to a folder");
        }
    }

    fn places(&self, shard: &Path) -> Vec<PathBuf> {
        let digest = Digest::of(shard.as_os_str().as_encoded_bytes());
        let in_folder = |folder: &Path| folder.join(format!("{digest}{KEPT_ENDING}"));
        if let Some(folder) = &self.folder {
            return vec![in_folder(folder)];
        }
        let mut beside = shard.as_os_str().to_owned();
        beside.push(KEPT_ENDING);
        let fallback = self.fallback.as_deref().map(in_folder);
        [Some(PathBuf::from(beside)), fallback].into_iter().flatten().collect()
    }
}

fn write(place: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = place.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder)?;
    // Others may read what one user has made.
    let permissions = fs::Permissions::from_mode(0o644);
    let mut file = tempfile::Builder::new()
        .prefix(".")
        .suffix(KEPT_ENDING)
        .permissions(permissions)
        .tempfile_in(folder)?;
    file.write_all(bytes)?;
    file.persist(place)?;
    Ok(())
}

fn encode(index: &ShardIndex, stamp: Stamp) -> Vec<u8> {
    let mut body = Vec::new();
    let number = |body: &mut Vec<u8>, value: u64| body.extend(value.to_le_bytes());
    let text = |body: &mut Vec<u8>, text: &str| {
        number(body, text.len() as u64);
        body.extend(text.as_bytes());
    };
    let names = index.field_names();
    number(&mut body, names.len() as u64);
    names.iter().for_each(|name| text(&mut body, name));
    number(&mut body, index.samples().into());
    for sample in 0..index.samples() {
        text(&mut body, index.key(sample).unwrap_or_default());
        number(&mut body, index.fields(sample).len() as u64);
        for field in index.fields(sample) {
            let name = names.iter().position(|name| name == field.name).unwrap_or_default();
            number(&mut body, name as u64);
            number(&mut body, field.offset);
            number(&mut body, field.bytes);
        }
    }
    let digest = Digest::of(&body).to_bytes();
    let size = (body.len() as u64).to_le_bytes();
    [&MAGIC[..], &stamp.to_bytes(), &size, &digest, &body].concat()
}

fn decode(bytes: &[u8], stamp: Stamp) -> Option<ShardIndex> {
    let (head, body) = bytes.split_at_checked(HEAD_BYTES)?;
    let digest = Digest::of(body).to_bytes();
    let size = (body.len() as u64).to_le_bytes();
    if head != [&MAGIC[..], &stamp.to_bytes(), &size, &digest].concat() {
        return None;
    }
    let mut rest = body;
    let names = (0..number(&mut rest)?)
        .map(|_| text(&mut rest).map(str::to_owned))
        .collect::<Option<Vec<_>>>()?;
    let mut builder = ShardIndexBuilder::default();
    for _ in 0..number(&mut rest)? {
        builder.sample(text(&mut rest)?).ok()?;
        for _ in 0..number(&mut rest)? {
            let name = names.get(usize::try_from(number(&mut rest)?).ok()?)?;
            let (offset, bytes) = (number(&mut rest)?, number(&mut rest)?);
            builder.field(name, offset, bytes).ok()?;
        }
    }
    let index = builder.finish();
    (rest.is_empty() && index.end() <= stamp.shard_bytes).then_some(index)
}

fn number(rest: &mut &[u8]) -> Option<u64> {
    let (word, after) = rest.split_first_chunk::<8>()?;
    *rest = after;
    Some(u64::from_le_bytes(*word))
}

fn text<'a>(rest: &mut &'a [u8]) -> Option<&'a str> {
    let len = usize::try_from(number(rest)?).ok()?;
    let (text, after) = rest.split_at_checked(len)?;
    *rest = after;
    std::str::from_utf8(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn index() -> ShardIndex {
        let mut builder = ShardIndexBuilder::default();
        for (key, offset) in [("a", 512), ("b", 2048)] {
            builder.sample(key).unwrap();
            builder.field("jpg", offset, 10).unwrap();
            builder.field("cls", offset + 1024, 0).unwrap();
        }
        builder.finish()
    }

    fn stamp() -> Stamp {
        Stamp { shard_bytes: 10_240, shard_modified_ns: -5, idx_bytes: 0, idx_modified_ns: 0 }
    }

    #[test]
    fn an_index_comes_back_under_its_own_stamp_only() {
        let bytes = encode(&index(), stamp());
        assert_eq!(decode(&bytes, stamp()), Some(index()));
        assert_eq!(decode(&bytes, Stamp { shard_modified_ns: -4, ..stamp() }), None);
        assert_eq!(decode(&bytes, Stamp { idx_bytes: 1, ..stamp() }), None);
    }

    #[test]
    fn no_broken_file_is_believed() {
        let bytes = encode(&index(), stamp());
        for at in 0..bytes.len() {
            let mut broken = bytes.clone();
            broken[at] ^= 1;
            assert_eq!(decode(&broken, stamp()), None, "byte {at}");
            assert_eq!(decode(&bytes[..at], stamp()), None, "cut at {at}");
        }
    }

    #[test]
    fn an_index_is_kept_beside_its_shard_or_in_the_folder() {
        let folder = tempfile::tempdir().unwrap();
        let shard = folder.path().join("a.tar");
        let kept = KeptIndices::new(None, None);
        kept.store(&shard, stamp(), &index());
        assert_eq!(kept.load(&shard, stamp()), Some(index()));
        let beside = folder.path().join("a.tar.hwidx");
        assert_eq!(fs::metadata(&beside).unwrap().permissions().mode() & 0o777, 0o644);

        let other = KeptIndices::new(Some(folder.path().join("deep/down")), None);
        assert_eq!(other.load(&shard, stamp()), None);
        other.store(&shard, stamp(), &index());
        assert_eq!(other.load(&shard, stamp()), Some(index()));
        assert_eq!(fs::read_dir(folder.path().join("deep/down")).unwrap().count(), 1);
    }

    #[test]
    fn where_the_shards_folder_cannot_be_written_to_the_fallback_is_used() {
        let folder = tempfile::tempdir().unwrap();
        let kept = KeptIndices::new(None, Some(folder.path().to_owned()));
        // Nobody may make files there, not even root.
        let shards = [Path::new("/proc/a.tar"), Path::new("/proc/b.tar")];
        shards.iter().for_each(|shard| kept.store(shard, stamp(), &index()));
        assert_eq!(kept.load(shards[0], stamp()), Some(index()));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }
}
