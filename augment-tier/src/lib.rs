//! Augment tier: the service that renders parts of batches for receivers.
//!
//! libs/render takes a sample through a recipe, libs/render-cuda does the same on a GPU: pure functions. Here is who
//! calls them, and when: `pool` shares the threads among sessions, `session` serves one receiver, `share` keeps what
//! others want too, `service` is the gRPC face.
//!
//! Deliberately absent: which samples make a batch and when (the receiver's), where shards come
//! from (the storage tier's), how bytes travel (libs/transport). A worker that dies loses nothing
//! but time: what it was asked for can be asked of another, which makes the same bytes.
#![deny(unsafe_code)]

mod config;
mod error;
mod metrics;
mod open_files;
mod pool;
mod room;
mod service;
mod session;
mod share;
mod worker;

pub use config::{
    AugmentConfig, BackendChoice, CudaConfig, CudaDecode, DecodingConfig, LeaseConfig,
    PythonConfig, ReadConfig, SessionConfig,
};
pub use error::{AugmentError, SessionError, SessionErrorKind};
pub use metrics::describe_metrics;
pub use open_files::OF_A_SESSION;
pub use service::{Augment, bind};
