//! What both tiers need of CUDA, which is opened at run time: which libraries are there, kernels
//! compiled for a GPU and kept, pinned memory.
//!
//! Deliberately absent: pixels and parts of batches.
#![deny(unsafe_code)]

mod compile;
mod cubin_cache;
mod error;
mod gpu;
mod kernels;
mod libraries;
mod pinned;

pub use compile::compile;
pub use cubin_cache::CubinCache;
pub use error::{CudaError, Library};
pub use gpu::{Gpu, said};
pub use kernels::KernelSource;
pub use libraries::is_there;
pub use pinned::Pinned;
