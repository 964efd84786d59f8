//! Brightness: a blend with black.

pub mod plain;
