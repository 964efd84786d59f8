//! The nearest pixel as torchvision v2 finds it for a `Mask`: PyTorch's `interpolate(mode="nearest")`.
//!
//! Source: `nearest_idx` in ATen's `native/UpSample.h`. Its step is a binary32, so the places differ from Pillow's `NEAREST`, which
//! images are resized by.

use headwater_core::draw::{Extent, Padding};

use super::Cut;
use crate::decode::Levels;

/// Cuts a view out of `levels` into `view`, without what is done after the cut.
pub(super) fn cut(levels: &Levels, cut: &Cut<'_>, fill: u16, view: &mut Vec<u16>) {
    let Extent { width, .. } = levels.extent();
    let (columns, rows) = places(cut, levels.extent());
    view.clear();
    view.reserve(columns.len() * rows.len());
    for row in rows {
        let Some(row) = row else {
            view.resize(view.len() + columns.len(), fill);
            continue;
        };
        let line = &levels.values()[row * width as usize..][..width as usize];
        view.extend(columns.iter().map(|column| column.map_or(fill, |column| line[column])));
    }
}

/// The column of the image that each column of the view shows, and the rows; none where it is the fill.
fn places(cut: &Cut<'_>, image: Extent) -> (Vec<Option<usize>>, Vec<Option<usize>>) {
    let Cut { params, resized, view, .. } = *cut;
    if let Some(Padding { left, top, mode, .. }) = params.padding {
        let along = |start: i32, count: u32, side: u32| {
            let source = |at: u32| mode.source(start + at as i32, side).map(|at| at as usize);
            (0..count).map(source).collect()
        };
        return (along(left, view.width, image.width), along(top, view.height, image.height));
    }
    let along = |first: u32, from: u32, to: u32, start: u32, count: u32| {
        let source = |at: u32| Some((first + nearest(at, from, to)) as usize);
        (start..start + count).map(source).collect()
    };
    let (crop, window) = (params.crop, params.window);
    (
        along(crop.left, crop.width, resized.width, window.left, view.width),
        along(crop.top, crop.height, resized.height, window.top, view.height),
    )
}

/// The position among `from` that is nearest to position `at` among `to`.
fn nearest(at: u32, from: u32, to: u32) -> u32 {
    if from == to {
        return at;
    }
    let step = from as f32 / to as f32;
    // Truncated: it is not negative.
    ((at as f32 * step) as u32).min(from - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `torch.nn.functional.interpolate(torch.arange(from).float()[None, None], size=to)`, by PyTorch 2.15.0.
    #[test]
    fn places_are_those_of_pytorch() {
        let places = |from, to| (0..to).map(|at| nearest(at, from, to)).collect::<Vec<_>>();
        assert_eq!(places(5, 3), [0, 1, 3]);
        assert_eq!(places(3, 5), [0, 0, 1, 1, 2]);
        assert_eq!(places(4, 8), [0, 0, 1, 1, 2, 2, 3, 3]);
        assert_eq!(places(7, 7), [0, 1, 2, 3, 4, 5, 6]);
        assert_eq!(places(1, 3), [0, 0, 0]);
    }
}
