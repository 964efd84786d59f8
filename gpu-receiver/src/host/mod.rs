//! One copy of the batches of a host: a receiver in a process of its own makes them, and trials that want
//! the same batches map its slots, to be read only.
//!
//! A trial has all that any receiver has: order of samples, cursor, state. It names each batch by its
//! place and by the key of all its samples, and the service hands out what has that key, or says that
//! it has not. What the service cannot give, the trial makes by itself from there on: it is farther away
//! than what is kept, its order is another one, or the service is gone.
//!
//! Deliberately absent: starting and finding the process, which `app/local` does; GPUs; FP8 with delayed
//! scales, which follow from what one trial has taken.

mod batch;
mod batch_cache;
mod client;
mod frames;
mod held;
mod messages;
mod service;
#[cfg(test)]
mod tests;

pub(crate) use batch::{ConnectionGuard, Delivery, HostBatch, HostEvent};
pub(crate) use client::{HostAsk, HostWord, follow};
pub use service::HostService;
