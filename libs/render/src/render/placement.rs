//! Where the views of a sample lie in its image.

use headwater_core::Recipe;
use headwater_core::draw::{Extent, Origin, SampleParams, ViewParams};
use headwater_core::op::Motion;

use super::{GeometryPart, ViewSink, check_row};
use crate::error::RenderError;

/// A view's place. Places are counted from the top left corner of the top left pixel.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Placement {
    /// A place (x, y) of the view shows the place (m0 x + m1 y + m2, m3 x + m4 y + m5) of the image.
    to_image: [f64; 6],
    /// Left, top, right and bottom of what the view shows, in pixels of the image.
    corners: [f64; 4],
    /// Whether left and right, and top and bottom, are exchanged.
    flips: [bool; 2],
}

/// A mirrored, scaled and shifted axis: `at * scale + shift`.
#[derive(Clone, Copy)]
struct Axis {
    scale: f64,
    shift: f64,
}

// === impl Placement ===

impl Placement {
    /// The place of a view of size `extent`. The recipe must have been validated: it has views that move pixels along
    /// the axes only.
    fn of(drawn: &SampleParams, view: &ViewParams, bases: &[Extent], extent: Extent) -> Self {
        let mut axes = [Axis { scale: 1.0, shift: 0.0 }; 2];
        let mut flips = [false; 2];
        follow(view, extent, &mut axes, &mut flips);
        if let Some(base) = view.base {
            follow(&drawn.bases()[base], bases[base], &mut axes, &mut flips);
        }
        let sides = [f64::from(extent.width), f64::from(extent.height)];
        let ends = [0, 1].map(|axis| [0.0, sides[axis]].map(|at| axes[axis].at(at)));
        let [[left, right], [top, bottom]] = ends.map(|[a, b]| [a.min(b), a.max(b)]);
        let [across, down] = axes;
        Self {
            to_image: [across.scale, 0.0, across.shift, 0.0, down.scale, down.shift],
            corners: [left, top, right, bottom],
            flips,
        }
    }
}

// === impl Axis ===

impl Axis {
    fn at(self, place: f64) -> f64 {
        place * self.scale + self.shift
    }

    fn then(self, scale: f64, shift: f64) -> Self {
        Self { scale: self.scale * scale, shift: self.shift * scale + shift }
    }
}

/// From places of a view of size `extent` to those of what it was cut out of.
fn follow(view: &ViewParams, extent: Extent, axes: &mut [Axis; 2], flips: &mut [bool; 2]) {
    let sides = |extent: Extent| [f64::from(extent.width), f64::from(extent.height)];
    let places = |origin: Origin| [f64::from(origin.left), f64::from(origin.top)];
    let shift = |axes: &mut [Axis; 2], by: [f64; 2]| {
        axes.iter_mut().zip(by).for_each(|(axis, by)| *axis = axis.then(1.0, by));
    };
    // Operations are done to all of the resized box where the view is cut out of that afterwards.
    let painted = sides(if view.cut.is_some() { view.resized } else { extent });
    if let Some(cut) = view.cut {
        shift(axes, places(cut));
    }
    for op in view.ops.iter().rev() {
        let axis = match op.motion() {
            Motion::MirrorAcross => 0,
            Motion::MirrorDown => 1,
            // Recipes with warps have no tensors of geometry.
            Motion::Stays | Motion::Affine(_) | Motion::Perspective(_) => continue,
        };
        axes[axis] = axes[axis].then(-1.0, painted[axis]);
        flips[axis] = !flips[axis];
    }
    shift(axes, places(view.window));
    if let Some(padding) = view.padding {
        shift(axes, [f64::from(padding.left), f64::from(padding.top)]);
        return;
    }
    let (from, to) = (sides(view.resized), sides(view.crop.extent()));
    let origin = [f64::from(view.crop.left), f64::from(view.crop.top)];
    for axis in 0..2 {
        axes[axis] = axes[axis].then(to[axis] / from[axis], origin[axis]);
    }
}

/// Writes the recipe's tensors of geometry for a sample whose image has size `image`.
///
/// # Errors
/// A row of the sink does not have its length.
pub(super) fn write(
    recipe: &Recipe,
    drawn: &SampleParams,
    image: Extent,
    out: &mut dyn ViewSink,
) -> Result<(), RenderError> {
    let bases: Vec<Extent> = recipe.bases.iter().map(|base| base.extent()).collect();
    for (number, spec) in recipe.geometry.iter().enumerate() {
        let extent = recipe.extent_of(&spec.like);
        let views = &drawn.views()[recipe.views_of(&spec.like)];
        let mut write = |part: GeometryPart, view: usize, bytes: &[u8]| {
            let row = out.geometry(number, part, view);
            check_row(number, view, bytes.len(), row.len())?;
            row.copy_from_slice(bytes);
            Ok::<(), RenderError>(())
        };
        let floats = |values: &[f64]| -> Vec<u8> {
            values.iter().flat_map(|&value| (value as f32).to_le_bytes()).collect()
        };
        for (view, params) in views.iter().enumerate() {
            let placement = Placement::of(drawn, params, &bases, extent);
            write(GeometryPart::ToImage, view, &floats(&placement.to_image))?;
            write(GeometryPart::Box, view, &floats(&placement.corners))?;
            write(GeometryPart::Flip, view, &placement.flips.map(u8::from))?;
        }
        let size = [image.height, image.width].map(|side| i64::from(side).to_le_bytes());
        write(GeometryPart::Size, 0, size.as_flattened())?;
    }
    Ok(())
}
