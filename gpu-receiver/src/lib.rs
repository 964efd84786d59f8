//! The receiver: a library inside a training rank that hands out ready batches, in order.
//!
//! It runs the sampler, cuts batches into parts, leases the parts to augment workers, and owns
//! the memory they write to. It also owns the cursor: a part is accepted once, a batch is handed
//! out when all its parts are in.
//!
//! Deliberately absent: pixels, decoding, reading of shards. The receiver knows what a batch holds
//! and where its bytes go, and how to tell whether they came.
#![forbid(unsafe_code)]

mod autosave;
mod batch;
mod breadth;
pub mod checkpoint;
mod client;
pub mod config;
mod device;
mod driver;
mod error;
mod events;
mod fields;
mod held;
mod host;
mod identity_metrics;
mod label_mix;
pub mod ledger;
mod link_trials;
mod mailbox;
mod masking;
mod metrics;
mod names;
mod order_list;
mod packed;
mod peek;
mod pictured;
mod position;
mod prefetch_plan;
mod receiver;
mod room;
mod sample_order;
mod scaling;
mod sessions;
mod setup;
#[cfg(test)]
mod simulation;
mod slots;
mod stall;
mod stats;
mod subset;
mod tries;
mod turn;
mod worker_discovery;

pub use batch::{Batch, Fp8Meta};
pub use client::who;
pub use config::{
    CheckpointConfig, DatasetUse, Device, DeviceConfig, DrawnConfig, GpuDirect, LeaseConfig,
    OrderConfig, ReceiverConfig, Resume, SampleConfig, Verify, WindowConfig,
};
pub use device::DeviceBatch;
pub use error::ReceiverError;
pub use host::HostService;
pub use metrics::describe_metrics;
pub use order_list::{OrderArrays, RawArray, open_sampler, order_list};
pub use packed::Packed;
pub use peek::{Peek, PeekError, Peeked};
pub use position::Position;
pub use receiver::{Callbacks, Receiver};
pub use scaling::AmaxReduce;
pub use stall::{Cause, LastPart, Stalls};
pub use stats::Snapshot;
pub use turn::{Inside, Turn};
