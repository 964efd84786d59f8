//! Sequences of patches as the pictures that they were cut from.

use headwater_core::recipe::SequencesSpec;
use headwater_core::{Dtype, Recipe, TensorLayout};

use super::{PAPER, Pictured, Scale};

/// Longest side of a picture. What lies beyond is not drawn.
const SIDE_MAX: usize = 2048;

/// The views of the first `samples` samples of a tensor of sequences as those of an image tensor, all as large as the largest
/// one; paper where a view has no patch. `None`: no view has one.
pub(super) fn picture<P: Pictured>(
    batch: &P,
    recipe: &Recipe,
    spec: &SequencesSpec,
    tensor: &TensorLayout,
    samples: usize,
) -> Result<Option<(TensorLayout, Vec<u8>)>, P::Error> {
    let of = |name: &str| batch.layout().tensors().iter().find(|tensor| tensor.name == name);
    let (Some(coords), Some(valid)) = (of(&spec.coord_name()), of(&spec.valid_name())) else {
        return Ok(None);
    };
    let (bytes, coords, valid) =
        (batch.tensor_bytes(tensor)?, batch.tensor_bytes(coords)?, batch.tensor_bytes(valid)?);
    let side = spec.patch_size as usize;
    let length = tensor.row_shape[0] as usize;
    let places: Vec<[usize; 2]> = coords
        .as_chunks::<16>()
        .0
        .iter()
        .map(|place| {
            let (down, across) = place.split_at(8);
            [down, across]
                .map(|at| at.iter().rev().fold(0, |sum, &byte| sum << 8 | usize::from(byte)))
        })
        .collect();
    let batch_samples = batch.layout().samples() as usize;
    let drawn = |&(at, place): &(usize, &[usize; 2])| {
        at / length % batch_samples < samples
            && valid[at] != 0
            && place.iter().all(|&number| number < SIDE_MAX / side)
    };
    let patches: Vec<(usize, &[usize; 2])> = places.iter().enumerate().filter(drawn).collect();
    let most = |axis: usize| patches.iter().map(|(_, place)| place[axis] + 1).max();
    let (Some(down), Some(across)) = (most(0), most(1)) else { return Ok(None) };
    let (height, width) = (down * side, across * side);
    let scale = Scale::of(recipe, batch.fp8_scale_inv(tensor));
    let element = tensor.dtype.size_bytes() as usize;
    let patch = side * side * 3 * element;
    let mut pixels = vec![PAPER; tensor.views as usize * samples * 3 * height * width];
    for (at, &[down, across]) in patches {
        let (view, sample) = (at / length / batch_samples, at / length % batch_samples);
        let row = (view * samples + sample) * 3 * height * width;
        let row = &mut pixels[row..][..3 * height * width];
        // A patch lies by rows, columns and channels.
        for (number, value) in bytes[at * patch..][..patch].chunks_exact(element).enumerate() {
            let (pixel, channel) = (number / 3, number % 3);
            let (y, x) = (down * side + pixel / side, across * side + pixel % side);
            row[(channel * height + y) * width + x] = scale.grey(tensor.dtype, channel, value);
        }
    }
    let row_shape = vec![3, height as u32, width as u32];
    let row_bytes = (3 * height * width) as u64;
    let layout = TensorLayout { dtype: Dtype::U8, row_shape, row_bytes, ..tensor.clone() };
    Ok(Some((layout, pixels)))
}
