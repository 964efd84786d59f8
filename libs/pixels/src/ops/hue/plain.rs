//! The definition: torchvision's `adjust_hue` on a Pillow image: to uint8 HSV, the hue shifted
//! modulo 256, back to RGB. The way there and back loses a little even for a shift of 0.
//!
//! Source: Pillow `Convert.c`, `rgb2hsv_row` and `hsv2rgb`; binary32 and binary64 are mixed as
//! they are there.

use crate::image::Planes;

/// Shifts the hue by `turns` of the colour wheel.
#[inline(always)]
pub fn apply(view: &mut Planes, turns: f32) {
    shift_hue(view.planes_mut(), shift_of(turns));
}

#[inline(always)]
pub(super) fn shift_hue([red, green, blue]: [&mut [u8]; 3], shift: u8) {
    for ((r, g), b) in red.iter_mut().zip(green).zip(blue) {
        let [hue, saturation, value] = rgb_to_hsv([*r, *g, *b]);
        [*r, *g, *b] = hsv_to_rgb([hue.wrapping_add(shift), saturation, value]);
    }
}

/// The shift in 1/256 of the wheel: `255 * turns` truncated, modulo 256.
#[must_use]
pub fn shift_of(turns: f32) -> u8 {
    (f64::from(turns) * 255.0) as i32 as u8
}

/// Pillow's uint8 HSV of a pixel.
#[must_use]
#[inline(always)]
pub fn rgb_to_hsv([red, green, blue]: [u8; 3]) -> [u8; 3] {
    let max = red.max(green).max(blue);
    let min = red.min(green).min(blue);
    if min == max {
        return [0, 0, max];
    }
    let range = f32::from(max - min);
    let saturation = range / f32::from(max);
    let from_max = |channel: u8| f32::from(max - channel) / range;
    let (rc, gc, bc) = (from_max(red), from_max(green), from_max(blue));
    let sixths = if red == max {
        bc - gc
    } else if green == max {
        (2.0 + f64::from(rc) - f64::from(bc)) as f32
    } else {
        (4.0 + f64::from(gc) - f64::from(rc)) as f32
    };
    let hue = ((f64::from(sixths) / 6.0 + 1.0) % 1.0) as f32;
    [(f64::from(hue) * 255.0) as u8, (f64::from(saturation) * 255.0) as u8, max]
}

/// Pillow's RGB of a uint8 HSV pixel.
#[must_use]
#[inline(always)]
pub fn hsv_to_rgb([hue, saturation, value]: [u8; 3]) -> [u8; 3] {
    if saturation == 0 {
        return [value; 3];
    }
    let sixths = f64::from(f32::from(hue)) * 6.0 / 255.0;
    let sector = sixths.floor() as u8;
    let rest = (sixths - f64::from(f32::from(sector))) as f32;
    let share = (f64::from(saturation) / 255.0) as f32;
    let level = |darker: f64| (f64::from(value) * darker).round() as u8;
    let p = level(1.0 - f64::from(share));
    let q = level(1.0 - f64::from(share * rest));
    let t = level(1.0 - f64::from(share) * (1.0 - f64::from(rest)));
    match sector % 6 {
        0 => [value, t, p],
        1 => [q, value, p],
        2 => [p, value, t],
        3 => [p, q, value],
        4 => [t, p, value],
        _ => [value, p, q],
    }
}
