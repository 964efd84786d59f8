//! Python functions and datasets, called in processes of their own.
//!
//! [`Interpreter`] is one Python process and the memory that it shares with this one: arrays are passed there, not
//! pickled. It takes one call at a time, so each thread has its own. A process that died, or was killed since it
//! answered too late, is replaced by the next call. Only modules that [`Trusted`] names are imported.
//!
//! A function must be pure: what it gives depends only on its arguments. Its random numbers come from numpy's
//! `default_rng(seed)`, and the seed from the caller.
//!
//! Only an exception that says so is a verdict on a sample ([`CallError::is_verdict`]). A process
//! ends with the one that started it, however that ends.
//!
//! Deliberately absent: what is called and why, how often it is tried, batches, other languages.
#![forbid(unsafe_code)]

mod dataset;
mod error;
mod interpreter;
mod process;
mod settings;
mod trusted;
mod wire;

pub use dataset::{Dataset, DatasetIdentity};
pub use error::CallError;
pub use interpreter::{Interpreter, Source};
pub use settings::{SettingKeys, Settings};
pub use trusted::Trusted;
