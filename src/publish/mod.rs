//! Batches in Tensorcom's format, over ZeroMQ or to files, so that any client of Tensorcom is a client.
//!
//! Deliberately absent: leases, order, retries. A receiver hands out batches; here they become
//! messages, and what a queue has no room for waits or is lost as the kind of socket has it.

mod clients;
mod files;
mod message;
mod nodrop;
mod outlet;
mod pace;
mod publisher;
mod socket;

pub(crate) use pace::{Stream, streams};
pub(crate) use publisher::{Publisher, describe};
