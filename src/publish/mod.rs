//! Batches in Tensorcom's format, over ZeroMQ or to files, so that any client of Tensorcom is a client.
//!
//! Deliberately absent: leases, order, retries. A receiver hands out batches; here they become
//! messages. If a queue has no room, a message waits or is lost, depending on the kind of socket.

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
