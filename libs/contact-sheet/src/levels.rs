//! Pictures of tensors of one channel: colours for the numbers of a mask, greys for depth.

use headwater_core::{Dtype, TensorLayout};

/// Bits of a number that its colour follows from.
const BITS: u8 = 8;

/// Whether a tensor has one channel: levels, which are not normalised.
pub(crate) fn has_levels(tensor: &TensorLayout) -> bool {
    tensor.row_shape.first() == Some(&1)
}

/// The colours of the pixels of one view, in order. Levels that are whole numbers have the colours that PASCAL VOC has for
/// classes; others are grey, from the least of the view, black, to the greatest, white.
pub(crate) fn colours(dtype: Dtype, bytes: &[u8]) -> Vec<[u8; 3]> {
    match dtype {
        Dtype::I64 => {
            bytes.as_chunks::<8>().0.iter().map(|&b| class(i64::from_le_bytes(b))).collect()
        }
        Dtype::F32 => {
            let values = bytes.as_chunks::<4>().0.iter().map(|&bytes| f32::from_le_bytes(bytes));
            greys(&values.collect::<Vec<f32>>())
        }
        _ => bytes.iter().map(|&level| class(level.into())).collect(),
    }
}

/// PASCAL VOC's colour of a class: its lowest three bits are the highest bits of red, green and blue, and so on.
pub(crate) fn class(number: i64) -> [u8; 3] {
    let mut colour = [0; 3];
    for place in (0..BITS).step_by(3) {
        for (channel, level) in colour.iter_mut().enumerate() {
            let bit = (number >> (usize::from(place) + channel) & 1) as u8;
            *level |= bit << (BITS - 1 - place / 3);
        }
    }
    colour
}

fn greys(values: &[f32]) -> Vec<[u8; 3]> {
    let least = values.iter().copied().fold(f32::INFINITY, f32::min);
    let greatest = values.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let range = (greatest - least).max(f32::MIN_POSITIVE);
    // Saturating; what is not a number is black.
    values.iter().map(|value| [((value - least) / range * 255.0).round() as u8; 3]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The colours of `aeroplane`, `bicycle`, `person` and `void` in the devkit of VOC 2012.
    #[test]
    fn classes_have_the_colours_of_pascal_voc() {
        assert_eq!(class(0), [0, 0, 0]);
        assert_eq!(class(1), [128, 0, 0]);
        assert_eq!(class(2), [0, 128, 0]);
        assert_eq!(class(15), [192, 128, 128]);
        assert_eq!(class(255), [224, 224, 192]);
    }

    #[test]
    fn depth_is_grey_from_its_least_to_its_greatest_value() {
        let bytes: Vec<u8> = [2.0f32, 4.0, 3.0].iter().flat_map(|v| v.to_le_bytes()).collect();
        assert_eq!(colours(Dtype::F32, &bytes), [[0; 3], [255; 3], [128; 3]]);
        let flat: Vec<u8> = [7.0f32; 2].iter().flat_map(|v| v.to_le_bytes()).collect();
        assert_eq!(colours(Dtype::F32, &flat), [[0; 3]; 2]);
    }
}
