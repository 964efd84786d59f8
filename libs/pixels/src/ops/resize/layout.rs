//! The memory layout of the faster twins.
//!
//! A quad is four neighbours along the axis that is resized, one byte each, so that one
//! instruction multiplies four taps. Lanes are the positions along the other axis; the quads of
//! one place lie side by side for all lanes.

use crate::ops::resize::Taps;

/// Lanes are worked on in multiples of this.
pub(super) const LANE_BLOCK: usize = 16;
/// Taps of a quad.
pub(super) const QUAD: usize = 4;
/// Bytes of a quad for a block of lanes.
pub(super) const BLOCK_BYTES: usize = LANE_BLOCK * QUAD;

/// A cut of 16 rows, or of 16 columns, out of a plane of an image: into `u8[quads, 16, 4]`, where quads
/// of columns are a multiple of four.
#[derive(Clone, Copy)]
pub(super) struct Cut<'a> {
    /// The plane, with the slack after it.
    pub(super) plane: &'a [u8],
    /// Bytes from a row to the next one.
    pub(super) stride: usize,
    /// Number of the last row.
    pub(super) last_row: usize,
    /// The first row; rows beyond the image repeat its last one.
    pub(super) row: usize,
    /// The first column; columns beyond the image have any value.
    pub(super) column: usize,
    pub(super) of: Quads,
}

/// What four neighbours are.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Quads {
    /// Four columns; lanes are rows.
    Columns,
    /// Four rows; lanes are columns.
    Rows,
}

// === impl Cut ===

impl<'a> Cut<'a> {
    /// `N` bytes of row number `number` of the cut, from column number `column` of it on. Bytes beyond the
    /// image's columns are the next row's, or the slack.
    #[inline(always)]
    pub(super) fn bytes<const N: usize>(&self, number: usize, column: usize) -> &'a [u8; N] {
        let row = (self.row + number).min(self.last_row);
        let start = row * self.stride + self.column + column;
        self.plane[start..].first_chunk().expect("the slack is longer")
    }
}

/// Rows of three planes.
pub(super) struct Rows<'a> {
    /// Planes with 64 bytes after the last row at least.
    pub(super) planes: [&'a [u8]; 3],
    /// Bytes from a row to the next one.
    pub(super) stride: usize,
    /// Where rows begin: at source position `before`.
    pub(super) column: usize,
    #[cfg_attr(target_arch = "aarch64", expect(dead_code, reason = "of the windows alone"))]
    pub(super) before: usize,
    /// The first row; rows beyond the last repeat it.
    pub(super) first: usize,
    pub(super) last: usize,
    /// Quads of rows that are wanted.
    pub(super) quads: usize,
}

// === impl Rows ===

impl Rows<'_> {
    /// Where row number `number` begins in its plane.
    #[inline(always)]
    pub(super) fn start(&self, number: usize) -> usize {
        (self.first + number).min(self.last) * self.stride + self.column
    }
}

/// One pass over `N` channels.
pub(super) struct Pass<'a, const N: usize> {
    /// For each channel the first lane of the first quad.
    pub(super) sources: [&'a [u8]; N],
    /// From a quad to the next one, in bytes.
    pub(super) quad_stride: usize,
    /// Lanes wanted; a multiple of [`LANE_BLOCK`].
    pub(super) lanes: usize,
    pub(super) taps: &'a QuadTaps,
}

/// Weights of one axis, packed by quads.
#[derive(Debug, Default)]
pub(super) struct QuadTaps {
    spans: Vec<QuadSpan>,
    words: Vec<[u32; QUAD]>,
    /// The weights of all spans, each filled up to whole quads with zeros.
    padded: Vec<i32>,
    /// Source position of the first quad, and quads in all.
    pub(super) first: usize,
    pub(super) quads: usize,
}

/// The quads of one output position.
#[derive(Clone, Copy, Debug)]
struct QuadSpan {
    first_quad: usize,
    start: usize,
    end: usize,
}

/// Bits of the lower part of a weight that is split in two; both parts fit in signed 16 bits.
pub(super) const LOW_BITS: u32 = 12;

/// Weights split in two: the upper parts of the four of each quad in two words, then the lower parts.
pub(super) fn split(weights: &[i32], words: &mut [[u32; QUAD]]) {
    let word = |a: i32, b: i32| (a as u32 & 0xffff) | (b as u32) << 16;
    let (quads, _) = weights.as_chunks::<QUAD>();
    for (quad, words) in quads.iter().zip(words) {
        let high = quad.map(|weight| weight >> LOW_BITS);
        let low = quad.map(|weight| weight & ((1 << LOW_BITS) - 1));
        *words = [
            word(high[0], high[1]),
            word(high[2], high[3]),
            word(low[0], low[1]),
            word(low[2], low[3]),
        ];
    }
}

/// Turns a view on its side, `u8[width, lanes]`, into a plane `u8[height, width]`, from column
/// `first` on.
pub(super) fn upright_from(
    columns: &[u8],
    lanes: usize,
    plane: &mut [u8],
    width: usize,
    first: usize,
) {
    for (y, row) in plane.chunks_exact_mut(width).enumerate() {
        for (x, value) in row.iter_mut().enumerate().skip(first) {
            *value = columns[x * lanes + y];
        }
    }
}

// === impl Pass ===

impl<const N: usize> Pass<'_, N> {
    /// Panics unless all sources hold all lanes of all quads that the taps name.
    #[inline(always)]
    pub(super) fn check(&self) {
        assert!(self.lanes.is_multiple_of(LANE_BLOCK), "{} lanes", self.lanes);
        let needed = match self.taps.quads {
            0 => 0,
            quads => (quads - 1) * self.quad_stride + self.lanes * QUAD,
        };
        assert!(self.sources.iter().all(|source| source.len() >= needed), "{needed} bytes");
    }
}

// === impl QuadTaps ===

impl QuadTaps {
    /// Packs `taps`; the first quad begins where the first of them does.
    ///
    /// `words` makes words of the weights of all quads.
    pub(super) fn pack(
        &mut self,
        taps: &Taps,
        mirrored: bool,
        words: impl FnOnce(&[i32], &mut [[u32; QUAD]]),
    ) {
        let (start, end) = taps.reach();
        self.first = start;
        self.quads = (end - start).div_ceil(QUAD);
        self.spans.clear();
        self.padded.clear();
        let count = taps.len();
        for output in 0..count {
            let (first, weights) = taps.at(if mirrored { count - 1 - output } else { output });
            let (first_quad, lead) = ((first - start) / QUAD, (first - start) % QUAD);
            let (begin, quads) = (self.padded.len(), (lead + weights.len()).div_ceil(QUAD));
            self.padded.resize(begin + quads * QUAD, 0);
            self.padded[begin + lead..][..weights.len()].copy_from_slice(weights);
            let (start, end) = (begin / QUAD, self.padded.len() / QUAD);
            self.spans.push(QuadSpan { first_quad, start, end });
        }
        self.words.resize(self.padded.len() / QUAD, [0; QUAD]);
        words(&self.padded, &mut self.words);
    }

    /// For each output position the number of its first quad and its packed weights. No quad
    /// that is named lies beyond [`QuadTaps::pack`]'s number of quads, on which
    /// [`Pass::check`] relies.
    #[inline(always)]
    pub(super) fn outputs(&self) -> impl Iterator<Item = (usize, &[[u32; QUAD]])> {
        self.spans.iter().map(|span| (span.first_quad, &self.words[span.start..span.end]))
    }
}
