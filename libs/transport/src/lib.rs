//! Links: the data path between one worker and one receiver, behind one narrow contract.
//!
//! Two ends. The receiver has a [`ReceiverLink`] per kind: it owns the slots, says who may write
//! what, and hears when a part is there. A worker has a [`WorkerLink`] per receiver: it gives
//! memory to render a part in and delivers it. The contract stands on the traits; one suite,
//! `conformance`, holds every kind to it.
//!
//! Deliberately absent: leases' deadlines, retries of leases, the choice of samples, gRPC,
//! pixels. A link moves bytes that somebody else decided on to the place somebody else named.
#![deny(unsafe_code)]

pub mod bench;
mod checksum;
#[cfg(feature = "conformance")]
pub mod conformance;
pub mod contract;
#[cfg(feature = "conformance")]
pub mod frames;
mod key;
#[allow(unsafe_code)] // mmap and munmap.
mod mapping;
mod metrics;
#[allow(unsafe_code)] // Rendering memory as slices.
pub mod part;
mod place;
pub mod rdma;
mod recent;
pub mod shm;
#[allow(unsafe_code)] // Slot memory by address.
pub mod slot;
mod staging;
pub mod tcp;
#[allow(unsafe_code)] // The word of whoever makes windows.
pub mod window;

pub use checksum::{part_checksum, row_checksum};
pub use contract::{
    Arrival, LeaseId, LinkError, LinkKind, LinkOffer, PartPlace, PeerId, ReceiverLink, SessionKey,
    SlotId, Withdrawal, WorkerLink,
};
pub use part::{PartBuffer, PartRow};
pub use place::MAX_REGIONS;
pub use slot::{SlotError, SlotMemory};
pub use window::{DeviceWindow, Dmabuf};
