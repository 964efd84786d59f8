//! A view as a sequence of patches: timm's `patchify_image` with channels last, and its collate function.

use headwater_core::Recipe;
use headwater_core::draw::Extent;
use headwater_core::op::DrawnOp;
use headwater_core::recipe::SequencesSpec;
use headwater_pixels::image::Planes;

use super::caster::Caster;
use super::{PatchPart, ViewSink, check_row};
use crate::error::RenderError;

/// Writes a view, whose sides are whole patches, to its rows of the three tensors. `planar` is memory that is kept.
///
/// # Errors
/// A row of the sink does not have its length.
pub(super) fn write(
    (caster, planar): (&mut Caster, &mut Vec<u8>),
    recipe: &Recipe,
    spec: &SequencesSpec,
    (tensor, view): (usize, usize),
    (planes, ops): (&Planes, &[DrawnOp]),
    out: &mut dyn ViewSink,
) -> Result<(), RenderError> {
    let image = &recipe.tensors[tensor];
    let (side, length) = (spec.patch_size as usize, spec.lengths[0] as usize);
    let element = image.dtype.size_bytes() as usize;
    let Extent { width, height } = planes.extent();
    let [width, height] = [width as usize, height as usize];
    let (down, across) = (height / side, width / side);
    let scale = out.fp8_scale(tensor).unwrap_or_else(|| recipe.fp8_scale());
    planar.resize(3 * width * height * element, 0);
    caster.write(recipe, image, scale, (planes, ops), planar);
    let patch_bytes = 3 * side * side * element;
    let row = out.row(tensor, view);
    check_row(tensor, view, length * patch_bytes, row.len())?;
    let (shown, rest) = row.split_at_mut(down * across * patch_bytes);
    match element {
        1 => interleave::<1>(planar, shown, [width, side]),
        2 => interleave::<2>(planar, shown, [width, side]),
        _ => interleave::<4>(planar, shown, [width, side]),
    }
    rest.fill(0);
    if image.dtype == headwater_core::Dtype::Fp8E4m3 {
        out.fp8_amax(tensor, caster.amax(recipe, planes));
    }
    let coord = out.patches(tensor, PatchPart::Coord, view);
    check_row(tensor, view, 16 * length, coord.len())?;
    let (shown, rest) = coord.split_at_mut(16 * down * across);
    let places = (0..down as i64).flat_map(|y| (0..across as i64).map(move |x| [y, x]));
    for (to, place) in shown.as_chunks_mut::<8>().0.iter_mut().zip(places.flatten()) {
        *to = place.to_le_bytes();
    }
    rest.fill(0);
    let valid = out.patches(tensor, PatchPart::Valid, view);
    check_row(tensor, view, length, valid.len())?;
    let (shown, rest) = valid.split_at_mut(down * across);
    shown.fill(1);
    rest.fill(0);
    Ok(())
}

/// Elements of `N` bytes from three planes with rows of `width` to patches of `side` rows, each pixel's channels together.
fn interleave<const N: usize>(planar: &[u8], patches: &mut [u8], [width, side]: [usize; 2]) {
    let (planar, patches) = (planar.as_chunks::<N>().0, patches.as_chunks_mut::<N>().0);
    let plane = planar.len() / 3;
    let [red, green, blue] = [0, 1, 2].map(|channel| &planar[channel * plane..][..plane]);
    let across = width / side;
    for (number, patch) in patches.chunks_exact_mut(3 * side * side).enumerate() {
        let (top, left) = (number / across * side, number % across * side);
        for (row, to) in patch.chunks_exact_mut(3 * side).enumerate() {
            let begin = (top + row) * width + left;
            let [red, green, blue] = [red, green, blue].map(|plane| &plane[begin..begin + side]);
            for (pixel, ((red, green), blue)) in
                to.as_chunks_mut::<3>().0.iter_mut().zip(red.iter().zip(green).zip(blue))
            {
                *pixel = [*red, *green, *blue];
            }
        }
    }
}
