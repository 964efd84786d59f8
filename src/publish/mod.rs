//! Batches over ZeroMQ in Tensorcom's wire format, so that any client of Tensorcom is a client.
//!
//! Deliberately absent: leases, order, retries. A receiver hands out batches; here they become
//! messages, and what a queue has no room for waits or is lost as the kind of socket has it.

mod outlet;
mod publisher;
mod tenbin;

pub(crate) use publisher::{Publisher, describe};
