//! libibverbs as safe handles: devices, registered memory, completions, queue pairs.
//!
//! The unsafe rooms of the rdma link. Handles own what they depend on, so the order in which they
//! go is the order that verbs demand: queue pairs, completions, regions, domain, device.
#![allow(unsafe_code)]

mod abi;
mod completion;
mod device;
#[cfg(test)]
mod layout;
mod library;
mod memory;
mod queue_pair;

pub(crate) use completion::{Completion, Completions, Outcome};
pub(crate) use device::{Device, DeviceLimits, GidState, PortState, names, open};
pub(crate) use library::Library;
pub(crate) use memory::{MemoryRegion, ProtectionDomain, Writers};
pub(crate) use queue_pair::{Piece, Posting, QueuePair, Request};
