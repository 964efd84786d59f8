//! A part that is whole, for as many receivers as want it.

use std::fmt;
use std::sync::Arc;

use headwater_core::Region;

use super::{PartBuffer, packed};
use crate::memory::mapping::Mapping;
use crate::memory::place::{self, LeaseId, PartPlace, PlaceError, SlotId};

/// Memory for one part that belongs to no link. It goes from part to part.
#[derive(Debug)]
pub struct PartMemory(Arc<Mapping>);

/// A part whose bytes no longer change. Clones share the bytes; the memory is given back with the last
/// of them.
#[derive(Clone, Debug)]
pub struct WholePart(Arc<PartBuffer>);

/// Gives the memory back to whoever lent it.
struct Lent {
    memory: Option<PartMemory>,
    give_back: Option<GiveBack>,
}

type GiveBack = Box<dyn FnOnce(PartMemory) + Send + Sync>;

// === impl PartMemory ===

impl PartMemory {
    /// Bytes that a part of these regions needs.
    #[must_use]
    pub fn bytes_for(regions: &[Region]) -> u64 {
        PartBuffer::packed_bytes(regions).max(1)
    }

    /// New memory.
    ///
    /// # Errors
    /// The system has none; says how much was asked for.
    pub fn new(len_bytes: u64) -> Result<Self, String> {
        let mapping = Mapping::anonymous(len_bytes)
            .map_err(|error| format!("no memory for a part of {len_bytes} bytes: {error}"))?;
        mapping.prefer_huge_pages();
        Ok(Self(Arc::new(mapping)))
    }

    /// Its size in bytes.
    #[must_use]
    pub fn len_bytes(&self) -> u64 {
        self.0.len() as u64
    }
}

// === impl PartBuffer ===

impl PartBuffer {
    /// A buffer for a part of these regions that is of no lease yet. `give_back` is given the memory when
    /// the buffer, and every [`WholePart`] of it, is gone.
    ///
    /// # Errors
    /// The regions overlap or are too many, or the memory is too small.
    pub fn in_memory(
        regions: Arc<[Region]>,
        memory: PartMemory,
        give_back: impl FnOnce(PartMemory) + Send + Sync + 'static,
    ) -> Result<Self, PlaceError> {
        let mapping = Arc::clone(&memory.0);
        // Taken by value, and `Lent` keeps it until this buffer is gone: nobody else has these bytes.
        let lent = Lent { memory: Some(memory), give_back: Some(Box::new(give_back)) };
        let place = PartPlace { lease: LeaseId(0), slot: SlotId(0), regions };
        let starts = packed(&place, &mapping)?;
        let keeper = Box::new(lent);
        Ok(Self { place, starts, _memory: mapping, is_in_slot: false, device: None, keeper })
    }

    /// Ends the writing: from here on the bytes are read.
    #[must_use]
    pub fn whole(self) -> WholePart {
        WholePart(Arc::new(self))
    }
}

// === impl WholePart ===

impl WholePart {
    /// Bytes of all regions.
    #[must_use]
    pub fn len_bytes(&self) -> u64 {
        self.0.len_bytes()
    }

    /// Whether there are other clones.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        Arc::strong_count(&self.0) > 1
    }

    /// Copies every region to the same region of `part`.
    ///
    /// # Errors
    /// The regions of `part` have other lengths.
    pub fn copy_to(&self, part: &mut PartBuffer) -> Result<(), PlaceError> {
        self.check(part.place())?;
        for (from, to) in self.0.regions().zip(part.regions_mut()) {
            to.copy_from_slice(from);
        }
        Ok(())
    }

    /// The same bytes as a part for `place`, to be read only.
    ///
    /// # Errors
    /// The place has other regions.
    pub(crate) fn at(&self, place: PartPlace) -> Result<PartBuffer, PlaceError> {
        place::check(&place, u64::MAX)?;
        self.check(&place)?;
        let (starts, memory) = (self.0.starts.clone(), Arc::clone(&self.0._memory));
        let keeper = Box::new(self.clone());
        Ok(PartBuffer { place, starts, _memory: memory, is_in_slot: false, device: None, keeper })
    }

    fn check(&self, place: &PartPlace) -> Result<(), PlaceError> {
        let lengths = |place: &PartPlace| -> Vec<u64> {
            place.regions.iter().map(|region| region.len_bytes).collect()
        };
        let (has, wanted) = (lengths(&self.0.place), lengths(place));
        if has == wanted {
            return Ok(());
        }
        let lease = place.lease.0;
        Err(PlaceError::new(format!("regions of {wanted:?} bytes in lease {lease}, not {has:?}")))
    }
}

// === impl Lent ===

impl fmt::Debug for Lent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lent").field("memory", &self.memory).finish_non_exhaustive()
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        if let (Some(memory), Some(give_back)) = (self.memory.take(), self.give_back.take()) {
            give_back(memory);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    fn regions(lengths: &[u64]) -> Arc<[Region]> {
        let place = |(i, &len_bytes)| Region { offset_bytes: i as u64 * 1000, len_bytes };
        lengths.iter().enumerate().map(place).collect()
    }

    #[test]
    fn the_memory_comes_back_when_the_last_reader_is_gone() {
        let back = Arc::new(Mutex::new(Vec::new()));
        let regions = regions(&[5, 0, 9]);
        let memory = PartMemory::new(PartMemory::bytes_for(&regions)).unwrap();
        let returned = Arc::clone(&back);
        let give_back = move |memory| returned.lock().unwrap().push(memory);
        let mut part = PartBuffer::in_memory(Arc::clone(&regions), memory, give_back).unwrap();
        part.region_mut(0).fill(3);
        part.region_mut(2).fill(4);
        let whole = part.whole();
        let place = PartPlace { lease: LeaseId(7), slot: SlotId(1), regions };
        let sent = whole.at(place).unwrap();
        assert!(whole.is_shared());
        assert_eq!(sent.regions().collect::<Vec<_>>(), [&[3; 5][..], &[], &[4; 9]]);
        drop(whole);
        assert!(back.lock().unwrap().is_empty(), "somebody reads it");
        drop(sent);
        assert_eq!(back.lock().unwrap().len(), 1);
    }

    #[test]
    fn a_place_of_other_regions_is_refused() {
        let part = |lengths: &[u64]| {
            let regions = regions(lengths);
            let memory = PartMemory::new(PartMemory::bytes_for(&regions)).unwrap();
            PartBuffer::in_memory(regions, memory, drop).unwrap()
        };
        let whole = part(&[5, 9]).whole();
        assert!(whole.copy_to(&mut part(&[5, 9])).is_ok());
        let error = whole.copy_to(&mut part(&[9, 5])).unwrap_err().to_string();
        assert!(error.contains("[9, 5]") && error.contains("[5, 9]"), "{error}");
    }
}
