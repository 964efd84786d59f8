//! Which samples of a shard a dataset's filters leave, kept from one start to the next.
//!
//! A file holds: the magic, the filters' and the shard's digests, the number of samples, a digest of what follows; the digest
//! of the filtered shard, how many samples each filter left out, and one bit a sample. It counts only if all of it is as it
//! should be.

use std::io::Read as _;

use headwater_core::{Digest, Digester};
use headwater_own_files::open_trusted_file;

use super::KeptPlaces;
use crate::source::Place;

/// Ending of the files in which positions are kept.
const POSITIONS_ENDING: &str = ".hwfilter";
const MAGIC: [u8; 8] = *b"HWFILTR1";
/// Magic, three digests, samples, digest of what follows.
const HEAD_BYTES: usize = 8 + 3 * 16 + 4 + 16;

/// Which samples of a shard stay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Positions {
    samples: u32,
    /// One bit a sample.
    bits: Vec<u8>,
    /// How many samples each filter left out.
    pub(crate) left_out: Vec<u64>,
    /// The shard's, with these samples only.
    pub(crate) digest: Digest,
}

/// Filters and shard; with another stamp other samples may stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PositionsStamp {
    pub(crate) filters: Digest,
    /// The whole shard's, before it is filtered.
    pub(crate) shard: Digest,
    pub(crate) version: Digest,
    pub(crate) samples: u32,
}

/// Keeps positions where indices are kept.
#[derive(Debug)]
pub(crate) struct KeptPositions {
    places: KeptPlaces,
    /// Whether files are written.
    writes: bool,
}

// === impl Positions ===

impl Positions {
    /// With the digest of the positions themselves, until that of the shard is known.
    pub(crate) fn new(stays: &[bool], left_out: Vec<u64>) -> Self {
        let mut bits = vec![0; stays.len().div_ceil(8)];
        for (sample, _) in stays.iter().enumerate().filter(|(_, stays)| **stays) {
            bits[sample / 8] |= 1 << (sample % 8);
        }
        let mut digester = Digester::new("headwater positions 1");
        let digest = digester.number(stays.len() as u64).bytes(&bits).finish();
        Self { samples: stays.len() as u32, bits, left_out, digest }
    }

    /// Samples that the shard has without filters.
    pub(crate) fn samples(&self) -> u32 {
        self.samples
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
}

// === impl KeptPositions ===

impl KeptPositions {
    pub(crate) fn new(places: KeptPlaces, writes: bool) -> Self {
        Self { places, writes }
    }

    /// What is kept of a shard under that stamp, if nobody but this user, root and the shard's owner can have written it.
    pub(crate) fn load(
        &self,
        place: &Place,
        number: u32,
        stamp: PositionsStamp,
        filters: usize,
    ) -> Option<Positions> {
        let (at, owner) = (kept_as(place, number, stamp.filters), place.owner());
        let most = (HEAD_BYTES + 16 + 8 * filters + (stamp.samples as usize).div_ceil(8)) as u64;
        let load = |path: &std::path::PathBuf| {
            let (mut bytes, file) = (Vec::new(), open_trusted_file(path, owner).ok()?);
            file.take(most + 1).read_to_end(&mut bytes).ok()?;
            decode(&bytes, stamp, filters)
        };
        self.places.of(&at, POSITIONS_ENDING).iter().find_map(load)
    }

    /// Keeps the positions of a shard in the first place that can be written to. Where there is none, they are found again
    /// at the next start.
    pub(crate) fn store(
        &self,
        place: &Place,
        number: u32,
        stamp: PositionsStamp,
        positions: &Positions,
    ) {
        if !self.writes {
            return;
        }
        let (at, bytes) = (kept_as(place, number, stamp.filters), encode(positions, stamp));
        if let Err((at, error)) = self.places.write(&at, place.owner(), POSITIONS_ENDING, &bytes) {
            let at = at.display();
            tracing::warn!(%at, %error, "what filters leave is not kept: set `index_dir` to a folder");
        }
    }
}

/// What positions are kept under: each set of filters has a file of its own.
fn kept_as(place: &Place, number: u32, filters: Digest) -> Place {
    let name = place.file_name();
    place.beside(&match number {
        0 => format!("{name}.{filters}"),
        number => format!("{name}#{number}.{filters}"),
    })
}

fn body(positions: &Positions) -> Vec<u8> {
    let counts = positions.left_out.iter().flat_map(|count| count.to_le_bytes());
    let digest = positions.digest.to_bytes().into_iter();
    digest.chain(counts).chain(positions.bits.iter().copied()).collect()
}

/// All that is before the counts.
fn head(body: &[u8], stamp: PositionsStamp) -> Vec<u8> {
    let mut head = MAGIC.to_vec();
    for digest in [stamp.filters, stamp.shard, stamp.version] {
        head.extend(digest.to_bytes());
    }
    head.extend(stamp.samples.to_le_bytes());
    head.extend(Digest::of(body).to_bytes());
    head
}

fn encode(positions: &Positions, stamp: PositionsStamp) -> Vec<u8> {
    let body = body(positions);
    [head(&body, stamp), body].concat()
}

fn decode(bytes: &[u8], stamp: PositionsStamp, filters: usize) -> Option<Positions> {
    let (found, body) = bytes.split_at_checked(HEAD_BYTES)?;
    let (digest, rest) = body.split_first_chunk()?;
    let (counts, bits) = rest.split_at_checked(8 * filters)?;
    if found != head(body, stamp) || bits.len() != (stamp.samples as usize).div_ceil(8) {
        return None;
    }
    let left_out = counts.as_chunks().0.iter().map(|count| u64::from_le_bytes(*count)).collect();
    let digest = Digest::from_bytes(*digest);
    let positions = Positions { samples: stamp.samples, bits: bits.to_vec(), left_out, digest };
    // No bit beyond the last sample: what stays is counted by bits.
    let is_whole = positions.count() <= stamp.samples
        && (stamp.samples..8 * bits.len() as u32).all(|sample| !positions.stays(sample));
    is_whole.then_some(positions)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamp() -> PositionsStamp {
        let [filters, shard, version] = [1, 2, 3].map(Digest);
        PositionsStamp { filters, shard, version, samples: 11 }
    }

    fn positions() -> Positions {
        Positions::new(
            &[true, false, false, true, true, true, true, true, false, false, true],
            vec![3, 1],
        )
    }

    #[test]
    fn positions_come_back_under_their_own_stamp_only() {
        let bytes = encode(&positions(), stamp());
        assert_eq!(decode(&bytes, stamp(), 2), Some(positions()));
        assert_eq!(
            (positions().count(), positions().stays(3), positions().stays(11)),
            (7, true, false)
        );
        assert_eq!(decode(&bytes, PositionsStamp { shard: Digest(9), ..stamp() }, 2), None);
        assert_eq!(decode(&bytes, PositionsStamp { samples: 12, ..stamp() }, 2), None);
        assert_eq!(decode(&bytes, stamp(), 3), None);
        for at in 0..bytes.len() {
            let mut broken = bytes.clone();
            broken[at] ^= 1;
            assert_eq!(decode(&broken, stamp(), 2), None, "byte {at}");
            assert_eq!(decode(&bytes[..at], stamp(), 2), None, "cut at {at}");
        }
        let beyond = Positions { bits: vec![1, 0x80], ..positions() };
        assert_eq!(decode(&encode(&beyond, stamp()), stamp(), 2), None);
    }

    #[test]
    fn each_set_of_filters_has_a_file_of_its_own_and_read_only_writes_none() {
        let folder = tempfile::tempdir().unwrap();
        let shard = Place::of_file(&folder.path().join("a.tar"));
        KeptPositions::new(KeptPlaces::default(), false).store(&shard, 0, stamp(), &positions());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        let kept = KeptPositions::new(KeptPlaces::default(), true);
        let other = PositionsStamp { filters: Digest(7), ..stamp() };
        kept.store(&shard, 0, stamp(), &positions());
        assert_eq!(kept.load(&shard, 0, other, 2), None);
        kept.store(&shard, 0, other, &positions());
        for stamp in [stamp(), other] {
            assert_eq!(kept.load(&shard, 0, stamp, 2), Some(positions()));
        }
        assert_eq!(kept.load(&shard, 1, stamp(), 2), None, "another shard of the place");
    }
}
