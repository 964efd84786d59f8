//! What a policy has chosen for a view, without memory of the heap: views are drawn for each sample.

use std::ops::Deref;

use serde::{Deserialize, Serialize};

/// An operation that a policy chose, as the policy's own code names it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Layer {
    /// The operation.
    pub augment: Augment,
    /// Its argument, in the units of that code; 0 if it has none.
    pub value: f64,
    /// timm's magnitude from which the value follows, from 0 to 10; 0 in torchvision's policies.
    pub level: f64,
}

/// Operations that policies choose among.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the names say it")]
pub enum Augment {
    Identity,
    ShearX,
    ShearY,
    TranslateX,
    TranslateY,
    Rotate,
    Brightness,
    Color,
    Contrast,
    Sharpness,
    Posterize,
    Solarize,
    SolarizeAdd,
    AutoContrast,
    Equalize,
    Invert,
}

/// The operations of one view, in order. A slice of at most [`Layers::MAX`].
#[derive(Clone, Debug, PartialEq)]
pub struct Layers {
    layers: [Layer; Self::MAX],
    len: usize,
}

// === impl Layers ===

impl Layers {
    /// Most operations that a policy chooses for a view: the greatest `num_ops`.
    pub const MAX: usize = 16;
}

impl FromIterator<Layer> for Layers {
    /// # Panics
    /// There are more than [`Layers::MAX`].
    fn from_iter<I: IntoIterator<Item = Layer>>(chosen: I) -> Self {
        let nothing = Layer { augment: Augment::Identity, value: 0.0, level: 0.0 };
        let mut layers = Self { layers: [nothing; Self::MAX], len: 0 };
        for layer in chosen {
            layers.layers[layers.len] = layer;
            layers.len += 1;
        }
        layers
    }
}

impl Deref for Layers {
    type Target = [Layer];

    fn deref(&self) -> &[Layer] {
        &self.layers[..self.len]
    }
}
