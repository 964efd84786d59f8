//! The bits of a scan between two markers.

use memchr::memchr;

/// Zeros after the last byte, so that the last bits can be read as part of a word.
const ZEROS: usize = 16;

/// The bytes of a scan up to a marker, without the zeros stuffed after bytes 0xff.
#[derive(Debug, Default)]
pub(super) struct Stretch {
    bytes: Vec<u8>,
}

/// Reads the bits of a stretch.
pub(super) struct Bits<'a> {
    bytes: &'a [u8],
    /// Bytes that are in the buffer or skipped.
    read: usize,
    /// The next bits, the first at the top. Below the first `count` there may be some of those that follow.
    buffer: u64,
    count: u32,
}

// === impl Stretch ===

impl Stretch {
    /// Takes everything up to the first marker. Returns the marker and what follows it, if there is one.
    pub(super) fn take<'a>(&mut self, mut scan: &'a [u8]) -> Option<(u8, &'a [u8])> {
        self.bytes.clear();
        loop {
            let ones = memchr(0xff, scan)?;
            let (before, rest) = scan.split_at(ones);
            self.bytes.extend_from_slice(before);
            // A marker may be preceded by more bytes 0xff.
            let filling = rest.iter().take_while(|&&byte| byte == 0xff).count();
            let (&marker, rest) = rest[filling..].split_first()?;
            if marker != 0 {
                self.bytes.extend_from_slice(&[0; ZEROS]);
                return Some((marker, rest));
            }
            if filling > 1 {
                return None;
            }
            self.bytes.push(0xff);
            scan = rest;
        }
    }

    pub(super) fn bits(&self) -> Bits<'_> {
        Bits { bytes: &self.bytes, read: 0, buffer: 0, count: 0 }
    }
}

// === impl Bits ===

impl Bits<'_> {
    /// Fills the buffer to 56 bits or more; `None` if far more bits were skipped than there are.
    #[inline]
    pub(super) fn fill(&mut self) -> Option<()> {
        let word = u64::from_be_bytes(*self.bytes.get(self.read..)?.first_chunk()?);
        self.buffer |= word >> self.count;
        self.read += ((63 - self.count) / 8) as usize;
        self.count |= 56;
        Some(())
    }

    /// The next bits, the first at the top.
    #[inline]
    pub(super) fn peek(&self) -> u64 {
        self.buffer
    }

    /// Skips bits, at most 56 since the last [`Bits::fill`].
    #[inline]
    pub(super) fn skip(&mut self, count: u32) {
        self.buffer <<= count;
        self.count -= count;
    }

    /// Whether all bits were skipped but the padding of the last byte, and no more than there are.
    pub(super) fn is_at_end(&self) -> bool {
        let skipped = 8 * self.read - self.count as usize;
        let all = 8 * (self.bytes.len() - ZEROS);
        skipped <= all && all - skipped < 8
    }
}
