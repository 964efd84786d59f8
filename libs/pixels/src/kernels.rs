//! The CUDA twins of the operations, beside each of them, as one text; and the operations as kernels read them.

/// The text of each, in order. No file includes another: this is the list.
pub const TEXT: &str = concat!(
    include_str!("ops/resize/kernel.cu"),
    include_str!("ops/luma/kernel.cu"),
    include_str!("ops/blend/kernel.cu"),
    include_str!("ops/brightness/kernel.cu"),
    include_str!("ops/contrast/kernel.cu"),
    include_str!("ops/saturation/kernel.cu"),
    include_str!("ops/hue/kernel.cu"),
    include_str!("ops/grayscale/kernel.cu"),
    include_str!("ops/solarize/kernel.cu"),
    include_str!("ops/flip/kernel.cu"),
    include_str!("ops/vertical_flip/kernel.cu"),
    include_str!("ops/blur/kernel.cu"),
    include_str!("ops/amax/kernel.cu"),
    include_str!("ops/cast/kernel.cu"),
    include_str!("ops/cast/mx/kernel.cu"),
);

/// An operation with its values, as kernels read it: `struct Op`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct KernelOp {
    /// Its number in the table.
    pub kind: u32,
    /// What it has of whole numbers.
    pub level: u32,
    /// What it has of others.
    pub values: [f32; 6],
}

// A `pixel` is changed by itself; one with `mean` needs the mean of all lumas of the view before; a `view` is made anew,
// from pixels anywhere in it. In the calls: `pixel`, `op`, `mean`; `from`, `to`, `width`, `height`.
kernels! {
    FLIP = 0: view "flip(from, to, width, height)",
    BRIGHTNESS = 1: pixel "brighten(pixel, op.values[0])",
    CONTRAST = 2: mean "spread_about(pixel, mean, op.values[0])",
    SATURATION = 3: pixel "saturate_colours(pixel, op.values[0])",
    HUE = 4: pixel "shift_hue(pixel, op.level)",
    GRAYSCALE = 5: pixel "grayscale(pixel)",
    BLUR = 6: view "blur(from, to, width, height, op.values)",
    SOLARIZE = 7: pixel "solarize(pixel, op.level)",
    VERTICAL_FLIP = 8: view "flip_down(from, to, width, height)",
}

// === impl KernelOp ===

impl KernelOp {
    /// One with no values.
    #[must_use]
    pub(crate) fn plain(kind: u32) -> Self {
        Self { kind, ..Self::default() }
    }

    /// One with a whole number.
    #[must_use]
    pub(crate) fn level(kind: u32, level: u32) -> Self {
        Self { kind, level, ..Self::default() }
    }

    /// One with a factor.
    #[must_use]
    pub(crate) fn factor(kind: u32, factor: f32) -> Self {
        Self { kind, values: [factor, 0.0, 0.0, 0.0, 0.0, 0.0], ..Self::default() }
    }
}
