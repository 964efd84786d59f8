//! A shard with its samples, and what is wrong with it.

use headwater_storage_client::IndexedShard;

use super::FoundPlace;
use crate::format::{Damage, InspectedShard, Opened, Outline, unless_it_panics};
use crate::{StorageError, unpacked};

/// A shard of a place.
#[derive(Clone, Debug)]
pub struct FoundShard {
    of: FoundPlace,
    number: u32,
    /// Not of tars, which are scanned when they are opened.
    outline: Option<Outline>,
}

/// A shard that is open.
#[derive(Debug)]
pub struct InspectedSamples {
    /// Its samples, as far as they are whole.
    pub shard: IndexedShard,
    /// What is wrong with the shard as a whole: it breaks off, the index beside it does not fit, or its
    /// file is not what `SHA256SUMS` says.
    pub faults: Vec<StorageError>,
    /// Bytes that do not have their checksum.
    pub damage: Vec<Damage>,
    /// Whether `SHA256SUMS` says what its file should be; asked with the first shard of a file only.
    pub has_sum: bool,
    /// Whether it is a tar, in which samples with one key are pieces of one sample.
    pub is_tar: bool,
}

// === impl FoundShard ===

impl FoundShard {
    pub(super) fn tar(of: &FoundPlace) -> Self {
        Self { of: of.clone(), number: 0, outline: None }
    }

    pub(super) fn of(of: &FoundPlace, number: u32, outline: Outline) -> Self {
        Self { of: of.clone(), number, outline: Some(outline) }
    }

    /// Path or URL of its place; and, where that has several shards, which one it is.
    #[must_use]
    pub fn name(&self) -> String {
        let place = self.of.name();
        let Some(outline) = &self.outline else { return place };
        match outline.name.strip_prefix(&self.of.place.file_name()) {
            Some(rest) => format!("{place}{rest}"),
            None => format!("{place}: {}", outline.name),
        }
    }

    /// Names of its fields; `None` where only reading it tells, as of a tar.
    #[must_use]
    pub fn fields(&self) -> Option<&[String]> {
        self.outline.as_ref().map(|outline| &outline.fields[..])
    }

    /// Opens it, and holds it against its checksums; the first shard of a file also against the
    /// `SHA256SUMS` in the same folder. Reads all of it, and unpacks it into a file without a name if it
    /// has to be unpacked.
    ///
    /// # Errors
    /// Nothing of it can be read, or it was changed meanwhile.
    pub fn open(&self) -> Result<InspectedSamples, StorageError> {
        let open = || match &self.outline {
            Some(outline) => self.open_as(outline),
            None => self.open_tar(),
        };
        let mut inspected = unless_it_panics(|| self.name(), open)?;
        if self.number == 0 {
            match self.of.check_sum() {
                Ok(has_sum) => inspected.has_sum = has_sum,
                Err(error) => {
                    inspected.has_sum = true;
                    inspected.faults.push(error);
                }
            }
        }
        Ok(inspected)
    }

    fn open_as(&self, outline: &Outline) -> Result<InspectedSamples, StorageError> {
        let FoundPlace { place, format, .. } = &self.of;
        let shard = match format.open(place, self.number, outline.version)? {
            Opened::InPlace(shard) => shard,
            Opened::Packed(mut packed) => unpacked::unnamed(&mut *packed, &self.name())?,
        };
        if shard.index().samples() != outline.samples {
            return Err(StorageError::ShardChanged { name: self.name() });
        }
        let damage = format.verify(place, self.number, outline.version)?;
        Ok(InspectedSamples { shard, faults: Vec::new(), damage, has_sum: false, is_tar: false })
    }

    fn open_tar(&self) -> Result<InspectedSamples, StorageError> {
        let inspected = InspectedShard::at(&self.of.place)?;
        // The index of a shard that breaks off is of the whole one.
        let fault = inspected.fault().or_else(|| inspected.check_idx().err());
        Ok(InspectedSamples {
            shard: inspected.shard().clone(),
            faults: fault.into_iter().collect(),
            damage: Vec::new(),
            has_sum: false,
            is_tar: true,
        })
    }
}
