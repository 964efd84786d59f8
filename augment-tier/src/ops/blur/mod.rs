//! Gaussian blur, 9 x 9.

mod kernel;
pub mod plain;

pub use kernel::{Kernel, RADIUS, reflect};
