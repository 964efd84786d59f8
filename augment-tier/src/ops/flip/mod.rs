//! Horizontal flip.

pub mod plain;
