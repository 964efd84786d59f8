//! What links between processes of one host have in common: a Unix socket (SOCK_SEQPACKET, one packet a message), whose
//! end says that a process has ended, and who may be at its other end.
//!
//! Deliberately absent: what a slot is.

pub(crate) mod acceptor;
pub(crate) mod channel;
pub(crate) mod greeting;
pub(crate) mod hello;
pub(crate) mod users;
