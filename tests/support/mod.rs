//! What tests across tiers share: real processes of the program, and where the photographs are.
#![allow(dead_code, missing_docs, unreachable_pub)]

pub mod faulty_files;
pub mod fleet;
pub mod network;
pub mod proxy;
pub mod trainer;

use std::path::PathBuf;
use std::time::SystemTime;

/// A file or folder under tests/data.
pub fn data(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

/// Milliseconds since 1970.
pub fn unix_ms() -> u64 {
    SystemTime::UNIX_EPOCH.elapsed().expect("a clock").as_millis() as u64
}

/// A number in the environment.
pub fn variable(name: &str, default: u64) -> u64 {
    match std::env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name} is `{text}`: give a number")),
        Err(_) => default,
    }
}
