//! Messages between the tiers, and the strict models they are turned into on arrival.
//!
//! Deliberately absent: connections, retries, time. Everything that came over a wire is checked
//! here, in `TryFrom`, and trusted afterwards.
#![forbid(unsafe_code)]

pub mod augment;
pub mod health;
pub mod identity;
pub mod storage;

/// The generated types and services. Only this crate and each tier's `service.rs` name them.
#[allow(missing_docs, clippy::all, unreachable_pub)]
pub mod v1 {
    // Of the files in `proto`, by tests/generated.rs: whoever only builds needs no compiler of them.
    include!("../generated/augment.rs");
    include!("../generated/identity.rs");
    include!("../generated/storage.rs");
    /// What every generated type can: be written to bytes and read from them.
    pub use prost::Message;
}

/// Version of the wire protocol. Raised with every incompatible change; both sides must agree.
pub const WIRE_VERSION: u32 = 10;

/// Largest gRPC message either side accepts, in bytes.
pub const MESSAGE_MAX_BYTES: usize = 64 << 20;

/// Largest message of a request, or of a receiver to a worker, in bytes: only answers hold samples.
pub const REQUEST_MAX_BYTES: usize = 1 << 20;
