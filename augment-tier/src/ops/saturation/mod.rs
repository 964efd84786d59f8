//! Saturation: a blend with the luma of each pixel.

pub mod plain;
