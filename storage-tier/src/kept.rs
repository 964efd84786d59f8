//! Indices kept from one start to the next.
//!
//! A file holds: the magic, the stamp of the shard and of its `.idx`, the size and digest of what
//! follows, and the index. It counts only if all of it is as it should be; anything else is made
//! again. It is written under another name and renamed, so that nobody sees half of it.

mod entries;
mod places;
mod positions;
mod stale;

use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use headwater_core::{Digest, ShardIndex};
use headwater_own_files::open_trusted_file;

pub(crate) use entries::{ENTRIES_ENDING, EntriesStamp, KeptEntries};
pub(crate) use places::KeptPlaces;
pub(crate) use positions::{KeptPositions, POSITIONS_ENDING, Positions};

use crate::source::{Place, Version};

/// Ending of the files in which indices are kept.
pub(crate) const KEPT_ENDING: &str = ".hwidx";

const MAGIC: [u8; 8] = *b"HWINDEX3";
/// Magic, stamp, size, digest.
const HEAD_BYTES: usize = 8 + 2 * 24 + 8 + 16;

/// Keeps indices beside their shards or in a folder.
#[derive(Debug)]
pub(crate) struct KeptIndices {
    access: Access,
    places: KeptPlaces,
    /// The log has said that indices cannot be kept.
    told: AtomicBool,
    /// The log has said that an index is not read.
    refused: AtomicBool,
}

/// What is done with kept indices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Access {
    ReadAndWrite,
    Read,
    None,
}

/// From which files an index was made; another stamp means another index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    shard_bytes: u64,
    shard_version: Digest,
    /// Both 0 where there is no `.idx`.
    idx_bytes: u64,
    idx_version: Digest,
}

// === impl Stamp ===

impl Stamp {
    pub(crate) fn new(shard: &Version, idx: Option<&Version>) -> Self {
        Self {
            shard_bytes: shard.bytes,
            shard_version: shard.digest(),
            idx_bytes: idx.map_or(0, |idx| idx.bytes),
            idx_version: idx.map_or(Digest(0), Version::digest),
        }
    }

    fn to_bytes(self) -> [u8; 48] {
        let mut bytes = [0; 48];
        bytes[..8].copy_from_slice(&self.shard_bytes.to_le_bytes());
        bytes[8..24].copy_from_slice(&self.shard_version.to_bytes());
        bytes[24..32].copy_from_slice(&self.idx_bytes.to_le_bytes());
        bytes[32..].copy_from_slice(&self.idx_version.to_bytes());
        bytes
    }
}

// === impl KeptIndices ===

impl KeptIndices {
    pub(crate) fn new(folder: Option<PathBuf>, fallback: Option<PathBuf>) -> Self {
        let places = KeptPlaces { folder, fallback };
        let [told, refused] = [false, false].map(AtomicBool::new);
        Self { access: Access::ReadAndWrite, places, told, refused }
    }

    /// The same indices, read only.
    pub(crate) fn read_only(self) -> Self {
        Self { access: Access::Read, ..self }
    }

    /// No indices: whatever asks for one makes it.
    pub(crate) fn none() -> Self {
        Self { access: Access::None, ..Self::new(None, None) }
    }

    /// What is kept of filters, in the same places.
    pub(crate) fn positions(&self) -> KeptPositions {
        KeptPositions::new(self.places.clone(), self.access == Access::ReadAndWrite)
    }

    /// The index kept for a shard, if it is whole, of that stamp, and nobody but this user, root and the shard's owner
    /// can have written it.
    pub(crate) fn load(
        &self,
        shard: &Place,
        owner: Option<u32>,
        stamp: Stamp,
    ) -> Option<ShardIndex> {
        if self.access == Access::None {
            return None;
        }
        let load = |path: &PathBuf| decode(&self.read(path, owner)?, stamp);
        self.places.of(shard, KEPT_ENDING).iter().find_map(load)
    }

    fn read(&self, path: &Path, owner: Option<u32>) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        let read = open_trusted_file(path, owner).and_then(|mut file| file.read_to_end(&mut bytes));
        match read {
            Ok(_) => return Some(bytes),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) if self.refused.swap(true, Ordering::Relaxed) => {
                tracing::debug!(path = %path.display(), %error, "an index is not read");
            }
            Err(error) => {
                let path = path.display();
                tracing::warn!(
                    %path,
                    %error,
                    "an index is not read: remove it, or set `index_dir` to a folder of your own; further ones are not \
                     named"
                );
            }
        }
        None
    }

    /// Keeps an index of a shard of `owner`'s in the first place that can be written to. Where there is none, it is
    /// made again at the next start.
    pub(crate) fn store(
        &self,
        shard: &Place,
        owner: Option<u32>,
        stamp: Stamp,
        index: &ShardIndex,
    ) {
        if self.access != Access::ReadAndWrite {
            return;
        }
        let written = self.places.write(shard, owner, KEPT_ENDING, &encode(index, stamp));
        if let Err((place, error)) = written
            && !self.told.swap(true, Ordering::Relaxed)
        {
            let place = place.display();
            tracing::warn!(%place, %error, "indices are not kept: set `index_dir` to a folder");
        }
    }
}

fn encode(index: &ShardIndex, stamp: Stamp) -> Vec<u8> {
    let body = index.to_bytes();
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
    ShardIndex::from_bytes(body).filter(|index| index.end() <= stamp.shard_bytes)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, chown};

    use headwater_core::ShardIndexBuilder;

    use super::*;

    /// Another user.
    const OTHER: u32 = 12_345;

    fn index() -> ShardIndex {
        let mut builder = ShardIndexBuilder::default();
        for (key, offset) in [("a", 512), ("b", 2048)] {
            builder.sample(key).unwrap();
            builder.field("jpg", offset, 10).unwrap();
            builder.field("cls", offset + 1024, 0).unwrap();
            builder.inline("folder", key.as_bytes()).unwrap();
        }
        builder.finish()
    }

    /// A folder that everybody may write to.
    fn shared() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
        folder
    }

    /// What another user does. Users are a thread's, and only root can become another one.
    fn as_user(user: u32, act: impl FnOnce() + Send) {
        let act = || {
            rustix::thread::set_thread_uid(rustix::fs::Uid::from_raw(user)).unwrap();
            act();
        };
        std::thread::scope(|scope| scope.spawn(act).join().unwrap());
    }

    fn stamp() -> Stamp {
        Stamp::new(&Version { bytes: 10_240, tag: "-5".to_owned() }, None)
    }

    #[test]
    fn an_index_comes_back_under_its_own_stamp_only() {
        let bytes = encode(&index(), stamp());
        assert_eq!(decode(&bytes, stamp()), Some(index()));
        assert_eq!(decode(&bytes, Stamp { shard_version: Digest(4), ..stamp() }), None);
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
        let shard = Place::of_file(&folder.path().join("a.tar"));
        let kept = KeptIndices::new(None, None);
        kept.store(&shard, None, stamp(), &index());
        assert_eq!(kept.load(&shard, None, stamp()), Some(index()));
        let beside = folder.path().join("a.tar.hwidx");
        assert_eq!(fs::metadata(&beside).unwrap().permissions().mode() & 0o777, 0o644);

        let other = KeptIndices::new(Some(folder.path().join("deep/down")), None);
        assert_eq!(other.load(&shard, None, stamp()), None);
        other.store(&shard, None, stamp(), &index());
        assert_eq!(other.load(&shard, None, stamp()), Some(index()));
        assert_eq!(fs::read_dir(folder.path().join("deep/down")).unwrap().count(), 1);
    }

    #[test]
    fn a_link_in_the_place_of_a_kept_index_is_replaced_and_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let (precious, kept) = (folder.path().join("precious"), folder.path().join("a.tar.hwidx"));
        fs::write(&precious, "precious").unwrap();
        std::os::unix::fs::symlink(&precious, &kept).unwrap();
        let shard = Place::of_file(&folder.path().join("a.tar"));
        KeptIndices::new(None, None).store(&shard, None, stamp(), &index());
        assert_eq!(fs::read(&precious).unwrap(), b"precious");
        assert!(kept.symlink_metadata().unwrap().is_file());
    }

    /// In a shared folder with the sticky bit, anybody may make a file before it is first written.
    #[test]
    fn an_index_that_another_user_can_have_written_is_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().join("a.tar");
        fs::write(&at, "shard").unwrap();
        let (shard, kept) = (Place::of_file(&at), KeptIndices::new(None, None));
        let beside = folder.path().join("a.tar.hwidx");
        let loads = || kept.load(&shard, shard.owner(), stamp()).is_some();
        kept.store(&shard, None, stamp(), &index());
        assert!(loads());
        fs::set_permissions(&beside, fs::Permissions::from_mode(0o664)).unwrap();
        assert!(!loads());
        fs::set_permissions(&beside, fs::Permissions::from_mode(0o644)).unwrap();
        let moved = folder.path().join("moved");
        fs::rename(&beside, &moved).unwrap();
        std::os::unix::fs::symlink(&moved, &beside).unwrap();
        assert!(!loads());
        fs::rename(&moved, &beside).unwrap();
        assert!(loads());
        if let Err(error) = chown(&beside, Some(OTHER), None) {
            return eprintln!("only root gives a file to another user: skipped: {error}");
        }
        assert!(!loads());
        chown(&at, Some(OTHER), None).unwrap();
        assert!(loads(), "it is the owner's of the shard");
    }

    /// In a folder that both may write to, each would replace the other's for ever.
    #[test]
    fn an_index_that_another_user_has_made_stays_and_ours_is_kept_in_the_fallback() {
        let (folder, fallback) = (shared(), shared());
        let shard = Place::of_file(&folder.path().join("a.tar"));
        let beside = folder.path().join("a.tar.hwidx");
        fs::write(&beside, "theirs").unwrap();
        if let Err(error) = chown(&beside, Some(OTHER), None) {
            return eprintln!("only root gives a file to another user: skipped: {error}");
        }
        let kept = KeptIndices::new(None, Some(fallback.path().to_owned()));
        as_user(OTHER + 1, || {
            for _ in 0..2 {
                kept.store(&shard, None, stamp(), &index());
                assert_eq!(fs::read(&beside).unwrap(), b"theirs");
                assert_eq!(fs::read_dir(fallback.path()).unwrap().count(), 1);
            }
            assert_eq!(kept.load(&shard, None, stamp()), Some(index()));
            KeptIndices::new(None, None).store(&shard, None, stamp(), &index());
        });
        assert_eq!(fs::read(&beside).unwrap(), b"theirs", "it is left alone without a fallback");
    }

    /// Else another user could keep the index of everybody from being kept.
    #[test]
    fn roots_and_the_shards_owners_index_take_the_place_of_another_users() {
        let folder = shared();
        let shard = Place::of_file(&folder.path().join("a.tar"));
        let beside = folder.path().join("a.tar.hwidx");
        let kept = KeptIndices::new(None, None);
        for user in [0, OTHER + 1] {
            fs::write(&beside, "theirs").unwrap();
            if let Err(error) = chown(&beside, Some(OTHER), None) {
                return eprintln!("only root gives a file to another user: skipped: {error}");
            }
            as_user(user, || kept.store(&shard, Some(OTHER + 1), stamp(), &index()));
            assert_eq!(kept.load(&shard, Some(OTHER + 1), stamp()), Some(index()), "user {user}");
        }
    }

    #[test]
    fn indices_that_are_read_only_are_not_written_and_none_are_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let shard = Place::of_file(&folder.path().join("a.tar"));
        let read_only = KeptIndices::new(None, None).read_only();
        read_only.store(&shard, None, stamp(), &index());
        KeptIndices::none().store(&shard, None, stamp(), &index());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        KeptIndices::new(None, None).store(&shard, None, stamp(), &index());
        assert_eq!(read_only.load(&shard, None, stamp()), Some(index()));
        assert_eq!(KeptIndices::none().load(&shard, None, stamp()), None);
    }

    #[test]
    fn where_the_shards_folder_cannot_be_written_to_the_fallback_is_used() {
        let folder = tempfile::tempdir().unwrap();
        let kept = KeptIndices::new(None, Some(folder.path().to_owned()));
        // Nobody may make files there, not even root.
        let shards = ["/proc/a.tar", "/proc/b.tar"].map(|path| Place::of_file(Path::new(path)));
        shards.iter().for_each(|shard| kept.store(shard, None, stamp(), &index()));
        assert_eq!(kept.load(&shards[0], None, stamp()), Some(index()));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }
}
