//! What tests across tiers share: real processes of the program, and where the photographs are.
#![allow(dead_code, missing_docs, unreachable_pub)]

pub mod fleet;
pub mod network;
pub mod trainer;

use std::path::PathBuf;

/// A file or folder under tests/data.
pub fn data(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}
