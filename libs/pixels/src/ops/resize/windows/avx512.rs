//! The passes one after the other.
#![allow(unsafe_code)]

use headwater_core::draw::Filter;

use crate::image::{Planes, RgbImage};
use crate::ops::resize::layout::Rows;
use crate::ops::resize::windows::across::Out;
use crate::ops::resize::windows::down::{Plane, quads_of_rows};
use crate::ops::resize::windows::{QUAD, Scratch, VECTOR};
use crate::ops::resize::{Axis, Geometry};
use crate::simd::Vbmi;

/// Makes a view, mirrored or not. False: it shrinks the image too much for that, has another filter, or positions
/// that 32 bits with a sign cannot hold; and nothing has been done.
pub(in crate::ops::resize) fn resize(
    _: Vbmi,
    scratch: &mut Scratch,
    image: &RgbImage,
    geometry: &Geometry,
    mirrored: bool,
    view: &mut Planes,
) -> bool {
    // SAFETY: the proof exists only where the processor has the sets that are enabled there.
    unsafe { scratch.resize(image, geometry, mirrored, view) }
}

// === impl Scratch ===

impl Scratch {
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vnni")]
    fn resize(
        &mut self,
        image: &RgbImage,
        geometry: &Geometry,
        mirrored: bool,
        view: &mut Planes,
    ) -> bool {
        // Other filters are rare, and their sums are short.
        if !matches!(geometry.filter, Filter::Bicubic | Filter::Bilinear) {
            return false;
        }
        let (across, down) = (geometry.across(image.reduction()), geometry.down(image.reduction()));
        if [across, down].iter().any(|axis| i32::try_from(axis.start + axis.count).is_err()) {
            return false;
        }
        if !self.across.compute(&across, mirrored, &mut self.weights) {
            return false;
        }
        self.down.compute(&down, down.reach().0, &mut self.weights);
        view.reset(geometry.view);
        if geometry.is_vertical_first(image.reduction()) {
            self.down_and_across(image, &across, &down, view);
        } else {
            self.across_and_down(image, &across, &down, view);
        }
        true
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vnni")]
    fn across_and_down(&mut self, image: &RgbImage, across: &Axis, down: &Axis, view: &mut Planes) {
        let (first, end) = down.reach();
        let rows = Rows {
            planes: image.planes(),
            stride: image.stride(),
            column: across.base as usize,
            before: 0,
            first: (down.base + first) as usize,
            last: image.extent().height as usize - 1,
            quads: ((end - first) as usize).div_ceil(QUAD),
        };
        let lanes = self.across.lanes();
        let channel_len = rows.quads * QUAD * lanes;
        let quads = self.quads.first(3 * channel_len);
        self.across.pass(&rows, Out::Quads, quads);
        let width = view.extent().width as usize;
        let (red, rest) = quads.split_at(channel_len);
        let (green, blue) = rest.split_at(channel_len);
        let [to_red, to_green, to_blue] = view.planes_mut();
        let mut planes = [
            Plane { source: red, out: to_red },
            Plane { source: green, out: to_green },
            Plane { source: blue, out: to_blue },
        ];
        self.down.pass::<false>(&mut planes, lanes, width);
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vnni")]
    fn down_and_across(&mut self, image: &RgbImage, across: &Axis, down: &Axis, view: &mut Planes) {
        let (height, last_row) =
            (view.extent().height as usize, image.extent().height as usize - 1);
        let ((left, right), (top, bottom)) = (across.reach(), down.reach());
        let columns = ((right - left) as usize).next_multiple_of(VECTOR);
        let (row, column) = ((down.base + top) as usize, (across.base + left) as usize);
        let between_len = height * columns;
        // The horizontal pass wants slack.
        let between = self.between.first(3 * between_len + VECTOR);
        let quads = self.quads.first(((bottom - top) as usize).div_ceil(QUAD) * QUAD * columns);
        for (plane, between) in
            image.planes().into_iter().zip(between.chunks_exact_mut(between_len))
        {
            quads_of_rows(plane, image.stride(), (row, last_row), column, columns, quads);
            let mut planes = [Plane { source: quads, out: between }];
            self.down.pass::<true>(&mut planes, columns, columns);
        }
        let rows = Rows {
            planes: [0, 1, 2].map(|channel| &between[channel * between_len..]),
            stride: columns,
            column: 0,
            before: left as usize,
            first: 0,
            last: height - 1,
            quads: height.div_ceil(QUAD),
        };
        let (width, lanes) = (view.extent().width as usize, self.across.lanes());
        if lanes == width && height.is_multiple_of(QUAD) {
            return self.across.pass(&rows, Out::Rows, view.values_mut());
        }
        let made_len = rows.quads * QUAD * lanes;
        let made = self.made.first(3 * made_len);
        self.across.pass(&rows, Out::Rows, made);
        for (plane, made) in view.planes_mut().into_iter().zip(made.chunks_exact(made_len)) {
            for (to, from) in plane.chunks_exact_mut(width).zip(made.chunks_exact(lanes)) {
                to.copy_from_slice(&from[..width]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use headwater_core::SampleId;
    use headwater_core::draw::{CropBox, DrawKey, DrawRng, Extent, Origin};
    use headwater_core::recipe::ResizePasses;

    use super::*;
    use crate::ops::resize::Taps;
    use crate::simd::Simd;

    fn axis(rng: &mut DrawRng) -> Axis {
        let mut from_range =
            |low: u32, high: u32| low + rng.below(u64::from(high - low) + 1) as u32;
        let (first, len, reduction) =
            (from_range(0, 50), from_range(1, 600), 1 << from_range(0, 3));
        let to = from_range(1, 300);
        let start = from_range(0, to - 1);
        let count = from_range(1, to - start);
        let geometry = Geometry {
            crop: CropBox { left: first, top: 0, width: len, height: 1 },
            resized: Extent { width: to, height: 1 },
            window: Origin { left: start, top: 0 },
            view: Extent { width: count, height: 1 },
            passes: ResizePasses::HorizontalFirst,
            filter: if rng.gate(0.5) { Filter::Bilinear } else { Filter::Bicubic },
        };
        geometry.across(reduction)
    }

    #[test]
    fn weights_are_those_of_the_definition_to_the_last_bit() {
        let avx512 = Simd::available().iter().any(|simd| simd.name() == "avx512vbmi");
        if !avx512 {
            return eprintln!("no twin of this processor to compare");
        }
        let mut rng = DrawKey { seed: 1, epoch: 0, pass: 0, sample: SampleId(0), stream: 0 }.rng();
        let (mut scratch, mut taps, mut narrow) = (Scratch::default(), Taps::default(), 0);
        for _ in 0..2000 {
            let (axis, mirrored) = (axis(&mut rng), rng.gate(0.5));
            let start = axis.reach().0;
            taps.compute(&axis);
            // SAFETY: this processor has the sets, as its name for them says.
            let is_narrow = unsafe {
                scratch.down.compute(&axis, start, &mut scratch.weights);
                scratch.across.compute(&axis, mirrored, &mut scratch.weights)
            };
            narrow += u32::from(is_narrow);
            for position in 0..taps.len() {
                let (first, weights) = taps.at(position);
                let expected =
                    |tap: usize| weights.get(tap.wrapping_sub(first)).copied().unwrap_or(0);
                let found = scratch.down.weights(position, start as usize);
                assert!(found.clone().any(|(at, _)| at == first), "{axis:?}");
                for (at, weight) in found {
                    assert_eq!(weight, expected(at), "{at} of {position} of {axis:?}");
                }
                let output = if mirrored { taps.len() - 1 - position } else { position };
                if is_narrow {
                    let found: Vec<_> = scratch.across.weights(output).collect();
                    assert_eq!(found[0].0, first, "{axis:?}");
                    assert!(found.len() >= weights.len(), "{axis:?}");
                    for (at, weight) in found {
                        assert_eq!(weight, expected(at), "{at} of {position} of {axis:?}");
                    }
                }
            }
        }
        assert!(narrow > 1000, "{narrow} axes for windows");
    }
}
