//! `.idx` files: read, and held against the shard.
//!
//! DALI's text format (`wds2idx`, v1.1 and v1.2); little-endian i64 offsets of each sample's first
//! tar header; and the same with the end of the archive as one more entry (Megatron-Energon).

use std::ops::Range;
use std::sync::Arc;

use super::fault::IdxFault;
use super::scan::Scan;
use super::text::TextIndex;
use crate::StorageError;
use crate::source::Place;

use headwater_core::pluralize;
use headwater_storage_client::Object;

const HEADER_BYTES: u64 = 512;

/// An index as it was found beside a shard.
pub(super) struct Idx {
    name: String,
    content: Content,
}

enum Content {
    Text(TextIndex),
    Offsets(Vec<u64>),
}

/// What an index says of the number of samples.
pub(super) struct Outline {
    /// Entries; the last of an offset index may be the end of the archive.
    pub(super) samples: u64,
    /// Where the last entries start, the very last one first.
    pub(super) last_starts: Vec<u64>,
}

// === impl Idx ===

impl Idx {
    /// Reads an index of either kind.
    ///
    /// # Errors
    /// It cannot be read, or is of no kind that is known.
    pub(super) fn read(object: &dyn Object) -> Result<Self, StorageError> {
        let name = object.name();
        let bytes = object
            .read(0..object.bytes())
            .map_err(|source| StorageError::IdxRead { name: name.clone(), source })?;
        let content = Content::parse(&bytes).map_err(|fault| fault.into_error(&name))?;
        Ok(Self { name, content })
    }

    /// Where the tar headers are that the scan will read.
    pub(super) fn header_ranges(&self) -> Vec<Range<u64>> {
        let range = |start: u64| start..start.saturating_add(HEADER_BYTES);
        match &self.content {
            Content::Text(text) => {
                text.data_offsets().map(|data| range(data.saturating_sub(HEADER_BYTES))).collect()
            }
            Content::Offsets(offsets) => offsets.iter().map(|&offset| range(offset)).collect(),
        }
    }

    /// Whether it is a text of v1.2.
    pub(super) fn is_v12(&self) -> bool {
        matches!(&self.content, Content::Text(text) if text.with_names())
    }

    /// Where samples are said to start, as far as it takes to count them.
    pub(super) fn outline(&self) -> Option<Outline> {
        match &self.content {
            Content::Text(text) => {
                let (samples, data) = text.last_data()?;
                Some(Outline { samples, last_starts: vec![data.checked_sub(HEADER_BYTES)?] })
            }
            Content::Offsets(offsets) => {
                let rising = offsets.windows(2).all(|pair| pair[0] < pair[1]);
                let last_starts = offsets.iter().rev().take(2).copied().collect();
                rising.then_some(Outline { samples: offsets.len() as u64, last_starts })
            }
        }
    }

    /// Holds the index against what the scan found.
    ///
    /// # Errors
    /// The first line or entry that differs.
    pub(super) fn check(&self, scan: &Scan, shard_bytes: u64) -> Result<(), StorageError> {
        let checked = match &self.content {
            Content::Text(text) => text.check(&scan.index, shard_bytes),
            Content::Offsets(offsets) => check_offsets(offsets, scan, shard_bytes),
        };
        checked.map_err(|fault| fault.into_error(&self.name))
    }
}

// === impl Content ===

impl Content {
    fn parse(bytes: &[u8]) -> Result<Self, IdxFault> {
        // An offset's first byte is never that: offsets are multiples of 512, lowest byte first.
        if bytes.starts_with(b"v") {
            let text = std::str::from_utf8(bytes).map_err(|error| {
                let before = &bytes[..error.valid_up_to()];
                let line = 1 + before.iter().filter(|&&byte| byte == b'\n').count();
                IdxFault::line(line, "is not UTF-8")
            })?;
            return TextIndex::parse(text).map(Self::Text);
        }
        let (words, rest) = bytes.as_chunks::<8>();
        if !rest.is_empty() {
            let fault = format!(
                "{} bytes are neither whole 64-bit offsets nor a text that starts with `v1.1` or `v1.2`",
                bytes.len()
            );
            return Err(IdxFault { place: "the whole file".to_owned(), fault });
        }
        Ok(Self::Offsets(words.iter().map(|word| u64::from_le_bytes(*word)).collect()))
    }
}

fn check_offsets(offsets: &[u64], scan: &Scan, shard_bytes: u64) -> Result<(), IdxFault> {
    let starts = &scan.starts;
    // Entries are counted from 0, as the samples are.
    for (entry, (&offset, start)) in offsets.iter().zip(starts).enumerate() {
        if offset >= shard_bytes {
            let fault = format!("offset {offset} is beyond the end of the shard at {shard_bytes}");
            return Err(IdxFault::entry(entry, fault));
        }
        if !(start.earliest..=start.header).contains(&offset) || offset % HEADER_BYTES != 0 {
            let fault = format!(
                "no sample starts at offset {offset}; sample {entry} starts at {}",
                start.header
            );
            return Err(IdxFault::entry(entry, fault));
        }
    }
    let data_end = scan.index.end();
    let is_end = |offset: u64| (data_end..=shard_bytes).contains(&offset);
    match &offsets[starts.len().min(offsets.len())..] {
        [] if offsets.len() == starts.len() => Ok(()),
        [end] if is_end(*end) => Ok(()),
        [beyond, ..] if *beyond > shard_bytes => {
            let fault = format!("offset {beyond} is beyond the end of the shard at {shard_bytes}");
            Err(IdxFault::entry(starts.len(), fault))
        }
        _ => {
            let entries = pluralize(offsets.len(), "sample");
            let fault = format!("{entries}, the shard has {}", starts.len());
            Err(IdxFault { place: "the whole file".to_owned(), fault })
        }
    }
}

/// The `.idx` of a shard: `a.idx` or `a.tar.idx` beside `a.tar`.
pub(super) fn open_beside(place: &Place) -> Result<Option<Arc<dyn Object>>, StorageError> {
    let mut appended = place.path.clone().into_os_string();
    appended.push(".idx");
    for path in [place.path.with_extension("idx"), appended.into()] {
        let beside = Place { source: place.source.clone(), path };
        let opened = beside.open_if_there();
        let failed = |source| StorageError::IdxRead { name: beside.name(), source };
        if let Some(idx) = opened.map_err(failed)? {
            return Ok(Some(idx));
        }
    }
    Ok(None)
}
