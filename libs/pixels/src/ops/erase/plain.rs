//! The definition: what torchvision's and timm's `RandomErasing` write into a normalised tensor.

use headwater_core::cast::Normalise;
use headwater_core::draw::{CropBox, Extent, Normals};
use headwater_core::op::EraseWith;
use headwater_core::{Dtype, cast};

/// Erases one box.
pub(super) fn erase(
    area: CropBox,
    with: EraseWith,
    dtype: Dtype,
    normalise: &Normalise,
    view: Extent,
    row: &mut [u8],
) {
    let (width, height) = (view.width as usize, view.height as usize);
    let bytes = row.len() / (3 * width * height);
    let mut normals = match with {
        EraseWith::Noise(seed) => Some(Normals::new(seed)),
        EraseWith::Zero | EraseWith::Color(_) => None,
    };
    for (channel, plane) in row.chunks_exact_mut(width * height * bytes).enumerate() {
        let flat = match with {
            EraseWith::Color(color) => color[channel],
            EraseWith::Zero | EraseWith::Noise(_) => 0.0,
        };
        let flat = element(normalise, channel, dtype, flat);
        for line in
            plane.chunks_exact_mut(width * bytes).skip(area.top as usize).take(area.height as usize)
        {
            let line = &mut line[area.left as usize * bytes..][..area.width as usize * bytes];
            for place in line.chunks_exact_mut(bytes) {
                let normal = normals.as_mut().and_then(Iterator::next);
                let element =
                    normal.map_or(flat, |normal| element(normalise, channel, dtype, normal));
                place.copy_from_slice(&element.to_le_bytes()[..bytes]);
            }
        }
    }
}

/// The bits of a normalised value; a tensor of levels has the level nearest to it.
fn element(normalise: &Normalise, channel: usize, dtype: Dtype, value: f32) -> u32 {
    match dtype {
        Dtype::U8 => u32::from(normalise.level(channel, value)),
        // 0 is 0 whatever the scale, and other values are refused in recipes of such types.
        Dtype::Fp8E4m3 | Dtype::Mxfp8E4m3 => 0,
        _ => cast::element(value, dtype, 1.0),
    }
}
