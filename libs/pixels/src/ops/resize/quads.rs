//! The order of the faster twins' steps.
//!
//! A horizontal pass goes over quads of columns with a lane for each row, a vertical pass over quads of
//! rows with a lane for each column, so both are the same code; between them the bytes are turned.
//! Sixteen lanes at a time, everything between the image and the turned bytes stays in the nearest
//! cache. Some sets make the quads of rows by `fours` instead, out of rows as they are.
//!
//! Where the vertical pass comes first, the image is cut the other way and the second pass makes
//! the view on its side, which is turned upright at the end. Nothing else differs.

use crate::image::{Planes, RgbImage};
use crate::ops::resize::fours::Fours;
use crate::ops::resize::kernels::Kernels;
use crate::ops::resize::layout::{BLOCK_BYTES, Cut, LANE_BLOCK, Pass, QUAD, QuadTaps, Quads, Rows};
use crate::ops::resize::{Geometry, Taps, taps};
use crate::simd::Aligned;

/// Memory between views.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    taps: Taps,
    /// The columns, where the first pass takes rows as they are.
    fours: Fours,
    /// The axis of the first pass.
    first: QuadTaps,
    /// The axis of the second pass.
    second: QuadTaps,
    /// 16 lanes of the image as `u8[3, quads, 16, 4]`.
    cut: Aligned<u8>,
    /// The same lanes after the first pass, `u8[3, positions, 16]`.
    passed: Aligned<u8>,
    /// All lanes after the first pass as `u8[3, quads, positions, 4]`.
    turned: Aligned<u8>,
    /// One channel after the second pass, `u8[positions, lanes]`, where that is not the view's
    /// plane as it is.
    made: Aligned<u8>,
}

/// Where the cuts of an image begin.
struct Start<'a> {
    image: &'a RgbImage,
    row: usize,
    column: usize,
    of: Quads,
}

// === impl Scratch ===

impl Scratch {
    /// Makes a view, mirrored or not.
    pub(super) fn resize(
        &mut self,
        kernels: Kernels,
        image: &RgbImage,
        geometry: &Geometry,
        mirrored: bool,
        view: &mut Planes,
    ) {
        let size = geometry.view;
        let (across, down) = (geometry.across(image.reduction()), geometry.down(image.reduction()));
        let of = match geometry.is_vertical_first(image.reduction()) {
            true => Quads::Rows,
            false => Quads::Columns,
        };
        let simd = kernels.simd();
        let (horizontal, vertical) = match of {
            Quads::Columns => (&mut self.first, &mut self.second),
            Quads::Rows => (&mut self.second, &mut self.first),
        };
        taps::compute(simd, &mut self.taps, &across);
        let words = |weights: &[i32], words: &mut [[u32; QUAD]]| kernels.pack(weights, words);
        let by_fours = of == Quads::Columns
            && kernels.goes_across()
            && self.fours.compute(&self.taps, mirrored);
        if !by_fours {
            horizontal.pack(&self.taps, mirrored, words);
        }
        taps::compute(simd, &mut self.taps, &down);
        vertical.pack(&self.taps, false, words);
        let before = if by_fours { 0 } else { horizontal.first };
        let column = across.base as usize + before;
        let row = down.base as usize + vertical.first;
        let start = Start { image, row, column, of };

        let (width, height) = (size.width as usize, size.height as usize);
        let lanes = if of == Quads::Columns { width } else { height };
        let lanes = lanes.next_multiple_of(LANE_BLOCK);
        let blocks = self.second.quads.div_ceil(LANE_BLOCK / QUAD);
        if by_fours {
            let quads = blocks * LANE_BLOCK / QUAD;
            let turned = self.turned.first(3 * quads * QUAD * lanes);
            kernels.across(&start.rows(quads), &self.fours, turned);
        } else {
            self.first_pass(kernels, &start, blocks, lanes);
        }

        let channel_len = blocks * LANE_BLOCK * lanes;
        let values = view.reset(size);
        let turned = self.turned.first(3 * channel_len);
        for (plane, source) in
            values.chunks_exact_mut(width * height).zip(turned.chunks_exact(channel_len))
        {
            let quad_stride = lanes * QUAD;
            let pass = Pass { sources: [source], quad_stride, lanes, taps: &self.second };
            if of == Quads::Rows {
                let columns = self.made.first(lanes * width);
                kernels.pass_lanes(&pass, columns);
                kernels.upright(columns, lanes, plane, width);
                continue;
            }
            if lanes == width {
                kernels.pass_lanes(&pass, plane);
                continue;
            }
            let rows = self.made.first(lanes * height);
            kernels.pass_lanes(&pass, rows);
            for (to, from) in plane.chunks_exact_mut(width).zip(rows.chunks_exact(lanes)) {
                to.copy_from_slice(&from[..width]);
            }
        }
    }

    /// From the image to `self.turned`, by blocks of 16 lanes.
    fn first_pass(&mut self, kernels: Kernels, start: &Start<'_>, blocks: usize, lanes: usize) {
        let quads = match start.of {
            Quads::Columns => self.first.quads.next_multiple_of(LANE_BLOCK / QUAD),
            Quads::Rows => self.first.quads,
        };
        let cut_len = quads * BLOCK_BYTES;
        let cut = self.cut.first(3 * cut_len);
        let passed = self.passed.first(3 * lanes * LANE_BLOCK);
        let channel_len = blocks * LANE_BLOCK * lanes;
        let turned = self.turned.first(3 * channel_len);
        for block in 0..blocks {
            for (channel, cut) in cut.chunks_exact_mut(cut_len).enumerate() {
                kernels.cut(&start.block(channel, block), cut);
            }
            let (red, rest) = cut.split_at(cut_len);
            let (green, blue) = rest.split_at(cut_len);
            let pass = Pass {
                sources: [red, green, blue],
                quad_stride: BLOCK_BYTES,
                lanes: LANE_BLOCK,
                taps: &self.first,
            };
            kernels.pass_block(&pass, passed, lanes * LANE_BLOCK);
            for (channel, passed) in passed.chunks_exact(lanes * LANE_BLOCK).enumerate() {
                let at = channel * channel_len + block * LANE_BLOCK * lanes;
                kernels.turn(passed, &mut turned[at..][..LANE_BLOCK * lanes]);
            }
        }
    }
}

// === impl Start ===

impl<'a> Start<'a> {
    /// Quads of rows.
    fn rows(&self, quads: usize) -> Rows<'a> {
        let Self { image, row, column, .. } = *self;
        let last = image.extent().height as usize - 1;
        let (planes, stride) = (image.planes(), image.stride());
        Rows { planes, stride, column, before: 0, first: row, last, quads }
    }

    /// Block number `block` of 16 lanes.
    fn block(&self, channel: usize, block: usize) -> Cut<'a> {
        let Self { image, row, column, of } = *self;
        let lane = block * LANE_BLOCK;
        let (row, column) = match of {
            Quads::Columns => (row + lane, column),
            Quads::Rows => (row, column + lane),
        };
        let plane = image.planes()[channel];
        let last_row = image.extent().height as usize - 1;
        Cut { plane, stride: image.stride(), last_row, row, column, of }
    }
}
