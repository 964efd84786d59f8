//! Memory a worker renders one part in.

mod rows;

use std::ptr::NonNull;

use crate::checksum::{part_checksum, row_checksum};
use crate::contract::{LeaseId, LinkError, PartPlace};
use crate::mapping::Mapping;
use crate::place;
use crate::rdma::{self, ucx};
use crate::shm::Rendering;
use crate::staging::StagingBuffer;

pub use rows::PartRow;

/// Regions in staging memory begin at multiples of this many bytes: a cache line, and the width
/// of the widest vector store.
const STAGING_ALIGN_BYTES: u64 = 64;

/// The regions of one part, in the order of `PartPlace::regions`, to be written by the thread that
/// holds the buffer: every byte once, with its final value. Dropping it abandons the part.
#[derive(Debug)]
pub struct PartBuffer {
    place: PartPlace,
    starts: Vec<NonNull<u8>>,
    // Keeps the memory of `starts` alive and this buffer its only user.
    backing: Backing,
}

#[derive(Debug)]
pub(crate) enum Backing {
    /// The slot itself, mapped.
    Slot(Rendering),
    /// Memory of the worker; the link sends it.
    Staging(#[expect(dead_code, reason = "held for its drop")] StagingBuffer),
    /// The same for a link that cannot stop writing: it is told when the buffer is gone. The
    /// memory goes back first.
    Ucx {
        #[expect(dead_code, reason = "held for its drop")]
        staging: StagingBuffer,
        #[expect(dead_code, reason = "held for its drop")]
        rendering: ucx::Rendering,
    },
    /// Memory of the worker that its network card reads.
    Registered {
        staging: StagingBuffer,
        #[expect(dead_code, reason = "held for its drop")]
        rendering: rdma::Rendering,
    },
}

// SAFETY: `starts` point into memory that `backing` owns or keeps mapped; both kinds of backing
// are Send, and nothing about the memory is bound to a thread.
unsafe impl Send for PartBuffer {}
// SAFETY: with `&PartBuffer` the memory is only read.
unsafe impl Sync for PartBuffer {}

// === impl PartBuffer ===

impl PartBuffer {
    /// A buffer in the slot itself. `rendering` is the session's word that no other buffer of this
    /// process has any of these bytes.
    pub(crate) fn in_slot(place: PartPlace, rendering: Rendering) -> Result<Self, LinkError> {
        let starts = starts(rendering.mapping(), &place, place.regions.iter().copied())?;
        Ok(Self { place, starts, backing: Backing::Slot(rendering) })
    }

    /// A buffer in staging memory, regions one after another.
    pub(crate) fn in_staging(place: PartPlace, staging: StagingBuffer) -> Result<Self, LinkError> {
        let starts = packed(&place, &staging)?;
        Ok(Self { place, starts, backing: Backing::Staging(staging) })
    }

    /// As [`Self::in_staging`]; `rendering` lets the session know when the buffer is gone.
    pub(crate) fn in_ucx_staging(
        place: PartPlace,
        staging: StagingBuffer,
        rendering: ucx::Rendering,
    ) -> Result<Self, LinkError> {
        let starts = packed(&place, &staging)?;
        Ok(Self { place, starts, backing: Backing::Ucx { staging, rendering } })
    }

    /// As [`Self::in_staging`], in memory that a network card reads. `rendering` lets the session
    /// know when the buffer is gone.
    pub(crate) fn in_registered(
        place: PartPlace,
        staging: StagingBuffer,
        rendering: rdma::Rendering,
    ) -> Result<Self, LinkError> {
        let starts = packed(&place, &staging)?;
        Ok(Self { place, starts, backing: Backing::Registered { staging, rendering } })
    }

    /// Bytes of staging memory that a part needs.
    pub(crate) fn staging_bytes(place: &PartPlace) -> u64 {
        let each = |region: &headwater_core::Region| {
            region.len_bytes.next_multiple_of(STAGING_ALIGN_BYTES)
        };
        place.regions.iter().map(each).sum()
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

    pub(crate) fn backing(&self) -> &Backing {
        &self.backing
    }

    fn len_of(&self, i: usize) -> usize {
        self.place.regions[i].len_bytes as usize
    }
}

/// Where each region begins in staging memory.
fn packed(place: &PartPlace, staging: &StagingBuffer) -> Result<Vec<NonNull<u8>>, LinkError> {
    let mut end: u64 = 0;
    let packed = place.regions.iter().map(|region| {
        let offset_bytes = end;
        end = (end + region.len_bytes).next_multiple_of(STAGING_ALIGN_BYTES);
        headwater_core::Region { offset_bytes, len_bytes: region.len_bytes }
    });
    starts(staging.mapping(), place, packed)
}

fn starts(
    mapping: &Mapping,
    place: &PartPlace,
    regions: impl Iterator<Item = headwater_core::Region>,
) -> Result<Vec<NonNull<u8>>, LinkError> {
    place::check(place, u64::MAX)?;
    regions
        .map(|region| {
            mapping.start_of(region).ok_or_else(|| LinkError::Place {
                reason: format!(
                    "region {}+{} of lease {} ends beyond slot {} of {} bytes",
                    region.offset_bytes,
                    region.len_bytes,
                    place.lease.0,
                    place.slot.0,
                    mapping.len()
                ),
            })
        })
        .collect()
}
