//! The CUDA twins of the operations, beside each of them, as one text.

/// In order. No file includes another: this is the list.
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
    include_str!("ops/blur/kernel.cu"),
    include_str!("ops/amax/kernel.cu"),
    include_str!("ops/cast/kernel.cu"),
    include_str!("ops/cast/mx/kernel.cu"),
);
