//! Memory at the beginning of a cache line.

/// Bytes of a line, and of the longest vector: one that begins elsewhere lies in two lines.
const LINE_BYTES: usize = 64;

/// A buffer of bytes that begins with a cache line and keeps its memory.
#[derive(Debug, Default)]
pub(crate) struct Aligned {
    memory: Vec<u8>,
}

// === impl Aligned ===

impl Aligned {
    /// The first `len` bytes, with the values that they were given last. What lies beyond the
    /// largest `len` so far is 0.
    pub(crate) fn bytes(&mut self, len: usize) -> &mut [u8] {
        if self.memory.len() < len + LINE_BYTES {
            self.memory.resize(len + LINE_BYTES, 0);
        }
        let start = self.memory.as_ptr().align_offset(LINE_BYTES).min(LINE_BYTES);
        &mut self.memory[start..][..len]
    }
}
