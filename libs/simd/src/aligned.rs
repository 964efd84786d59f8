//! Memory at the beginning of a cache line.

/// Bytes of a line, and of the longest vector: one that begins elsewhere lies in two lines.
const LINE_BYTES: usize = 64;

/// A buffer that begins with a cache line and keeps its memory.
#[derive(Debug, Default)]
pub struct Aligned<T> {
    memory: Vec<T>,
}

// === impl Aligned ===

impl<T: Copy + Default> Aligned<T> {
    /// Gives memory for more than `len` elements back.
    pub fn keep_at_most(&mut self, len: usize) {
        if self.memory.len() > len + LINE_BYTES / size_of::<T>() {
            self.memory = Vec::new();
        }
    }

    /// The first `len` elements, with the values that they were given last. What lies beyond the
    /// largest `len` so far is the default.
    #[inline(always)]
    pub fn first(&mut self, len: usize) -> &mut [T] {
        let slack = LINE_BYTES / size_of::<T>();
        if self.memory.len() < len + slack {
            self.memory.resize(len + slack, T::default());
        }
        let start = self.memory.as_ptr().align_offset(LINE_BYTES).min(slack);
        &mut self.memory[start..][..len]
    }
}
