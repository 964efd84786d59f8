//! The bits of a scan between two markers.

use memchr::memchr;

/// Zeros behind the last byte: no word is cut off before bits are missed.
const ZEROS: usize = 16;

/// Bytes of a scan up to a marker, without the zeros that follow bytes of ones there.
#[derive(Debug, Default)]
pub(super) struct Stretch {
    bytes: Vec<u8>,
}

/// Reads the bits of a stretch.
pub(super) struct Bits<'a> {
    bytes: &'a [u8],
    /// Bytes that are in the buffer or passed.
    read: usize,
    /// From the top down. Below `count` there may be more of the same bits.
    buffer: u64,
    count: u32,
}

// === impl Stretch ===

impl Stretch {
    /// Takes all up to the first marker; gives the marker and what follows it, `None` where there is none.
    pub(super) fn take<'a>(&mut self, mut scan: &'a [u8]) -> Option<(u8, &'a [u8])> {
        self.bytes.clear();
        loop {
            let ones = memchr(0xff, scan)?;
            let (before, rest) = scan.split_at(ones);
            self.bytes.extend_from_slice(before);
            // More bytes of ones may fill the space before a marker.
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
    /// Has 56 bits or more in the buffer; `None` where many more have been passed than there are.
    #[inline]
    pub(super) fn fill(&mut self) -> Option<()> {
        let word = u64::from_be_bytes(*self.bytes.get(self.read..)?.first_chunk()?);
        self.buffer |= word >> self.count;
        self.read += ((63 - self.count) / 8) as usize;
        self.count |= 56;
        Some(())
    }

    /// The next bits, from the top down.
    #[inline]
    pub(super) fn peek(&self) -> u64 {
        self.buffer
    }

    /// Passes over as many bits, at most 56 since the last [`Bits::fill`].
    #[inline]
    pub(super) fn pass(&mut self, count: u32) {
        self.buffer <<= count;
        self.count -= count;
    }

    /// Whether all has been passed but those that fill the last byte, and no more.
    pub(super) fn is_at_end(&self) -> bool {
        let passed = 8 * self.read - self.count as usize;
        let all = 8 * (self.bytes.len() - ZEROS);
        passed <= all && all - passed < 8
    }
}
