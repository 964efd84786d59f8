//! Batches in Tensorcom's format, over ZeroMQ or to files, so that any client of Tensorcom is a client.
//!
//! Deliberately absent: leases, order, retries. A receiver hands out batches; here they become
//! messages. If a queue has no room, a message waits or is lost, depending on the kind of socket.

mod clients;
mod course;
mod files;
mod message;
mod nodrop;
mod outlet;
mod pace;
mod publisher;
mod socket;

pub(crate) use course::run;
pub(crate) use publisher::describe;

use pace::{Stream, streams};
use publisher::Publisher;
