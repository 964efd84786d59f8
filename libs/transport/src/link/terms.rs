//! The terms in which a receiver and its workers speak of links.
//!
//! It and `links/mod.rs` import each other: one table names the links, and their ends speak in these terms.

use std::fmt;

use crate::memory::place::{LeaseId, PlaceError};
use crate::memory::slot::SlotError;

pub(crate) use crate::links::LinkKind;

/// Number of one admitted worker session, unique within the receiver's process; never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PeerId(pub u64);

/// Secret of one worker session, 32 random bytes from the operating system. It travels over the
/// authenticated control stream; a data connection that does not present it is dropped.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct SessionKey(pub [u8; 32]);

/// What a worker needs to reach a receiver's link; opaque to everybody else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkOffer {
    /// Which link.
    pub kind: LinkKind,
    /// Kind-specific: a socket name, `host:port`, queue pair numbers.
    pub address: Vec<u8>,
}

/// What a receiver's link reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// All bytes of the lease are in the slot and visible to this process. In a slot in a GPU's memory
    /// they are visible to work that is given to the GPU after its driver was asked to flush such
    /// writes.
    Part {
        /// Who wrote it.
        peer: PeerId,
        /// The lease.
        lease: LeaseId,
    },
    /// The worker presented its key: the data path stands.
    Connected {
        /// Who connected.
        peer: PeerId,
    },
    /// The writer of this withdrawn lease can no longer write: its slot is free of it.
    Quiet {
        /// Who held the lease.
        peer: PeerId,
        /// The lease.
        lease: LeaseId,
    },
    /// The data path is gone, and with it every writer of this peer: no byte of any of its
    /// leases can be written from here on. Reported once; nothing follows for the peer. Of a link
    /// whose facts say `may_write_after_gone` a GPU may still write, with final bytes, to slots of
    /// leases that were open: they must not be used again.
    Gone {
        /// Who is gone.
        peer: PeerId,
        /// Why, for the log.
        reason: String,
    },
}

/// Answer to a withdrawal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Withdrawal {
    /// The lease can write no more: its slot is free of it now.
    Quiet,
    /// The writer may still write. `Arrival::Part`, `Arrival::Quiet` or `Arrival::Gone` will say
    /// when it cannot; until then the slot is quarantined.
    Open,
}

/// Why a link failed. All kinds but `Refused` and `Setup` are worth another try on a new session.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// The link is not available here; the message names what is missing and the remedy.
    #[error("{kind} link is not available: {reason}")]
    Setup {
        /// Which link.
        kind: LinkKind,
        /// What is missing, and the remedy.
        reason: String,
    },
    /// The other side did not accept the session key or the version.
    #[error("{kind} link was refused by the receiver: {reason}")]
    Refused {
        /// Which link.
        kind: LinkKind,
        /// What it said.
        reason: String,
    },
    /// The connection is gone.
    #[error("{kind} link is closed: {reason}")]
    Closed {
        /// Which link.
        kind: LinkKind,
        /// Why.
        reason: String,
    },
    /// The receiver no longer wants this part: the lease was withdrawn.
    #[error("lease {} was withdrawn", lease.0)]
    Withdrawn {
        /// The lease.
        lease: LeaseId,
    },
    /// A place that does not fit its slot, or bytes that do not fit their place.
    #[error(transparent)]
    Place(#[from] PlaceError),
    /// Memory for a slot is not available, whichever link will use it.
    #[error(transparent)]
    Slot(#[from] SlotError),
}

// === impl SessionKey ===

impl fmt::Debug for SessionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SessionKey(..)")
    }
}

// === impl LinkKind ===

impl LinkKind {
    pub(crate) fn setup(self, reason: impl Into<String>) -> LinkError {
        LinkError::Setup { kind: self, reason: reason.into() }
    }

    pub(crate) fn refused(self, reason: impl Into<String>) -> LinkError {
        LinkError::Refused { kind: self, reason: reason.into() }
    }

    pub(crate) fn closed(self, reason: impl Into<String>) -> LinkError {
        LinkError::Closed { kind: self, reason: reason.into() }
    }
}

impl fmt::Display for LinkKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
