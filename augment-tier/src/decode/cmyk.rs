//! CMYK to RGB as Pillow does it (`Convert.c`, `cmyk2rgb`): no colour profile, one formula.

/// `cmyk`: four bytes a pixel as they are in the JPEG, which by Adobe's habit are inverted:
/// 255 is no ink. `rgb`: three bytes a pixel.
pub(super) fn inverted_cmyk_to_rgb(cmyk: &[u8], rgb: &mut [u8]) {
    for (from, to) in cmyk.chunks_exact(4).zip(rgb.chunks_exact_mut(3)) {
        let light = from[3];
        for channel in 0..3 {
            let ink = 255 - from[channel];
            to[channel] = light.saturating_sub(product_over_255(ink, light));
        }
    }
}

/// a * b / 255, rounded (Pillow's `MULDIV255`).
fn product_over_255(a: u8, b: u8) -> u8 {
    let product = u32::from(a) * u32::from(b) + 128;
    (((product >> 8) + product) >> 8) as u8
}
