//! What a machine has: RDMA devices, GPUs, memory, limits, libraries.
//!
//! Everything but libraries is read from `/sys` and `/proc` of a [`Machine`], which may be a
//! recorded tree. Libraries are opened by `libs/dylib` and asked for their version.
//!
//! Deliberately absent: judgement. Nothing here knows what is enough, what a configuration asks
//! for, or what to do about something missing; and what cannot be read is not there.
#![deny(unsafe_code)]

mod cores;
mod gpu;
mod groups;
mod kernel;
#[allow(unsafe_code)] // Calls libraries.
mod library;
mod limits;
mod load;
mod machine;
mod memory;
mod network;
mod pci;
mod processor;
mod rdma;
mod room;
#[cfg(feature = "trees")]
pub mod trees;

pub use cores::{Cores, CoresWanted};
pub use gpu::{Gpu, NvidiaDriver};
pub use groups::GroupLimits;
pub use kernel::KernelRelease;
pub use library::{JpegEngines, Library, Nvml};
pub use limits::{Limit, Limits};
pub use load::ProcessorTicks;
pub use machine::Machine;
pub use memory::HugePages;
pub use network::Interface;
pub use pci::{Distance, PciDevice};
pub use processor::Processor;
pub use rdma::{Gid, RdmaDevice, RdmaPort};
pub use room::MemoryRoom;
