//! The memory layout of the faster twins, and the order of their steps.
//!
//! A quad is four neighbours along the axis that is resized, one byte each, so that one
//! instruction multiplies four taps. Lanes are the positions along the other axis; quads of one
//! place lie side by side for all lanes. The horizontal pass goes over quads of columns with a
//! lane for each row, the vertical pass over quads of rows with a lane for each column; so both
//! are the same code, and between them the bytes are turned once more.

use headwater_core::draw::Extent;

use crate::image::{Planes, RgbImage, set_len};
use crate::ops::resize::x86::Kernels;
use crate::ops::resize::{Geometry, Taps};

/// Lanes are worked on in multiples of this.
pub(super) const LANE_BLOCK: usize = 16;
/// Taps of a quad.
pub(super) const QUAD: usize = 4;

/// A whole image: `u8[3, quads of columns, rows, 4]`.
#[derive(Debug, Default)]
pub(super) struct Quads {
    pub(super) bytes: Vec<u8>,
    pub(super) quads: usize,
    /// Rows of the image, rounded up to the block.
    pub(super) lanes: usize,
}

/// One pass over one channel.
pub(super) struct Pass<'a> {
    /// The first lane of the first quad.
    pub(super) source: &'a [u8],
    /// From a quad to the next one, in bytes.
    pub(super) quad_stride: usize,
    /// Lanes wanted; a multiple of [`LANE_BLOCK`].
    pub(super) lanes: usize,
    pub(super) taps: &'a QuadTaps,
    /// From an output position to the next one, in bytes.
    pub(super) out_stride: usize,
}

/// One channel to be turned.
pub(super) struct Turn<'a> {
    /// `u8[lanes, positions]`.
    pub(super) source: &'a [u8],
    /// A multiple of [`LANE_BLOCK`].
    pub(super) lanes: usize,
    /// A multiple of 16.
    pub(super) positions: usize,
}

/// Weights of one axis, packed by quads that begin at multiples of four source positions.
#[derive(Debug, Default)]
pub(super) struct QuadTaps {
    pub(super) spans: Vec<QuadSpan>,
    pub(super) words: Vec<[u32; QUAD]>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct QuadSpan {
    pub(super) first_quad: usize,
    pub(super) start: usize,
    pub(super) end: usize,
}

/// Memory between views.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    image: Quads,
    taps: Taps,
    across: QuadTaps,
    down: QuadTaps,
    /// `u8[view columns, rows]` of one channel after the horizontal pass.
    columns: Vec<u8>,
    /// The same as quads of rows.
    turned: Vec<u8>,
    /// `u8[view rows, lanes]` where the view's width is no multiple of the block.
    rows: Vec<u8>,
}

// === impl Quads ===

impl Quads {
    /// Sets the size; the bytes are unspecified. There is a block of slack at the end.
    pub(super) fn reset(&mut self, extent: Extent) {
        self.quads = (extent.width as usize).div_ceil(QUAD);
        self.lanes = (extent.height as usize).next_multiple_of(LANE_BLOCK);
        set_len(&mut self.bytes, (3 * self.quads * self.lanes + LANE_BLOCK) * QUAD);
    }
}

// === impl QuadTaps ===

impl QuadTaps {
    /// Packs `taps`, whose first source position is `shift` positions into the source.
    fn pack(&mut self, taps: &Taps, shift: usize, mirrored: bool, kernels: Kernels) {
        self.spans.clear();
        self.words.clear();
        let count = taps.len();
        for output in 0..count {
            let (first, weights) = taps.at(if mirrored { count - 1 - output } else { output });
            let first = first + shift;
            let start = self.words.len();
            let (first_quad, lead) = (first / QUAD, first % QUAD);
            let mut quad = [0; QUAD];
            let mut at = lead;
            for &weight in weights {
                quad[at] = weight;
                at += 1;
                if at == QUAD {
                    self.words.push(kernels.pack(quad));
                    (quad, at) = ([0; QUAD], 0);
                }
            }
            if at > 0 {
                self.words.push(kernels.pack(quad));
            }
            self.spans.push(QuadSpan { first_quad, start, end: self.words.len() });
        }
    }
}

// === impl Scratch ===

impl Scratch {
    /// Takes an image in; views of it follow.
    pub(super) fn load(&mut self, kernels: Kernels, image: &RgbImage) {
        kernels.cut(image, &mut self.image);
    }

    /// Makes a view of the image last taken in, mirrored or not.
    pub(super) fn resize(
        &mut self,
        kernels: Kernels,
        geometry: &Geometry,
        mirrored: bool,
        view: &mut Planes,
    ) {
        let Geometry { crop, resized, window, view: size } = *geometry;
        let (width, height) = (size.width as usize, size.height as usize);
        self.taps.compute(crop.width, resized.width, window.left, size.width);
        self.across.pack(&self.taps, crop.left as usize, mirrored, kernels);
        self.taps.compute(crop.height, resized.height, window.top, size.height);
        let (first_row, end_row) = self.taps.reach();
        // Row 0 after the first pass is the first one needed.
        let rows = (end_row - first_row).next_multiple_of(LANE_BLOCK);
        self.taps.shift_back(first_row);
        self.down.pack(&self.taps, 0, false, kernels);

        let lanes = width.next_multiple_of(LANE_BLOCK);
        set_len(&mut self.columns, lanes * rows);
        set_len(&mut self.turned, lanes * rows);
        let values = view.reset(size);
        for (channel, plane) in values.chunks_exact_mut(width * height).enumerate() {
            let Quads { bytes, quads, lanes: image_rows } = &self.image;
            let top = crop.top as usize + first_row;
            let across = Pass {
                source: &bytes[(channel * quads * image_rows + top) * QUAD..],
                quad_stride: image_rows * QUAD,
                lanes: rows,
                taps: &self.across,
                out_stride: rows,
            };
            kernels.pass(&across, &mut self.columns);
            let turn = Turn { source: &self.columns, lanes, positions: rows };
            kernels.turn(&turn, &mut self.turned);
            let down = Pass {
                source: &self.turned,
                quad_stride: lanes * QUAD,
                lanes,
                taps: &self.down,
                out_stride: lanes,
            };
            if lanes == width {
                kernels.pass(&down, plane);
                continue;
            }
            set_len(&mut self.rows, lanes * height);
            kernels.pass(&down, &mut self.rows);
            for (to, from) in plane.chunks_exact_mut(width).zip(self.rows.chunks_exact(lanes)) {
                to.copy_from_slice(&from[..width]);
            }
        }
    }
}
