//! The largest magnitude of a view after it is normalised (amax), from which scales follow.

pub mod plain;

use crate::image::Planes;
use crate::ops::cast::Normalise;
use crate::simd::{Simd, twin};

/// The largest magnitude of the view's normalised values.
///
/// A channel's values rise with its levels, so that only the least and the greatest level of each
/// need be looked at.
#[must_use]
pub fn of_view(simd: Simd, view: &Planes, normalise: &Normalise) -> f32 {
    if simd == Simd::Plain {
        return plain::of_view(view, normalise);
    }
    let range = |plane: &[u8]| {
        let mut range = [u8::MAX, u8::MIN];
        widen(simd, plane, &mut range);
        range
    };
    of_ranges(&view.planes().map(range), normalise)
}

/// The largest magnitude of normalised values, where least and greatest level of each channel are
/// known.
#[must_use]
pub fn of_ranges(ranges: &[[u8; 2]; 3], normalise: &Normalise) -> f32 {
    let levels = ranges.iter().enumerate().flat_map(|(channel, range)| range.map(|l| (channel, l)));
    levels.map(|(channel, level)| normalise.value(channel, level).abs()).fold(0.0, f32::max)
}

twin! {
    fn widen(plane: &[u8], range: &mut [u8; 2]) = widen_all;
}

/// Widens `range`, least and greatest level, to hold all levels of the plane.
#[inline(always)]
fn widen_all(plane: &[u8], range: &mut [u8; 2]) {
    let [mut least, mut greatest] = *range;
    for &level in plane {
        least = least.min(level);
        greatest = greatest.max(level);
    }
    *range = [least, greatest];
}
