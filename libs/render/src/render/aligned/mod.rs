//! Levels of a second image, cut as a view of the first one is.

mod nearest;
mod smooth;

use headwater_core::draw::{Extent, ViewParams};
use headwater_core::op::Motion;
use headwater_core::recipe::ResizePasses;
use headwater_pixels::image::{reverse_columns, reverse_rows};
use headwater_pixels::ops::warp::{self, Map};

use crate::decode::Levels;

/// How a view of levels is cut.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cut<'a> {
    /// What was drawn for the view of the image.
    pub(crate) params: &'a ViewParams,
    /// Size to which the whole box is resized: the image's, or another one where the view is all of it.
    pub resized: Extent,
    /// Size of the view.
    pub(crate) view: Extent,
    /// Which pass of a bilinear resize comes first.
    pub(crate) passes: ResizePasses,
}

/// Cuts one view after the other, in memory that it keeps.
#[derive(Debug, Default)]
pub(crate) struct Cutter {
    levels: Vec<u16>,
    spare: Vec<u16>,
    smooth: smooth::Scratch,
    warp: warp::Scratch,
}

// === impl Cut ===

impl<'a> Cut<'a> {
    /// A view of size `view` that follows one of size `like`.
    #[must_use]
    pub(crate) fn new(
        params: &'a ViewParams,
        like: Extent,
        view: Extent,
        passes: ResizePasses,
    ) -> Self {
        let resized = if view == like { params.resized } else { view };
        Self { params, resized, view, passes }
    }
}

// === impl Cutter ===

impl Cutter {
    /// The view by the nearest pixel: torchvision v2's `resize` of a `Mask`, and for what moves pixels then,
    /// Pillow's `transform`. `fill` is the level outside.
    pub(crate) fn nearest(&mut self, levels: &Levels, cut: &Cut<'_>, fill: u16) -> &[u16] {
        let Self { levels: view, spare, warp: scratch, .. } = self;
        nearest::cut(levels, cut, fill, view);
        let width = cut.view.width as usize;
        for op in &cut.params.ops {
            let map = match op.motion() {
                Motion::Stays => continue,
                Motion::MirrorAcross => {
                    reverse_columns(view, width);
                    continue;
                }
                Motion::MirrorDown => {
                    reverse_rows(view, width);
                    continue;
                }
                Motion::Affine(matrix) => Map::Affine(matrix),
                Motion::Perspective(coefficients) => Map::Perspective(coefficients),
            };
            spare.resize(view.len(), 0);
            warp::nearest(view, cut.view, &map, fill, spare, scratch);
            std::mem::swap(view, spare);
        }
        view
    }

    /// The view by a triangle over the pixels that are covered: Pillow's `resize` of an image of mode `F`. Only flips
    /// come after it.
    pub(crate) fn smooth(&mut self, levels: &Levels, cut: &Cut<'_>, fill: u16) -> &[f32] {
        let Self { levels: padded, smooth, .. } = self;
        if cut.params.padding.is_some() {
            // Nothing is resized there.
            nearest::cut(levels, cut, fill, padded);
            smooth.take(padded);
        } else {
            smooth.resize(levels, cut);
        }
        for op in &cut.params.ops {
            match op.motion() {
                Motion::MirrorAcross => smooth.mirror(cut.view.width as usize),
                Motion::MirrorDown => smooth.mirror_down(cut.view.width as usize),
                // Recipes with warps have no such levels.
                Motion::Stays | Motion::Affine(_) | Motion::Perspective(_) => {}
            }
        }
        smooth.view()
    }
}
