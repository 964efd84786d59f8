//! The definition: torchvision's `v2.GaussianNoise` with `clip`, on levels: noise is cut to whole levels
//! towards 0. It has no twin: the numbers take the time.

use headwater_core::draw::Normals;

use crate::image::Planes;

/// Adds noise of a mean and a standard deviation, as shares of 255, plane by plane and row by row.
pub fn apply(view: &mut Planes, mean: f64, sigma: f64, seed: [u64; 2]) {
    let (mean, sigma) = ((mean * 255.0) as f32, (sigma * 255.0) as f32);
    for (level, normal) in view.values_mut().iter_mut().zip(Normals::new(seed)) {
        let noise = (mean + normal * sigma) as i16;
        *level = (i16::from(*level).saturating_add(noise)).clamp(0, 255) as u8;
    }
}
