//! Grayscale with three equal channels.

pub mod plain;
