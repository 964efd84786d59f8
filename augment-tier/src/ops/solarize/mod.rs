//! Solarise: bright values are inverted.

pub mod plain;
