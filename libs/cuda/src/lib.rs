//! What both tiers need of CUDA, which is opened at run time: which libraries are there, kernels
//! compiled for a GPU and kept, pinned memory, slots in a GPU's memory.
//!
//! Deliberately absent: what workers' kernels do, and who leases which slot.
#![deny(unsafe_code)]

mod compile;
mod cubin_cache;
mod current;
mod device_slot;
mod error;
mod event;
mod expander;
mod exportable;
mod gpu;
mod host_pins;
mod imports;
mod kernels;
mod libraries;
mod mapped;
mod memory;
mod nvrtc;
mod peer_writes;
mod pinned;
mod proof;
mod reader;
mod uploader;

pub use compile::compile;
pub use cubin_cache::CubinCache;
pub use device_slot::{ConsumerStream, DeviceSlot};
pub use error::{AllocatorError, CudaError};
pub use expander::{EXPAND_LEVELS, Expansion, LEVELS};
pub use gpu::{Gpu, said};
pub use host_pins::HostPins;
pub use imports::Imports;
pub use kernels::{KernelSource, OPTIONS};
pub use libraries::{DRIVER_FUNCTIONS, check_clock, check_driver, check_nvrtc, driver_version};
pub use memory::{DeviceAllocator, DeviceMemory};
pub use pinned::Pinned;
pub use uploader::Uploader;
