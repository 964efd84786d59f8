//! How many augment workers there should be, from the share of their time that ranks wait and the
//! share of theirs that workers work.
//!
//! Deliberately absent: clocks, metrics, SLURM. Who calls says what time it is and what
//! was seen; the same observations give the same decisions.
#![forbid(unsafe_code)]

mod controller;
mod policy;

pub use controller::{Controller, Decision, Observation, Reason};
pub use policy::{Policy, PolicyError};
