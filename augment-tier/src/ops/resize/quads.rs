//! The order of the faster twins' steps.
//!
//! A horizontal pass goes over quads of columns with a lane for each row, a vertical pass over quads of
//! rows with a lane for each column, so both are the same code; between them the bytes are turned.
//! Sixteen lanes at a time, everything between the image and the turned bytes stays in the nearest
//! cache.
//!
//! Where the vertical pass comes first, the image is cut the other way and the second pass makes
//! the view on its side, which is turned upright at the end. Nothing else differs.

use crate::image::{Planes, RgbImage};
use crate::ops::resize::kernels::Kernels;
use crate::ops::resize::layout::{BLOCK_BYTES, Cut, LANE_BLOCK, Pass, QUAD, QuadTaps, Quads};
use crate::ops::resize::{Geometry, Taps, taps};
use crate::simd::Aligned;

/// Memory between views.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    taps: Taps,
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
        horizontal.pack(&self.taps, mirrored, words);
        taps::compute(simd, &mut self.taps, &down);
        vertical.pack(&self.taps, false, words);
        let column = across.base as usize + horizontal.first;
        let row = down.base as usize + vertical.first;

        let (width, height) = (size.width as usize, size.height as usize);
        let lanes = if of == Quads::Columns { width } else { height };
        let lanes = lanes.next_multiple_of(LANE_BLOCK);
        let blocks = self.second.quads.div_ceil(LANE_BLOCK / QUAD);
        self.first_pass(kernels, Cut { image, row, column, quads: 0, of }, blocks, lanes);

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

    /// From the image to `self.turned`, by blocks of 16 lanes. `start` is where the cuts begin.
    fn first_pass(&mut self, kernels: Kernels, start: Cut<'_>, blocks: usize, lanes: usize) {
        let quads = self.first.quads;
        let cut = self.cut.first(3 * quads * BLOCK_BYTES);
        let passed = self.passed.first(3 * lanes * LANE_BLOCK);
        let channel_len = blocks * LANE_BLOCK * lanes;
        let turned = self.turned.first(3 * channel_len);
        for block in 0..blocks {
            let (row, column) = match start.of {
                Quads::Columns => (start.row + block * LANE_BLOCK, start.column),
                Quads::Rows => (start.row, start.column + block * LANE_BLOCK),
            };
            kernels.cut(&Cut { row, column, quads, ..start }, cut);
            let (red, rest) = cut.split_at(quads * BLOCK_BYTES);
            let (green, blue) = rest.split_at(quads * BLOCK_BYTES);
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
