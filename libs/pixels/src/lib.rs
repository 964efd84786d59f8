//! Images in memory, and the operations of a recipe on them: for each a plain version, which defines the
//! result, its twins for several instruction sets, and the text of its CUDA kernel.
//!
//! Deliberately absent: C code, files, threads, metrics, and which operation comes when (headwater-core draws
//! it, libs/render does it).
#![deny(unsafe_code)]

#[macro_use]
mod kernel_table;

pub mod image;
pub mod kernels;
pub mod ops;

pub use headwater_simd as simd;
