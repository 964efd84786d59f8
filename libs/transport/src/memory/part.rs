//! Memory a worker renders one part in.

mod device;
mod rows;
mod whole;

use std::any::Any;
use std::fmt::Debug;
use std::ptr::NonNull;
use std::sync::Arc;

use headwater_core::Region;
use headwater_part_rows::{part_checksum, row_checksum};

use super::mapping::Mapping;
use super::place::{self, LeaseId, PartPlace, PlaceError};

pub(crate) use device::DevicePart;
pub use rows::{PartRow, RowDraft, RowMemory, WrittenRow};
pub use whole::{PartMemory, WholePart};

/// Regions in staging memory begin at multiples of this many bytes: a cache line, and the width
/// of the widest vector store.
const STAGING_ALIGN_BYTES: u64 = 64;

/// What a link keeps with a part for as long as its buffer is out: the right to render it, the
/// buffer's place in a pool.
pub(crate) trait Keeper: Any + Debug + Send + Sync {}

impl<T: Any + Debug + Send + Sync> Keeper for T {}

/// The regions of one part, in the order of `PartPlace::regions`, to be written by the thread that
/// holds the buffer: every byte once, with its final value. [`PartRow`] holds whoever makes rows to that. Dropping it
/// abandons the part.
#[derive(Debug)]
pub struct PartBuffer {
    place: PartPlace,
    starts: Vec<NonNull<u8>>,
    // What `starts` point into. Let go of before the keeper, which may stand for all that is mapped.
    _memory: Arc<Mapping>,
    /// Whether that is the receiver's memory.
    is_in_slot: bool,
    /// Where devices may write the regions by themselves: a slot in a receiver's GPU.
    device: Option<DevicePart>,
    keeper: Box<dyn Keeper>,
}

// SAFETY: `starts` point into `_memory`, which this value keeps mapped; nothing about the memory is
// bound to a thread, and the keeper is Send.
unsafe impl Send for PartBuffer {}
// SAFETY: with `&PartBuffer` the memory is only read, and the keeper is Sync.
unsafe impl Sync for PartBuffer {}

// === impl PartBuffer ===

impl PartBuffer {
    /// A buffer in the slot itself. `keeper` is the link's word that no other buffer of this process
    /// has any of these bytes while it is kept.
    ///
    /// # Errors
    /// The place does not fit the slot.
    pub(crate) fn in_slot(
        place: PartPlace,
        memory: Arc<Mapping>,
        keeper: impl Keeper,
    ) -> Result<Self, PlaceError> {
        let starts = starts(&memory, &place, place.regions.iter().copied())?;
        let keeper = Box::new(keeper);
        Ok(Self { place, starts, _memory: memory, is_in_slot: true, device: None, keeper })
    }

    /// A buffer in staging memory, regions one after another. `keeper` is the word that no other
    /// buffer has this memory while it is kept.
    ///
    /// # Errors
    /// The regions overlap, or there are too many.
    pub(crate) fn in_staging(
        place: PartPlace,
        memory: Arc<Mapping>,
        keeper: impl Keeper,
    ) -> Result<Self, PlaceError> {
        let starts = packed(&place, &memory)?;
        let keeper = Box::new(keeper);
        Ok(Self { place, starts, _memory: memory, is_in_slot: false, device: None, keeper })
    }

    /// The same, for a slot in a receiver's GPU: a device of this worker may write rows there by itself.
    ///
    /// # Errors
    /// As for [`PartBuffer::in_staging`].
    pub(crate) fn beside_device(
        place: PartPlace,
        memory: Arc<Mapping>,
        device: DevicePart,
        keeper: impl Keeper,
    ) -> Result<Self, PlaceError> {
        let part = Self::in_staging(place, memory, keeper)?;
        Ok(Self { device: Some(device), ..part })
    }

    /// What a link keeps with this part, if it is that link's.
    pub(crate) fn keeper<T: Keeper>(&self) -> Option<&T> {
        (self.keeper.as_ref() as &dyn Any).downcast_ref()
    }

    /// Bytes of staging memory that a part needs.
    pub(crate) fn staging_bytes(place: &PartPlace) -> u64 {
        Self::packed_bytes(&place.regions)
    }

    fn packed_bytes(regions: &[Region]) -> u64 {
        let each = |region: &Region| region.len_bytes.next_multiple_of(STAGING_ALIGN_BYTES);
        regions.iter().map(each).sum()
    }

    /// The lease this part is for.
    #[must_use]
    pub fn lease(&self) -> LeaseId {
        self.place.lease
    }

    /// Where the part goes.
    #[must_use]
    pub fn place(&self) -> &PartPlace {
        &self.place
    }

    /// Bytes of all regions.
    #[must_use]
    pub fn len_bytes(&self) -> u64 {
        place::total_bytes(&self.place.regions)
    }

    /// Region `i` of the place. Holds old bytes, of any origin, until it is written.
    ///
    /// # Panics
    /// There is no region `i`.
    pub fn region_mut(&mut self, i: usize) -> &mut [u8] {
        // SAFETY: `starts[i]` is valid for the region's length (checked when made); `&mut self`
        // makes this the only reference from this buffer, and no other buffer has these bytes.
        unsafe { std::slice::from_raw_parts_mut(self.starts[i].as_ptr(), self.len_of(i)) }
    }

    /// All regions at once, to be filled by several threads.
    pub fn regions_mut(&mut self) -> Vec<&mut [u8]> {
        let one = |i: usize| {
            // SAFETY: as in `region_mut`; the regions of a place are disjoint (`place::check`),
            // so are those of staging memory, and all borrow `self` mutably.
            unsafe { std::slice::from_raw_parts_mut(self.starts[i].as_ptr(), self.len_of(i)) }
        };
        (0..self.starts.len()).map(one).collect()
    }

    /// Checksum of the part as one of `rows` samples, see [`part_checksum`].
    ///
    /// # Panics
    /// A region cannot be cut into `rows` equal rows.
    #[must_use]
    pub fn checksum(&self, rows: usize) -> u64 {
        self.assert_divides_into(rows);
        part_checksum((0..rows).map(|row| {
            row_checksum(self.regions().map(|region| {
                let len = region.len() / rows;
                &region[row * len..][..len]
            }))
        }))
    }

    fn assert_divides_into(&self, rows: usize) {
        let even = |len: usize| len.checked_rem(rows) == Some(0);
        assert!(
            (0..self.starts.len()).all(|i| even(self.len_of(i))),
            "the regions of lease {} do not divide into {rows} rows",
            self.lease().0
        );
    }

    /// The regions as bytes, in order.
    pub(crate) fn regions(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.starts.len()).map(|i| {
            // SAFETY: as in `region_mut`, shared: writing takes `&mut self`.
            unsafe { std::slice::from_raw_parts(self.starts[i].as_ptr(), self.len_of(i)) }
        })
    }

    fn len_of(&self, i: usize) -> usize {
        self.place.regions[i].len_bytes as usize
    }
}

/// Where each region begins in staging memory.
fn packed(place: &PartPlace, memory: &Mapping) -> Result<Vec<NonNull<u8>>, PlaceError> {
    let lengths = place.regions.iter().map(|region| region.len_bytes);
    starts(memory, place, one_after_another(lengths))
}

/// Pieces of these lengths. Each of them begins at a multiple of [`STAGING_ALIGN_BYTES`].
fn one_after_another(lengths: impl Iterator<Item = u64>) -> impl Iterator<Item = Region> {
    lengths.scan(0, |end: &mut u64, len_bytes| {
        let offset_bytes = *end;
        *end = (offset_bytes + len_bytes).next_multiple_of(STAGING_ALIGN_BYTES);
        Some(Region { offset_bytes, len_bytes })
    })
}

fn starts(
    mapping: &Mapping,
    place: &PartPlace,
    regions: impl Iterator<Item = Region>,
) -> Result<Vec<NonNull<u8>>, PlaceError> {
    place::check(place, u64::MAX)?;
    regions
        .map(|region| {
            mapping.start_of(region).ok_or_else(|| {
                PlaceError::new(format!(
                    "region {}+{} of lease {} ends beyond slot {} of {} bytes",
                    region.offset_bytes,
                    region.len_bytes,
                    place.lease.0,
                    place.slot.0,
                    mapping.len()
                ))
            })
        })
        .collect()
}
