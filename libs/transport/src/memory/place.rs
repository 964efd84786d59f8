//! Where a part goes: do its regions fit, do two places agree, where does the next byte go.

use std::sync::Arc;

use headwater_core::Region;
use xxhash_rust::xxh3::Xxh3Default;

/// Most slots of one receiver.
pub const SLOTS_MAX: usize = 1024;

/// Most regions a part may have: tensors times views, far above any recipe.
pub const MAX_REGIONS: usize = 1024;

/// Number of a lease, unique within the receiver's process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LeaseId(pub u64);

/// Number of a slot of a receiver. A slot keeps its number and its memory for its whole life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SlotId(pub u32);

/// A lease's place: where in which slot the part's bytes go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartPlace {
    /// The lease.
    pub lease: LeaseId,
    /// The slot.
    pub slot: SlotId,
    /// The part's regions in the slot, from `Layout::part_regions`; disjoint, in a fixed order.
    pub regions: Arc<[Region]>,
}

/// A place that does not fit its slot, or bytes that do not fit their place.
#[derive(Debug, thiserror::Error)]
#[error("part does not fit: {reason}")]
pub struct PlaceError {
    reason: String,
}

// === impl PlaceError ===

impl PlaceError {
    pub(crate) fn new(reason: impl Into<String>) -> Self {
        Self { reason: reason.into() }
    }
}

/// Sum of the regions' lengths.
pub(crate) fn total_bytes(regions: &[Region]) -> u64 {
    regions.iter().map(|region| region.len_bytes).sum()
}

/// Checks that the regions lie in a slot of `slot_bytes` and are disjoint.
pub(crate) fn check(place: &PartPlace, slot_bytes: u64) -> Result<(), PlaceError> {
    let no = |reason: String| Err(PlaceError::new(reason));
    let lease = place.lease.0;
    if place.regions.len() > MAX_REGIONS {
        let count = place.regions.len();
        return no(format!("lease {lease} has {count} regions, more than {MAX_REGIONS}"));
    }
    let mut sorted: Vec<Region> =
        place.regions.iter().copied().filter(|region| region.len_bytes > 0).collect();
    sorted.sort_unstable_by_key(|region| region.offset_bytes);
    let mut end = 0;
    for region in sorted {
        if region.offset_bytes < end {
            let at = region.offset_bytes;
            return no(format!("regions of lease {lease} overlap at byte {at}"));
        }
        end = match region.offset_bytes.checked_add(region.len_bytes) {
            Some(end) if end <= slot_bytes => end,
            _ => {
                let Region { offset_bytes, len_bytes } = region;
                let slot = place.slot.0;
                return no(format!(
                    "region {offset_bytes}+{len_bytes} of lease {lease} ends beyond slot {slot} \
                     of {slot_bytes} bytes"
                ));
            }
        };
    }
    Ok(())
}

/// Whether any byte lies in both.
pub(crate) fn overlap(one: &[Region], other: &[Region]) -> bool {
    let meets = |a: &Region, b: &Region| {
        a.len_bytes > 0
            && b.len_bytes > 0
            && a.offset_bytes < b.offset_bytes + b.len_bytes
            && b.offset_bytes < a.offset_bytes + a.len_bytes
    };
    one.iter().any(|a| other.iter().any(|b| meets(a, b)))
}

/// A short name of a place, by which both ends see that they mean the same bytes.
pub(crate) fn fingerprint(place: &PartPlace) -> u64 {
    let mut hash = Xxh3Default::new();
    hash.update(&place.slot.0.to_le_bytes());
    for region in place.regions.iter() {
        hash.update(&region.offset_bytes.to_le_bytes());
        hash.update(&region.len_bytes.to_le_bytes());
    }
    hash.digest()
}

/// Where the next byte of a part goes.
#[derive(Debug)]
pub(crate) struct Cursor<'a> {
    rest: &'a [Region],
    done_in_first: u64,
}

// === impl Cursor ===

impl<'a> Cursor<'a> {
    pub(crate) fn new(regions: &'a [Region]) -> Self {
        let mut cursor = Self { rest: regions, done_in_first: 0 };
        cursor.advance(0);
        cursor
    }

    pub(crate) fn is_done(&self) -> bool {
        self.rest.is_empty()
    }

    /// What is still to be filled, in order; the first may be the end of a region.
    pub(crate) fn remaining(&self) -> impl Iterator<Item = Region> + use<'a> {
        let done = self.done_in_first;
        self.rest.iter().enumerate().map(move |(i, region)| {
            let skip = if i == 0 { done } else { 0 };
            Region { offset_bytes: region.offset_bytes + skip, len_bytes: region.len_bytes - skip }
        })
    }

    /// Goes on by `bytes`, which must not exceed what remains.
    pub(crate) fn advance(&mut self, bytes: u64) {
        self.done_in_first += bytes;
        while let Some((first, rest)) = self.rest.split_first() {
            if self.done_in_first < first.len_bytes {
                return;
            }
            self.done_in_first -= first.len_bytes;
            self.rest = rest;
        }
        debug_assert_eq!(self.done_in_first, 0, "advanced past the last region");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn region(offset_bytes: u64, len_bytes: u64) -> Region {
        Region { offset_bytes, len_bytes }
    }

    fn place(regions: &[Region]) -> PartPlace {
        PartPlace { lease: LeaseId(1), slot: SlotId(0), regions: Arc::from(regions) }
    }

    #[test]
    fn overlap_and_overrun_are_refused() {
        assert!(check(&place(&[region(10, 5), region(0, 10)]), 15).is_ok());
        assert!(check(&place(&[region(10, 5), region(0, 11)]), 15).is_err());
        assert!(check(&place(&[region(10, 6)]), 15).is_err());
        assert!(check(&place(&[region(u64::MAX, 2)]), 15).is_err());
        assert!(check(&place(&[region(4, 0), region(3, 4)]), 15).is_ok());
    }

    #[test]
    fn the_cursor_walks_every_byte_once_and_skips_empty_regions() {
        let regions = [region(0, 0), region(10, 3), region(20, 0), region(5, 2), region(9, 0)];
        let mut cursor = Cursor::new(&regions);
        let mut bytes = Vec::new();
        while !cursor.is_done() {
            bytes.push(cursor.remaining().next().expect("not done").offset_bytes);
            cursor.advance(1);
        }
        assert_eq!(bytes, [10, 11, 12, 5, 6]);
    }

    #[test]
    fn other_regions_have_another_fingerprint() {
        let one = fingerprint(&place(&[region(0, 4)]));
        assert_eq!(one, fingerprint(&place(&[region(0, 4)])));
        assert_ne!(one, fingerprint(&place(&[region(0, 5)])));
        assert_ne!(one, fingerprint(&place(&[region(4, 4)])));
    }
}
