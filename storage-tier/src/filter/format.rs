//! The shards of a format with those samples only that its dataset's filters leave.

use std::sync::{Arc, OnceLock};

use headwater_core::{Digest, Digester};
use headwater_storage_client::IndexedShard;

use super::judge::Judge;
use super::sample::{StayingSink, judge_in_place, judge_packed};
use super::{Filters, LeftOutCounts};
use crate::StorageError;
use crate::format::{Damage, Format, Opened, Outline, Packed, SampleSink};
use crate::kept::{KeptPositions, Positions, PositionsStamp};
use crate::source::Place;

/// One place of a format, filtered. What is served of it is as if its shards had no other samples.
#[derive(Debug)]
pub(crate) struct Filtered {
    format: Arc<dyn Format>,
    filters: Arc<Filters>,
    kept: Arc<KeptPositions>,
    /// Which samples stay, by the shards' numbers; from the first look at the place on.
    positions: OnceLock<Vec<Arc<Positions>>>,
}

/// A shard that is unpacked without the samples that are left out.
#[derive(Debug)]
struct FilteredPacked {
    packed: Box<dyn Packed>,
    positions: Arc<Positions>,
}

// === impl Filtered ===

impl Filtered {
    pub(crate) fn new(
        format: Arc<dyn Format>,
        filters: Arc<Filters>,
        kept: Arc<KeptPositions>,
    ) -> Self {
        Self { format, filters, kept, positions: OnceLock::new() }
    }

    /// How many samples each filter has left out in this place.
    pub(crate) fn left_out(&self) -> LeftOutCounts {
        let mut sums = vec![0; self.filters.len()];
        for positions in self.positions.get().into_iter().flatten() {
            sums.iter_mut().zip(&positions.left_out).for_each(|(sum, more)| *sum += more);
        }
        sums
    }

    /// Shards with other samples are other shards: there and back.
    fn version(&self, of: Digest) -> Digest {
        Digest(of.0 ^ self.filters.digest().0)
    }

    /// Which samples of a shard stay: as they were found before, or found now.
    fn positions(
        &self,
        place: &Place,
        number: u32,
        outline: &Outline,
    ) -> Result<Positions, StorageError> {
        let stamp = PositionsStamp {
            filters: self.filters.digest(),
            shard: outline.digest,
            version: outline.version,
            samples: outline.samples,
        };
        if let Some(kept) = self.kept.load(place, number, stamp, self.filters.len()) {
            return Ok(kept);
        }
        let opened = self.format.open(place, number, outline.version)?;
        let (judge, shard) = match opened {
            Opened::InPlace(shard) => (judge_in_place(&self.filters, &shard)?, Some(shard)),
            Opened::Packed(mut packed) => (judge_packed(&self.filters, &mut *packed)?, None),
        };
        let Judge { stays, left_out, .. } = judge;
        if stays.len() != outline.samples as usize {
            return Err(StorageError::ShardChanged { name: place.name() });
        }
        let mut positions = Positions::new(&stays, left_out);
        positions.digest = match shard {
            Some(shard) => self.only(place, shard, &positions)?.index().digest(),
            None => {
                let mut digester = Digester::new("headwater filtered shard 1");
                digester.bytes(&outline.digest.to_bytes());
                digester.bytes(&positions.digest.to_bytes()).finish()
            }
        };
        self.kept.store(place, number, stamp, &positions);
        Ok(positions)
    }

    /// The shard with the samples that stay.
    fn only(
        &self,
        place: &Place,
        shard: IndexedShard,
        positions: &Positions,
    ) -> Result<IndexedShard, StorageError> {
        let index = shard.index();
        if index.samples() != positions.samples() {
            return Err(StorageError::ShardChanged { name: place.name() });
        }
        let only = index.only(|sample| positions.stays(sample));
        Ok(shard.with_index(only))
    }
}

impl Format for Filtered {
    fn outlines(&self, place: &Place) -> Result<Vec<Outline>, StorageError> {
        let mut outlines = self.format.outlines(place)?;
        let mut all = Vec::with_capacity(outlines.len());
        for (outline, number) in outlines.iter_mut().zip(0..) {
            let positions = Arc::new(self.positions(place, number, outline)?);
            outline.digest = positions.digest;
            outline.samples = positions.count();
            outline.version = self.version(outline.version);
            all.push(positions);
        }
        let _ = self.positions.set(all);
        Ok(outlines)
    }

    fn open(&self, place: &Place, shard: u32, version: Digest) -> Result<Opened, StorageError> {
        let changed = || StorageError::ShardChanged { name: place.name() };
        if self.positions.get().is_none() {
            self.outlines(place)?;
        }
        let positions = self.positions.get().and_then(|all| all.get(shard as usize));
        let positions = positions.ok_or_else(changed)?.clone();
        Ok(match self.format.open(place, shard, self.version(version))? {
            Opened::InPlace(shard) => Opened::InPlace(self.only(place, shard, &positions)?),
            Opened::Packed(packed) => {
                Opened::Packed(Box::new(FilteredPacked { packed, positions }))
            }
        })
    }

    fn verify(
        &self,
        place: &Place,
        shard: u32,
        version: Digest,
    ) -> Result<Vec<Damage>, StorageError> {
        self.format.verify(place, shard, self.version(version))
    }

    fn reads_in_place(&self) -> bool {
        self.format.reads_in_place()
    }

    fn is_of_files(&self) -> bool {
        self.format.is_of_files()
    }

    fn classes(&self, place: &Place) -> Result<Vec<String>, StorageError> {
        self.format.classes(place)
    }
}

// === impl FilteredPacked ===

impl Packed for FilteredPacked {
    fn unpack(&mut self, sink: &mut dyn SampleSink) -> Result<(), StorageError> {
        let stays = |sample| self.positions.stays(sample);
        self.packed.unpack(&mut StayingSink { sink, stays: &stays, begun: 0 })
    }
}

#[cfg(test)]
mod tests;
