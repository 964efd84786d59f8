//! Which samples of a place a dataset's filters leave, kept from one start to the next.
//!
//! A file is of one set of filters and of one set of shards of a place: of one file or folder, datasets may take different samples, or cut
//! it into different shards. It holds the magic, a digest of the filters and of all outlines of the
//! place, and one of what follows: of each shard, its digest with the samples that stay, their bytes, how many samples each
//! filter left out, and one bit a sample. It counts only if all of it is as it should be.

use std::collections::HashSet;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use headwater_core::{Digest, Digester};
use headwater_own_files::open_trusted_file;

use super::{KeptPlaces, stale};
use crate::filter::Filters;
use crate::format::Outline;
use crate::source::Place;

/// Ending of the files in which positions are kept.
pub(crate) const POSITIONS_ENDING: &str = ".hwfilter";
const MAGIC: [u8; 8] = *b"HWFILTR2";
/// Magic, and two digests.
const HEAD_BYTES: usize = 8 + 2 * 16;

/// Which samples of a shard stay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Positions {
    samples: u32,
    /// One bit a sample.
    bits: Vec<u8>,
    /// How many samples each filter left out.
    pub(crate) left_out: Vec<u64>,
    /// Its size in the manifest, with these samples only.
    pub(crate) bytes: u64,
    /// Its digest in the manifest, with these samples only.
    pub(crate) digest: Digest,
}

/// Keeps positions where indices are kept.
#[derive(Debug)]
pub(crate) struct KeptPositions {
    places: KeptPlaces,
    /// Whether files are written.
    writes: bool,
    /// Folders in which old files were looked for.
    tidied: Mutex<HashSet<PathBuf>>,
    /// The log has said that a file cannot be written.
    told: AtomicBool,
    /// The log has said that a file is not read.
    refused: AtomicBool,
}

// === impl Positions ===

impl Positions {
    pub(crate) fn new(stays: &[bool], left_out: Vec<u64>, bytes: u64, digest: Digest) -> Self {
        let mut bits = vec![0; stays.len().div_ceil(8)];
        for (sample, _) in stays.iter().enumerate().filter(|(_, stays)| **stays) {
            bits[sample / 8] |= 1 << (sample % 8);
        }
        Self { samples: stays.len() as u32, bits, left_out, bytes, digest }
    }

    /// Whether a sample of that number stays.
    pub(crate) fn stays(&self, sample: u32) -> bool {
        let byte = self.bits.get(sample as usize / 8);
        byte.is_some_and(|byte| byte & 1 << (sample % 8) != 0)
    }

    /// How many stay.
    pub(crate) fn count(&self) -> u32 {
        self.bits.iter().map(|byte| byte.count_ones()).sum()
    }

    fn write(&self, to: &mut Vec<u8>) {
        to.extend(self.digest.to_bytes());
        to.extend(self.bytes.to_le_bytes());
        to.extend(self.left_out.iter().flat_map(|count| count.to_le_bytes()));
        to.extend(&self.bits);
    }

    fn read(body: &mut &[u8], samples: u32, filters: usize) -> Option<Self> {
        let digest = Digest::from_bytes(*body.split_off(..16)?.first_chunk()?);
        let mut number = || Some(u64::from_le_bytes(*body.split_off(..8)?.first_chunk()?));
        let bytes = number()?;
        let left_out = (0..filters).map(|_| number()).collect::<Option<_>>()?;
        let bits = body.split_off(..(samples as usize).div_ceil(8))?.to_vec();
        let positions = Self { samples, bits, left_out, bytes, digest };
        // No bit beyond the last sample: what stays is counted by bits.
        let end = 8 * positions.bits.len() as u32;
        (samples..end).all(|sample| !positions.stays(sample)).then_some(positions)
    }
}

// === impl KeptPositions ===

impl KeptPositions {
    pub(crate) fn new(places: KeptPlaces, writes: bool) -> Self {
        let [told, refused] = [false, false].map(AtomicBool::new);
        Self { places, writes, tidied: Mutex::default(), told, refused }
    }

    /// What is kept of a place with these shards, if nobody but this user, root and the place's owner can have written it.
    pub(crate) fn load(
        &self,
        place: &Place,
        filters: &Filters,
        outlines: &[Outline],
    ) -> Option<Vec<Positions>> {
        let (ending, owner) = (ending(filters, outlines), place.owner());
        let of_shard = |outline: &Outline| {
            24 + 8 * filters.len() as u64 + u64::from(outline.samples).div_ceil(8)
        };
        let most = HEAD_BYTES as u64 + outlines.iter().map(of_shard).sum::<u64>();
        let load = |path: &PathBuf| match read(path, owner, most) {
            Ok(bytes) => decode(&bytes, filters, outlines),
            Err(error) => {
                self.refuse(path, &error);
                None
            }
        };
        self.places.of(place, &ending).iter().find_map(load)
    }

    fn refuse(&self, path: &Path, error: &io::Error) {
        if error.kind() == io::ErrorKind::NotFound {
            return;
        }
        let path = path.display();
        if self.refused.swap(true, Ordering::Relaxed) {
            tracing::debug!(%path, %error, "what filters leave is decided again");
        } else {
            tracing::warn!(%path, %error, "a file with what filters leave is not read: it is decided again");
        }
    }

    /// Removes old files from a folder that a file was written to, once.
    fn tidy(&self, written: &Path) {
        let Some(folder) = written.parent() else { return };
        let is_first = {
            let mut tidied = self.tidied.lock().unwrap_or_else(PoisonError::into_inner);
            tidied.insert(folder.to_owned())
        };
        // Not under the lock: a folder may be far and full.
        if is_first {
            stale::remove(written, POSITIONS_ENDING);
        }
    }

    /// Keeps the positions of a place in the first folder that can be written to. Where there is none, they are found
    /// again at the next start.
    pub(crate) fn store(
        &self,
        place: &Place,
        filters: &Filters,
        outlines: &[Outline],
        positions: &[Positions],
    ) {
        if !self.writes {
            return;
        }
        let (ending, bytes) = (ending(filters, outlines), encode(filters, outlines, positions));
        let (at, error) = match self.places.write(place, place.owner(), &ending, &bytes) {
            Ok(at) => return self.tidy(&at),
            Err(failed) => failed,
        };
        let at = at.display();
        if self.told.swap(true, Ordering::Relaxed) {
            tracing::debug!(%at, %error, "what filters leave is not kept");
        } else {
            tracing::warn!(%at, %error, "what filters leave is not kept: set `index_dir` to a folder");
        }
    }
}

/// What is behind the name of a place: each set of filters and of shards has a file of its own.
fn ending(filters: &Filters, outlines: &[Outline]) -> String {
    format!(".{}{POSITIONS_ENDING}", content(filters, outlines))
}

/// What the samples that stay follow from.
fn content(filters: &Filters, outlines: &[Outline]) -> Digest {
    let mut digester = Digester::new("headwater filtered place 1");
    digester.bytes(&filters.digest().to_bytes()).number(outlines.len() as u64);
    for Outline { digest, version, samples, .. } in outlines {
        digester.bytes(&digest.to_bytes()).bytes(&version.to_bytes()).number((*samples).into());
    }
    digester.finish()
}

/// The bytes of a file, and not many more than `most`.
fn read(path: &Path, owner: Option<u32>, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open_trusted_file(path, owner)?.take(most + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// All that is before the shards.
fn head(body: &[u8], filters: &Filters, outlines: &[Outline]) -> Vec<u8> {
    let digests = [content(filters, outlines), Digest::of(body)];
    MAGIC.into_iter().chain(digests.into_iter().flat_map(Digest::to_bytes)).collect()
}

fn encode(filters: &Filters, outlines: &[Outline], positions: &[Positions]) -> Vec<u8> {
    let mut body = Vec::new();
    positions.iter().for_each(|positions| positions.write(&mut body));
    [head(&body, filters, outlines), body].concat()
}

fn decode(bytes: &[u8], filters: &Filters, outlines: &[Outline]) -> Option<Vec<Positions>> {
    let (found, mut body) = bytes.split_at_checked(HEAD_BYTES)?;
    if found != head(body, filters, outlines) {
        return None;
    }
    let read = |outline: &Outline| Positions::read(&mut body, outline.samples, filters.len());
    let positions = outlines.iter().map(read).collect::<Option<_>>()?;
    body.is_empty().then_some(positions)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::{FilterConfig, FilterKind};

    fn outline(digest: u128, samples: u32) -> Outline {
        Outline {
            name: "a".to_owned(),
            samples,
            bytes: 100,
            fields: Vec::new(),
            digest: Digest(digest),
            by: "scan",
            version: Digest(2),
        }
    }

    fn filters(min: f64) -> Filters {
        let filter =
            FilterConfig { kind: FilterKind::Width, min: Some(min), ..FilterConfig::default() };
        let high = FilterConfig { kind: FilterKind::Height, ..filter.clone() };
        Filters::of("d", &[filter, high]).unwrap().unwrap()
    }

    fn positions() -> Vec<Positions> {
        let stays = [true, false, false, true, true, true, true, true, false, false, true];
        let first = Positions::new(&stays, vec![3, 1], 77, Digest(4));
        vec![first, Positions::new(&[false], vec![1, 0], 5, Digest(6))]
    }

    #[test]
    fn positions_come_back_of_the_same_shards_only() {
        let (filters, outlines) = (&filters(1.0), [outline(1, 11), outline(2, 1)]);
        let bytes = encode(filters, &outlines, &positions());
        assert_eq!(decode(&bytes, filters, &outlines), Some(positions()));
        let first = &positions()[0];
        assert_eq!((first.count(), first.stays(3), first.stays(11)), (7, true, false));
        for others in [
            vec![outline(1, 11)],
            vec![outline(2, 1), outline(1, 11)],
            vec![outline(1, 11), outline(3, 1)],
            vec![outline(1, 12), outline(2, 1)],
            vec![outline(1, 11), Outline { version: Digest(3), ..outline(2, 1) }],
        ] {
            assert_eq!(decode(&bytes, filters, &others), None, "{others:?}");
        }
        for at in 0..bytes.len() {
            let mut broken = bytes.clone();
            broken[at] ^= 1;
            assert_eq!(decode(&broken, filters, &outlines), None, "byte {at}");
            assert_eq!(decode(&bytes[..at], filters, &outlines), None, "cut at {at}");
        }
        let mut beyond = positions();
        beyond[0].bits = vec![1, 0x80];
        assert_eq!(decode(&encode(filters, &outlines, &beyond), filters, &outlines), None);
    }

    /// Of one file or folder, two datasets may have different shards: other samples, or more in a shard.
    #[test]
    fn each_set_of_shards_has_a_file_of_its_own_in_all_folders() {
        let folder = tempfile::tempdir().unwrap();
        let place = Place::of_file(&folder.path().join("rows.h5"));
        let beside = KeptPlaces::default();
        let apart = KeptPlaces { folder: Some(folder.path().join("apart")), ..beside.clone() };
        let sets = [vec![outline(1, 11), outline(2, 1)], vec![outline(3, 11), outline(2, 1)]];
        for places in [beside, apart] {
            let kept = KeptPositions::new(places, true);
            for _ in 0..2 {
                for outlines in &sets {
                    kept.store(&place, &filters(1.0), outlines, &positions());
                }
            }
            for outlines in &sets {
                let found = kept.load(&place, &filters(1.0), outlines);
                assert_eq!(found, Some(positions()), "{kept:?}");
            }
        }
        assert_eq!(std::fs::read_dir(folder.path().join("apart")).unwrap().count(), 2);
    }

    #[test]
    fn a_place_keeps_the_files_that_were_written_last() {
        let folder = tempfile::tempdir().unwrap();
        let place = Place::of_file(&folder.path().join("a.tar"));
        let outlines = [outline(1, 11), outline(2, 1)];
        for min in 0..20 {
            // Each is another start of a node.
            let kept = KeptPositions::new(KeptPlaces::default(), true);
            kept.store(&place, &filters(f64::from(min)), &outlines, &positions());
            assert!(kept.load(&place, &filters(f64::from(min)), &outlines).is_some(), "{min}");
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 8);
    }

    #[test]
    fn each_set_of_filters_has_a_file_of_its_own_and_read_only_writes_none() {
        let folder = tempfile::tempdir().unwrap();
        let place = Place::of_file(&folder.path().join("a.tar"));
        let (outlines, places) = ([outline(1, 11), outline(2, 1)], KeptPlaces::default());
        let store = |kept: &KeptPositions, min| {
            kept.store(&place, &filters(min), &outlines, &positions());
        };
        store(&KeptPositions::new(places.clone(), false), 1.0);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        let kept = KeptPositions::new(places, true);
        store(&kept, 1.0);
        assert_eq!(kept.load(&place, &filters(2.0), &outlines), None);
        store(&kept, 2.0);
        for min in [1.0, 2.0] {
            assert_eq!(kept.load(&place, &filters(min), &outlines), Some(positions()));
        }
    }
}
