//! Makes the entry points of a shard's JPEG images: the places in their bits where decoding can begin.
//!
//! To find them, all bits of an image are decoded once; no pixel is made.

mod background;

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use headwater_core::shard_entries::ENTRIES_BYTES_MAX;
use headwater_core::{ShardEntries, ShardEntriesBuilder};
use headwater_jpeg::Decoder;
use headwater_proto::storage::FieldSelection;
use headwater_simd::Simd;
use headwater_storage_client::{IndexedShard, ShardReadError};

pub(crate) use background::{Maker, Missing, ShardNumber};

/// Samples that are read together, at most.
const TOGETHER: u32 = 64;
/// Bytes of them, about; a sample may have more by itself.
const TOGETHER_BYTES: u64 = 16 << 20;

// Entries of 14 bytes: what the decoder makes has room wherever it is kept and sent.
const _: () = assert!(14 * headwater_jpeg::ENTRIES_MAX == ENTRIES_BYTES_MAX);

/// The entry points of a shard, and what they were made of.
#[derive(Debug)]
pub(crate) struct Made {
    pub(crate) entries: ShardEntries,
    /// JPEG images of the shard, those without entries included.
    pub(crate) images: u64,
}

/// The entry points of some samples of a shard, in order.
#[derive(Default)]
struct Piece {
    images: u64,
    found: Vec<Found>,
}

/// The entry points of one image.
struct Found {
    sample: u32,
    field: u32,
    entries: Vec<u8>,
}

/// Makes the entry points of a shard on `threads` threads, for as long as that is `wanted`; `None` if it
/// was not to the end. Progressive, small and damaged images have none. Blocking.
///
/// # Errors
/// A shard that was changed or cannot be read.
pub(crate) fn make(
    shard: &IndexedShard,
    threads: usize,
    wanted: &(dyn Fn() -> bool + Sync),
) -> Result<Option<Made>, ShardReadError> {
    let ranges = ranges(shard)?;
    let pieces: Vec<Mutex<Option<Piece>>> = ranges.iter().map(|_| Mutex::default()).collect();
    let next = AtomicUsize::new(0);
    let work = || -> Result<(), ShardReadError> {
        let mut decoder = Decoder::new(Simd::best());
        while let Some((range, piece)) = take(&next, &ranges, &pieces) {
            if !wanted() {
                return Ok(());
            }
            let made = make_piece(shard, range, &mut decoder)?;
            *piece.lock().unwrap_or_else(PoisonError::into_inner) = Some(made);
        }
        Ok(())
    };
    run(threads.min(ranges.len()), &work)?;
    let (mut images, mut builder) = (0, ShardEntriesBuilder::default());
    for piece in pieces {
        let piece = piece.into_inner().unwrap_or_else(PoisonError::into_inner);
        let Some(piece) = piece else { return Ok(None) };
        images += piece.images;
        for Found { sample, field, entries } in piece.found {
            builder.add(sample, field, &entries);
        }
    }
    Ok(Some(Made { entries: builder.finish(), images }))
}

fn take<'a>(
    next: &AtomicUsize,
    ranges: &'a [Range<u32>],
    pieces: &'a [Mutex<Option<Piece>>],
) -> Option<(Range<u32>, &'a Mutex<Option<Piece>>)> {
    let at = next.fetch_add(1, Ordering::Relaxed);
    Some((ranges.get(at)?.clone(), &pieces[at]))
}

/// The same work on `threads` threads; this one is one of them.
fn run(
    threads: usize,
    work: &(impl Fn() -> Result<(), ShardReadError> + Sync),
) -> Result<(), ShardReadError> {
    thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
        let own = work();
        let ended = others
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        ended.fold(own, Result::and)
    })
}

/// The shard's samples in pieces that are read together.
fn ranges(shard: &IndexedShard) -> Result<Vec<Range<u32>>, ShardReadError> {
    let (mut ranges, mut start, mut bytes) = (Vec::new(), 0, 0);
    let samples = shard.index().samples();
    for sample in 0..samples {
        bytes += shard.sample_bytes(sample, &FieldSelection::all())?;
        let end = sample + 1;
        if bytes >= TOGETHER_BYTES || end - start == TOGETHER || end == samples {
            ranges.push(start..end);
            (start, bytes) = (end, 0);
        }
    }
    Ok(ranges)
}

fn make_piece(
    shard: &IndexedShard,
    range: Range<u32>,
    decoder: &mut Decoder,
) -> Result<Piece, ShardReadError> {
    let indices: Vec<u32> = range.collect();
    let mut piece = Piece::default();
    for sample in shard.read(&indices, &FieldSelection::all())? {
        for (place, field) in sample.fields().enumerate().filter(|(_, field)| field.is_jpeg()) {
            piece.images += 1;
            let entries = entries_of(decoder, &field.data);
            if !entries.is_empty() {
                piece.found.push(Found { sample: sample.index, field: place as u32, entries });
            }
        }
    }
    Ok(piece)
}

/// The entries of an image as they are kept and sent; none where the decoder leaves it to others.
fn entries_of(decoder: &mut Decoder, file: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Ok(entries) = decoder.read(file).and_then(|image| image.entries()) {
        entries.write(&mut bytes);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;
    use std::sync::atomic::AtomicU32;

    use super::*;
    use crate::OnBrokenShard;
    use crate::format::{Format as _, Opened, Tar};
    use crate::kept::KeptIndices;
    use crate::source::Place;

    fn photos() -> IndexedShard {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data/photos");
        let place = Place::of_file(&folder.join("photos-000000.tar"));
        let tar = Tar::new(OnBrokenShard::Fail, Arc::new(KeptIndices::none()));
        let version = tar.outlines(&place).unwrap()[0].version;
        let Ok(Opened::InPlace(shard)) = tar.open(&place, 0, version) else { panic!("a tar") };
        shard
    }

    #[test]
    fn the_number_of_threads_changes_nothing() {
        let shard = photos();
        let one = make(&shard, 1, &|| true).unwrap().unwrap();
        // More than there are pieces of the shard.
        let many = make(&shard, 7, &|| true).unwrap().unwrap();
        assert_eq!((one.images, &one.entries), (many.images, &many.entries));
        assert_eq!(one.images, 80);
        let jpg = |sample| {
            let place = shard.index().fields(sample).position(|field| field.name == "jpg");
            place.unwrap() as u32
        };
        assert!(one.entries.of(0, jpg(0)).is_empty(), "a progressive image");
        assert!(!one.entries.of(1, jpg(1)).is_empty(), "a baseline image");
    }

    #[test]
    fn what_is_not_wanted_any_more_is_not_made() {
        let left = AtomicU32::new(1);
        let wanted = || left.fetch_sub(1, Ordering::Relaxed) == 1;
        assert!(make(&photos(), 1, &wanted).unwrap().is_none());
        assert_eq!(left.into_inner(), u32::MAX, "asked twice: before each piece");
    }
}
