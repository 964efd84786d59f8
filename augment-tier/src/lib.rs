//! Augment tier: decodes, augments, casts.
//!
//! `decode` turns encoded bytes into pixels, libs/pixels holds the operations of a recipe, `render`
//! takes one sample through all of it. These know nothing of leases, sockets, clocks or threads:
//! they are pure functions of their arguments that keep their memory. `siblings` reads what lies beside an
//! image. `part` puts samples where a
//! batch has them, `backend` is what may render them instead of the processor, `pool` shares the
//! threads among sessions, `session` serves one receiver, `service` is the gRPC face.
//!
//! Deliberately absent: which samples make a batch and when (the receiver's), where shards come
//! from (the storage tier's), how bytes travel (libs/transport). A worker that dies loses nothing
//! but time: what it was asked for can be asked of another, which makes the same bytes.
#![deny(unsafe_code)]

pub mod backend;
mod config;
pub mod cuda;
pub mod decode;
mod error;
mod metrics;
mod open_files;
pub mod part;
mod pool;
pub mod python;
pub mod render;
mod room;
mod service;
mod session;
mod share;
pub mod siblings;
pub mod tokenizers;
mod worker;

pub use headwater_pixels::{image, ops};
pub use headwater_simd as simd;

pub use config::{AugmentConfig, BackendChoice, CudaDecode};
pub use error::{AugmentError, SessionError, SessionErrorKind};
pub use metrics::describe_metrics;
pub use service::{Augment, bind};
