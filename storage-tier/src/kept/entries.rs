//! Entry points of a shard's JPEG images, kept from one start to the next.
//!
//! A file holds: the magic, the shard's digest in its manifest, the version of its objects, the size of what
//! follows, a digest of all of it, and the entries. It counts only if all of it is as it should be. It is
//! written under another name and renamed, so that nobody sees half of it.

use std::collections::HashMap;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use headwater_core::shard_entries::SHARD_ENTRIES_BYTES_MAX;
use headwater_core::{Digest, Digester, ShardEntries};
use headwater_own_files::open_trusted_file;

use super::KeptPlaces;
use super::places::{is_in_the_way, stays};
use crate::metrics;
use crate::source::Place;

/// Ending of the files in which entry points are kept.
pub(crate) const ENTRIES_ENDING: &str = ".hwentries";

/// A folder that cannot be written to is not tried again for so long: what is made for it would be lost.
const CLOSED: Duration = Duration::from_secs(600);

const MAGIC: [u8; 8] = *b"HWENTRY1";
/// Magic, two digests of the shard, size, digest of the file.
const HEAD_BYTES: usize = 8 + 2 * 16 + 8 + 16;

/// Keeps entry points where indices are kept.
#[derive(Debug)]
pub(crate) struct KeptEntries {
    places: KeptPlaces,
    /// The log has said that a file is not used.
    told: AtomicBool,
    /// Until when folders, or single places in them, are not written to.
    closed: Mutex<HashMap<PathBuf, Instant>>,
}

/// Which shard entries are of; after a change of the shard it is another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EntriesStamp {
    /// Its digest in the manifest: its samples, and where their fields lie.
    pub(crate) shard: Digest,
    /// The version of its objects.
    pub(crate) version: Digest,
}

/// Why a file of entries is not used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refused {
    #[error("cannot be read: {0}")]
    Unreadable(io::Error),
    #[error("is not a file of entry points")]
    Foreign,
    #[error("was written by another release")]
    OtherRelease,
    #[error("is damaged")]
    Damaged,
    #[error("belongs to another shard, or to this shard before it was changed")]
    OtherShard,
}

// === impl Refused ===

impl Refused {
    /// Name for metrics.
    fn name(&self) -> &'static str {
        match self {
            Self::Unreadable(_) => "unreadable",
            Self::Foreign => "foreign",
            Self::OtherRelease => "release",
            Self::Damaged => "damaged",
            Self::OtherShard => "shard",
        }
    }
}

// === impl KeptEntries ===

impl KeptEntries {
    pub(crate) fn new(places: KeptPlaces) -> Self {
        Self { places, told: AtomicBool::new(false), closed: Mutex::default() }
    }

    /// The entries kept for a shard of a place, if they are whole, of that stamp, and nobody but this user, root and the
    /// shard's owner can have written them. A file that is not so is counted, and named in the log if it is the first one.
    pub(crate) fn load(
        &self,
        place: &Place,
        number: u32,
        stamp: EntriesStamp,
    ) -> Option<ShardEntries> {
        for path in self.places.of(&kept_as(place, number), ENTRIES_ENDING) {
            let refused = match read(&path, place.owner()) {
                Ok(Some(bytes)) => match decode(&bytes, stamp) {
                    Ok(entries) => return Some(entries),
                    Err(refused) => refused,
                },
                Ok(None) => continue,
                Err(error) => Refused::Unreadable(error),
            };
            self.refuse(&path, &refused);
        }
        None
    }

    fn refuse(&self, path: &Path, refused: &Refused) {
        metrics::entries_refused(refused.name());
        let path = path.display();
        if self.told.swap(true, Ordering::Relaxed) {
            tracing::debug!(%path, %refused, "a file of entry points is not used");
            return;
        }
        tracing::warn!(
            %path,
            %refused,
            "a file of entry points is not used: `headwater datasets index --entries` makes it anew; further ones \
             are counted"
        );
    }

    /// Keeps entries in the first place that can be written to; where that is.
    ///
    /// # Errors
    /// No place can be written to: the last one tried, and why.
    pub(crate) fn store(
        &self,
        place: &Place,
        number: u32,
        stamp: EntriesStamp,
        entries: &ShardEntries,
    ) -> Result<PathBuf, (PathBuf, io::Error)> {
        let (kept, bytes) = (kept_as(place, number), encode(entries, stamp));
        let written = self.places.write(&kept, place.owner(), ENTRIES_ENDING, &bytes);
        if written.is_err() {
            let until = Instant::now() + CLOSED;
            let closes = |at: PathBuf| match is_in_the_way(&at) {
                true => Some((at, until)),
                false => Some((at.parent()?.to_owned(), until)),
            };
            let places = self.places.of(&kept, ENTRIES_ENDING).into_iter();
            self.closed().extend(places.filter_map(closes));
        }
        written
    }

    /// Whether no place for a shard's entries could be written to lately.
    pub(crate) fn is_closed(&self, place: &Place, number: u32) -> bool {
        let (mut closed, now) = (self.closed(), Instant::now());
        closed.retain(|_, until| now < *until);
        let (places, owner) =
            (self.places.of(&kept_as(place, number), ENTRIES_ENDING), place.owner());
        // The place or its folder.
        let is_known = |at: &Path| at.ancestors().take(2).any(|path| closed.contains_key(path));
        places.iter().all(|at| is_known(at) || stays(at, owner))
    }

    fn closed(&self) -> MutexGuard<'_, HashMap<PathBuf, Instant>> {
        // No panic can happen while the lock is held.
        self.closed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the entries of a shard are kept under: its place or, where that has several, the place and the
/// shard's number.
fn kept_as(place: &Place, number: u32) -> Place {
    match number {
        0 => place.clone(),
        number => place.beside(&format!("{}#{number}", place.file_name())),
    }
}

/// The bytes of a file, no more of them than one may have; `None` where there is no file.
fn read(path: &Path, owner: Option<u32>) -> io::Result<Option<Vec<u8>>> {
    let file = match open_trusted_file(path, owner) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut bytes = Vec::new();
    let most = (HEAD_BYTES + SHARD_ENTRIES_BYTES_MAX) as u64;
    file.take(most + 1).read_to_end(&mut bytes)?;
    Ok(Some(bytes))
}

/// All that is before the entries.
fn head(body: &[u8], stamp: EntriesStamp) -> Vec<u8> {
    let size = body.len() as u64;
    let (shard, version) = (stamp.shard.to_bytes(), stamp.version.to_bytes());
    let mut digester = Digester::new("headwater kept entries 1");
    let digest = digester.bytes(&shard).bytes(&version).number(size).bytes(body).finish();
    [&MAGIC[..], &shard, &version, &size.to_le_bytes(), &digest.to_bytes()].concat()
}

fn encode(entries: &ShardEntries, stamp: EntriesStamp) -> Vec<u8> {
    let body = entries.as_bytes();
    [&head(body, stamp)[..], body].concat()
}

fn decode(bytes: &[u8], stamp: EntriesStamp) -> Result<ShardEntries, Refused> {
    let (magic, _) = bytes.split_first_chunk::<8>().ok_or(Refused::Damaged)?;
    if *magic != MAGIC {
        let is_ours = magic[..7] == MAGIC[..7];
        return Err(if is_ours { Refused::OtherRelease } else { Refused::Foreign });
    }
    let (found, body) = bytes.split_at_checked(HEAD_BYTES).ok_or(Refused::Damaged)?;
    let digest = |at: usize| {
        let bytes = found[at..].first_chunk().copied().unwrap_or_default();
        Digest::from_bytes(bytes)
    };
    let theirs = EntriesStamp { shard: digest(8), version: digest(24) };
    if found != head(body, theirs) {
        return Err(Refused::Damaged);
    }
    if theirs != stamp {
        return Err(Refused::OtherShard);
    }
    ShardEntries::from_bytes(body.into()).ok_or(Refused::Damaged)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use headwater_core::ShardEntriesBuilder;

    use super::*;

    const STAMP: EntriesStamp = EntriesStamp { shard: Digest(7), version: Digest(8) };

    fn entries() -> ShardEntries {
        let mut builder = ShardEntriesBuilder::default();
        builder.add(0, 0, b"of the first");
        builder.add(3, 1, b"of the last");
        builder.finish()
    }

    fn beside() -> KeptEntries {
        KeptEntries::new(KeptPlaces::default())
    }

    fn why(bytes: &[u8]) -> &'static str {
        decode(bytes, STAMP).unwrap_err().name()
    }

    #[test]
    fn entries_come_back_for_their_own_shard_only() {
        let bytes = encode(&entries(), STAMP);
        assert_eq!(decode(&bytes, STAMP).unwrap(), entries());
        let moved = EntriesStamp { version: Digest(9), ..STAMP };
        assert_eq!(why(&encode(&entries(), moved)), "shard");
        let other = EntriesStamp { shard: Digest(9), ..STAMP };
        assert_eq!(why(&encode(&entries(), other)), "shard");
    }

    #[test]
    fn no_damaged_file_is_believed() {
        let bytes = encode(&entries(), STAMP);
        for at in 0..bytes.len() {
            for change in [1, 0x80] {
                let mut broken = bytes.clone();
                broken[at] ^= change;
                let expected = match at {
                    0..7 => "foreign",
                    7 => "release",
                    _ => "damaged",
                };
                assert_eq!(why(&broken), expected, "byte {at}");
            }
            assert_eq!(why(&bytes[..at]), "damaged", "cut at {at}");
        }
        assert_eq!(why(&[&bytes[..], b"x"].concat()), "damaged");
    }

    #[test]
    fn each_shard_of_a_place_has_its_own_file() {
        let folder = tempfile::tempdir().unwrap();
        let place = Place::of_file(&folder.path().join("a.parquet"));
        let kept = beside();
        let none = ShardEntriesBuilder::default().finish();
        kept.store(&place, 0, STAMP, &entries()).unwrap();
        let third = kept.store(&place, 3, STAMP, &none).unwrap();
        assert_eq!(third, folder.path().join("a.parquet#3.hwentries"));
        assert_eq!(kept.load(&place, 0, STAMP), Some(entries()));
        assert_eq!(kept.load(&place, 1, STAMP), None);
        assert_eq!(kept.load(&place, 3, STAMP), Some(none));
    }

    #[test]
    fn a_file_that_is_refused_gives_way_to_the_next_place() {
        let (folder, fallback) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let place = Place::of_file(&folder.path().join("a.tar"));
        let fallback = Some(fallback.path().to_owned());
        let kept = KeptEntries::new(KeptPlaces { folder: None, fallback: fallback.clone() });
        KeptEntries::new(KeptPlaces { folder: fallback, fallback: None })
            .store(&place, 0, STAMP, &entries())
            .unwrap();
        fs::write(folder.path().join("a.tar.hwentries"), b"HWENTRY1 and nothing").unwrap();
        assert_eq!(kept.load(&place, 0, STAMP), Some(entries()));
        assert_eq!(beside().load(&place, 0, STAMP), None);
        // It is written where it is read first, whatever is there.
        kept.store(&place, 0, STAMP, &entries()).unwrap();
        assert_eq!(beside().load(&place, 0, STAMP), Some(entries()));
    }

    #[test]
    fn a_pipe_and_a_file_of_another_user_are_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let place = Place::of_file(&folder.path().join("a.tar"));
        let path = folder.path().join("a.tar.hwentries");
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        assert_eq!(beside().load(&place, 0, STAMP), None);
        beside().store(&place, 0, STAMP, &entries()).unwrap();
        assert_eq!(beside().load(&place, 0, STAMP), Some(entries()));
        match std::os::unix::fs::chown(&path, Some(65_534), None) {
            Ok(()) => assert_eq!(beside().load(&place, 0, STAMP), None),
            Err(error) => eprintln!("only root gives a file to another user: skipped: {error}"),
        }
    }

    #[test]
    fn what_lies_in_the_place_of_one_file_closes_no_other_one() {
        let folder = tempfile::tempdir().unwrap();
        let [one, other] = ["a.tar", "b.tar"].map(|name| Place::of_file(&folder.path().join(name)));
        let path = folder.path().join("a.tar.hwentries");
        fs::create_dir_all(path.join("full")).unwrap();
        let kept = beside();
        kept.store(&one, 0, STAMP, &entries()).unwrap_err();
        assert_eq!([&one, &other].map(|place| kept.is_closed(place, 0)), [true, false]);
        kept.store(&other, 0, STAMP, &entries()).unwrap();
    }

    #[test]
    fn a_file_of_more_bytes_than_one_may_have_is_not_read_to_its_end() {
        let folder = tempfile::tempdir().unwrap();
        let place = Place::of_file(&folder.path().join("a.tar"));
        let path = beside().store(&place, 0, STAMP, &entries()).unwrap();
        fs::File::options().write(true).open(&path).unwrap().set_len(1 << 40).unwrap();
        assert_eq!(
            read(&path, None).unwrap().unwrap().len(),
            HEAD_BYTES + SHARD_ENTRIES_BYTES_MAX + 1
        );
        assert_eq!(beside().load(&place, 0, STAMP), None);
    }
}
