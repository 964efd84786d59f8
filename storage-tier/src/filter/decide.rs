//! Which samples of a dataset's shards stay: as it was decided before, or decided now.

use headwater_core::Digester;
use headwater_core::fields::found_instead;

use super::Filters;
use super::judge::Verdict;
use super::sample::{judge_in_place, judge_packed};
use crate::format::{Format, Opened, Outline, unless_it_panics};
use crate::kept::{KeptPositions, Positions};
use crate::source::Place;
use crate::{StorageError, metrics};

/// The filters of a dataset, and where it is kept what they leave.
#[derive(Debug)]
pub(crate) struct Filtering {
    filters: Filters,
    kept: KeptPositions,
}

// === impl Filtering ===

impl Filtering {
    pub(crate) fn new(filters: Filters, kept: KeptPositions) -> Self {
        Self { filters, kept }
    }

    /// What was decided of all shards of a place, if they and the filters are the same.
    pub(crate) fn known(
        &self,
        format: &dyn Format,
        place: &Place,
        outlines: &[Outline],
    ) -> Option<Vec<Positions>> {
        let is_sure = format.is_known_by_its_digest(place);
        is_sure.then(|| self.kept.load(place, &self.filters, outlines)).flatten()
    }

    /// Keeps what was decided of all shards of a place.
    pub(crate) fn keep(
        &self,
        format: &dyn Format,
        place: &Place,
        outlines: &[Outline],
        positions: &[Positions],
    ) {
        if format.is_known_by_its_digest(place) {
            self.kept.store(place, &self.filters, outlines, positions);
        }
    }

    /// Decides which samples of a shard stay. Reads what the filters ask of each sample.
    ///
    /// # Errors
    /// It cannot be read, or is not what it was.
    pub(crate) fn decide(
        &self,
        format: &dyn Format,
        place: &Place,
        number: u32,
        outline: &Outline,
    ) -> Result<Positions, StorageError> {
        let decide = || self.decide_on(format, place, number, outline);
        unless_it_panics(|| place.name(), decide).map_err(|error| match error {
            StorageError::NotJudged { reason } => {
                StorageError::NotJudged { reason: format!("{}: {reason}", outline.name) }
            }
            error => error,
        })
    }

    fn decide_on(
        &self,
        format: &dyn Format,
        place: &Place,
        number: u32,
        outline: &Outline,
    ) -> Result<Positions, StorageError> {
        let (verdict, in_place) = match format.open(place, number, outline.version)? {
            Opened::InPlace(shard) => (judge_in_place(&self.filters, &shard)?, Some(shard)),
            Opened::Packed(mut packed) => (judge_packed(&self.filters, &mut *packed)?, None),
        };
        let Verdict { stays, left_out } = verdict;
        if stays.len() != outline.samples as usize {
            return Err(StorageError::ShardChanged { name: place.name() });
        }
        let (bytes, digest) = match in_place {
            Some(shard) => {
                let whole = shard.index();
                let only = whole.only(|sample| stays[sample as usize]);
                // Where a manifest has the bytes of the fields, it is those of the fields that stay.
                let is_of_fields = outline.bytes == whole.field_bytes();
                let bytes = if is_of_fields { only.field_bytes() } else { outline.bytes };
                (bytes, only.digest())
            }
            None => {
                let bits: Vec<_> = stays.iter().copied().map(u8::from).collect();
                let mut digester = Digester::new("headwater filtered shard 1");
                digester.bytes(&outline.digest.to_bytes()).bytes(&bits);
                (outline.bytes, digester.finish())
            }
        };
        Ok(Positions::new(&stays, left_out, bytes, digest))
    }

    /// Says and counts what each filter has left out of a dataset, whose samples have these fields.
    ///
    /// # Errors
    /// No sample stays.
    pub(crate) fn tell<'a>(
        &self,
        dataset: &str,
        decided: impl Iterator<Item = &'a Positions>,
        fields: &[String],
    ) -> Result<(), StorageError> {
        let (mut stay, mut sums) = (0, vec![0; self.filters.len()]);
        for positions in decided {
            stay += u64::from(positions.count());
            sums.iter_mut().zip(&positions.left_out).for_each(|(sum, more)| *sum += more);
        }
        for (filter, left_out) in self.filters.words().zip(&sums) {
            tracing::info!(dataset, filter, left_out, "samples do not meet a filter");
            metrics::left_out(dataset, &filter, *left_out);
        }
        if stay > 0 || sums.iter().all(|sum| *sum == 0) {
            return Ok(());
        }
        let of = self.filters.words().zip(&sums).map(|(words, sum)| format!("{words}: {sum}"));
        Err(StorageError::AllLeftOut {
            dataset: dataset.to_owned(),
            left_out: of.collect::<Vec<_>>().join(", "),
            fields: found_instead(fields, &self.filters.fields()),
        })
    }
}

#[cfg(test)]
mod tests;
