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
// What only a link uses that a build may leave out.
#![cfg_attr(not(feature = "default"), allow(dead_code))]

#[cfg(feature = "conformance")]
pub mod conformance;
mod link;
pub mod links;
mod memory;
mod metrics;
#[allow(unsafe_code)] // Registering a descriptor with tokio.
pub mod packets;
#[allow(unsafe_code)] // Options of sockets that no library reads in full.
pub mod peer;

pub use link::contract::{
    AnswersRequests, Exchange, ReceiverLink, SendsWhole, TakesDeviceSlots, WorkerLink,
};
pub use link::terms::{Arrival, LinkError, LinkOffer, PeerId, SessionKey, Withdrawal};
pub use links::LinkKind;
pub use memory::part::{
    PartBuffer, PartMemory, PartRow, RowDraft, RowMemory, WholePart, WrittenRow,
};
pub use memory::place::{LeaseId, MAX_REGIONS, PartPlace, PlaceError, SLOTS_MAX, SlotId};
pub use memory::slot::{SlotError, SlotMemory};
pub use memory::window::{
    DeviceImports, DeviceWindow, Dmabuf, ExportedWindow, ExportsWindow, GpuUuid, ImportedWindow,
    SPARE_BYTES, WindowHandle,
};
pub use metrics::describe_metrics;
