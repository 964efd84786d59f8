//! From levels to normalised values.

use crate::Recipe;

/// Mean and standard deviation of each channel.
///
/// Source: torchvision `to_tensor` (x / 255) and `normalize` ((x - mean) / std), in binary32.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Normalise {
    /// Mean of each channel, as a share of 255.
    pub mean: [f32; 3],
    /// Standard deviation of each channel, as a share of 255.
    pub std: [f32; 3],
}

// === impl Normalise ===

impl Normalise {
    /// That of a recipe.
    #[must_use]
    pub fn of(recipe: &Recipe) -> Self {
        Self { mean: recipe.mean, std: recipe.std }
    }

    /// What a level of a channel becomes.
    #[inline(always)]
    #[must_use]
    pub fn value(&self, channel: usize, level: u8) -> f32 {
        (f32::from(level) / 255.0 - self.mean[channel]) / self.std[channel]
    }

    /// The level that is nearest to a value of a channel.
    #[must_use]
    pub fn level(&self, channel: usize, value: f32) -> u8 {
        let share = value * self.std[channel] + self.mean[channel];
        // A cast stays within the type.
        (share * 255.0).round_ties_even() as u8
    }
}
