//! Palettes of GIF and BMP.

/// The colour of each index. As in Pillow, those that a palette does not have are black, but gray where all that it has
/// are the gray of their index.
pub(super) fn colours(given: impl Iterator<Item = [u8; 3]> + Clone) -> [[u8; 3]; 256] {
    let gray: [[u8; 3]; 256] = std::array::from_fn(|index| [index as u8; 3]);
    let is_gray = given.clone().zip(&gray).all(|(given, gray)| given == *gray);
    let mut colours = if is_gray { gray } else { [[0; 3]; 256] };
    for (colour, given) in colours.iter_mut().zip(given) {
        *colour = given;
    }
    colours
}
