//! Contrast: a blend with the mean luma.

pub mod plain;
