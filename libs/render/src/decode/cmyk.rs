//! CMYK to RGB as Pillow does it (`Convert.c`, `cmyk2rgb`): no colour profile, one formula.

/// `cmyk`: as it is in the JPEG, which by Adobe's habit is inverted: 255 is no ink.
pub(super) fn rgb_of_inverted(&[cyan, magenta, yellow, light]: &[u8; 4]) -> [u8; 3] {
    [cyan, magenta, yellow].map(|ink| light.saturating_sub(product_over_255(255 - ink, light)))
}

/// a * b / 255, rounded (Pillow's `MULDIV255`).
fn product_over_255(a: u8, b: u8) -> u8 {
    let product = u32::from(a) * u32::from(b) + 128;
    (((product >> 8) + product) >> 8) as u8
}
