//! Augment tier: decodes, augments, casts.
//!
//! `decode` turns encoded bytes into pixels, `ops` holds the operations of a recipe, `render`
//! takes one sample through all of it. These know nothing of leases, sockets, clocks or threads:
//! they are pure functions of their arguments that keep their memory.

pub mod backend;
mod config;
pub mod decode;
mod error;
pub mod image;
mod metrics;
pub mod ops;
pub mod part;
mod pool;
pub mod render;
mod service;
mod session;
mod worker;

pub use config::AugmentConfig;
pub use error::{AugmentError, SessionError, SessionErrorKind};
pub use service::{Augment, bind};
