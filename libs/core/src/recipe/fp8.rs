//! The static scale of an FP8 tensor.

use crate::Recipe;

/// Largest finite value of E4M3.
pub const FP8_E4M3_MAX: f32 = 448.0;

// === impl Recipe ===

impl Recipe {
    /// The factor by which normalised values are multiplied before they are rounded to E4M3:
    /// 448 over the largest magnitude that a channel can have after normalisation. A receiver
    /// multiplies by the inverse, [`Recipe::fp8_scale_inv`].
    #[must_use]
    pub fn fp8_scale(&self) -> f32 {
        let bound = |(&mean, &std): (&f32, &f32)| mean.abs().max((1.0 - mean).abs()) / std;
        let amax = self.mean.iter().zip(&self.std).map(bound).fold(0.0, f32::max);
        if amax > 0.0 && amax.is_finite() { FP8_E4M3_MAX / amax } else { 1.0 }
    }

    /// 1 / [`Recipe::fp8_scale`], as it travels with a batch.
    #[must_use]
    pub fn fp8_scale_inv(&self) -> f32 {
        1.0 / self.fp8_scale()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Dtype;

    #[test]
    fn the_fp8_scale_of_imagenet_follows_from_blue_at_255() {
        let recipe = Recipe::preset("dinov2", Dtype::Fp8E4m3).expect("a preset");
        let amax = (1.0 - 0.406) / 0.225;
        assert!((recipe.fp8_scale() * amax - 448.0).abs() < 1e-3);
    }
}
