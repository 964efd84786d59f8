//! Hue shift.

pub mod plain;
