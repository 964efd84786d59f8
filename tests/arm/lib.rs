//! Images and operations of the augment tier without the rest of it, whose libraries
//! in C would have to be built for each processor too. Deliberately absent: any code.
#![deny(unsafe_code)]

#[path = "../../augment-tier/src/image.rs"]
pub mod image;
#[path = "../../augment-tier/src/ops/mod.rs"]
pub mod ops;
pub use headwater_simd as simd;
