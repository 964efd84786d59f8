//! The bytes of a file, as far as a scan needs them.

use std::ops::Range;

use bytes::Bytes;
use headwater_storage_client::{Object, ObjectError};

/// What is read at once of a file of this host: heads of records are small, images lie between them.
const NEAR_BYTES: u64 = 8 << 10;
/// The same of another source, where a request costs more than its bytes.
const FAR_BYTES: u64 = 8 << 20;
/// What is read around the start of a record that an index names: the end of the one before, and
/// the head.
const BEFORE_BYTES: u64 = 512;
const HEAD_BYTES: u64 = 1536;
/// Records whose heads are read together.
const TOGETHER: usize = 256;

/// Gives ranges of something that has a beginning and an end.
pub(super) trait Reach {
    /// Bytes that lie within the end.
    fn get(&mut self, range: Range<u64>) -> Result<&[u8], ObjectError>;
}

/// An object, window by window.
#[derive(Debug)]
pub(super) struct Window<'a> {
    object: &'a dyn Object,
    window_bytes: u64,
    /// Where records start, as an index has it.
    starts: Vec<u64>,
    /// How many of the starts were read ahead.
    read: usize,
    ahead: Vec<(u64, Bytes)>,
    at: u64,
    bytes: Bytes,
}

/// Bytes in memory.
pub(super) struct Whole<'a>(pub(super) &'a [u8]);

// === impl Whole ===

impl Reach for Whole<'_> {
    fn get(&mut self, range: Range<u64>) -> Result<&[u8], ObjectError> {
        Ok(self.0.get(range.start as usize..range.end as usize).unwrap_or_default())
    }
}

// === impl Window ===

impl<'a> Window<'a> {
    pub(super) fn new(object: &'a dyn Object, is_local: bool, starts: Vec<u64>) -> Self {
        let window_bytes = if is_local { NEAR_BYTES } else { FAR_BYTES };
        let (ahead, bytes) = (Vec::new(), Bytes::new());
        Self { object, window_bytes, starts, read: 0, ahead, at: 0, bytes }
    }

    /// Says that a record begins here: if an index names it, heads from there on are read together.
    pub(super) fn record(&mut self, number: usize) -> Result<(), ObjectError> {
        if number < self.read || number >= self.starts.len() {
            return Ok(());
        }
        let starts = &self.starts[number..self.starts.len().min(number + TOGETHER)];
        let size = self.object.bytes();
        let around = |start: &u64| {
            start.saturating_sub(BEFORE_BYTES).min(size)..start.saturating_add(HEAD_BYTES).min(size)
        };
        let ranges: Vec<Range<u64>> = starts.iter().map(around).collect();
        let read = self.object.read_many(&ranges)?;
        self.ahead = ranges.into_iter().map(|range| range.start).zip(read).collect();
        self.read = number + starts.len();
        Ok(())
    }
}

impl Reach for Window<'_> {
    fn get(&mut self, range: Range<u64>) -> Result<&[u8], ObjectError> {
        let wanted = range.end - range.start;
        let after = self.ahead.partition_point(|(at, _)| *at <= range.start);
        for near in [after.checked_sub(1), after.checked_sub(2)].into_iter().flatten() {
            let (at, bytes) = &self.ahead[near];
            let start = range.start - at;
            if start + wanted <= bytes.len() as u64 {
                return Ok(&self.ahead[near].1[start as usize..(start + wanted) as usize]);
            }
        }
        let end = self.at + self.bytes.len() as u64;
        if range.start < self.at || range.end > end {
            let window = range.start.saturating_add(self.window_bytes.max(wanted));
            self.bytes = self.object.read(range.start..window.min(self.object.bytes()))?;
            self.at = range.start;
        }
        let start = (range.start - self.at) as usize;
        Ok(self.bytes.get(start..start + wanted as usize).unwrap_or_default())
    }
}
