//! Python functions and datasets, called in processes of their own.
//!
//! [`Interpreter`] is one Python process and the memory that it shares with this one: arrays are passed there, not
//! pickled. It takes one call at a time, so each thread has its own. A process that died, or was killed since it
//! answered too late, is replaced by the next call. Only modules that [`Trusted`] names are imported.
//!
//! A function must be pure: what it gives follows from its arguments alone. Its random numbers come from numpy's
//! `default_rng(seed)`, and the seed from the caller.
//!
//! Deliberately absent: what is called and why, batches, other languages.
#![forbid(unsafe_code)]

mod error;
mod interpreter;
mod process;
mod trusted;
mod wire;

pub use error::CallError;
pub use interpreter::{Dataset, Interpreter, Settings, Source};
pub use trusted::Trusted;
