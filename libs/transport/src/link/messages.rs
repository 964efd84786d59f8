//! What the two ends of a link send each other once its data path is open, over the links that have
//! messages: `shm`, `rdma`, `ucx`. Little-endian; docs/wire-format.md has the table.
//!
//! How a path begins is each link's own, and so is what a worker needs to write to a slot.

use std::convert::Infallible;

use crate::memory::place::{LeaseId, SlotId};

/// Messages that may wait for a receiver to take them: answers to withdrawals and commits, of leases that it
/// had open. One that asks and never listens is left.
pub(crate) const MESSAGES_WAITING_MAX: usize = 16_384;
/// Why it is left.
pub(crate) const NOT_TAKEN: &str = "the other end does not read what it is told";

/// What a worker needs to write to a slot, beside the slot's number.
pub(crate) trait SlotTerms: Sized {
    fn encode(&self, bytes: &mut Vec<u8>);

    /// `None`: not the terms of this link.
    fn decode(bytes: &[u8]) -> Option<Self>;
}

/// From a receiver. `S` is what is said of a slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ToWorker<S> {
    /// The path is open.
    ConnectionAuth,
    /// A slot that may be written under leases.
    Slot { slot: SlotId, terms: S },
    /// The slot is no longer in use.
    Forget { slot: SlotId },
    /// The lease may be written, at the place of this fingerprint.
    Expect { lease: LeaseId, fingerprint: u64 },
    /// It may no longer. To be answered with `Quiet`.
    Withdraw { lease: LeaseId },
    /// The receiver closes the path.
    Bye,
}

/// From a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ToReceiver {
    /// All bytes of the lease are in the slot.
    Written { lease: LeaseId },
    /// The withdrawn lease has no buffer at the worker and will get none; none of its bytes is under way.
    Quiet { lease: LeaseId },
    /// The worker leaves; nothing follows.
    Bye,
}

// === impl ToWorker ===

impl<S> ToWorker<S> {
    /// The same with something else said of a slot.
    ///
    /// # Errors
    /// As `of_slot`.
    pub(crate) fn try_map<T, E>(
        self,
        of_slot: impl FnOnce(S) -> Result<T, E>,
    ) -> Result<ToWorker<T>, E> {
        Ok(match self {
            Self::ConnectionAuth => ToWorker::ConnectionAuth,
            Self::Slot { slot, terms } => ToWorker::Slot { slot, terms: of_slot(terms)? },
            Self::Forget { slot } => ToWorker::Forget { slot },
            Self::Expect { lease, fingerprint } => ToWorker::Expect { lease, fingerprint },
            Self::Withdraw { lease } => ToWorker::Withdraw { lease },
            Self::Bye => ToWorker::Bye,
        })
    }

    /// As [`ToWorker::try_map`], where nothing can fail.
    pub(crate) fn map<T>(self, of_slot: impl FnOnce(S) -> T) -> ToWorker<T> {
        let Ok(message) = self.try_map(|slot| Ok::<T, Infallible>(of_slot(slot)));
        message
    }
}

impl<S: SlotTerms> ToWorker<S> {
    pub(crate) fn encode(&self) -> Vec<u8> {
        match self {
            Self::ConnectionAuth => vec![1],
            Self::Slot { slot, terms } => {
                let mut bytes = [&[2][..], &slot.0.to_le_bytes()].concat();
                terms.encode(&mut bytes);
                bytes
            }
            Self::Forget { slot } => [&[3][..], &slot.0.to_le_bytes()].concat(),
            Self::Expect { lease, fingerprint } => {
                [&[4][..], &lease.0.to_le_bytes(), &fingerprint.to_le_bytes()].concat()
            }
            Self::Withdraw { lease } => [&[5][..], &lease.0.to_le_bytes()].concat(),
            Self::Bye => vec![6],
        }
    }

    /// `None`: not one of these.
    pub(crate) fn decode(message: &[u8]) -> Option<Self> {
        let (&tag, body) = message.split_first()?;
        let decoded = match (tag, body.len()) {
            (1, 0) => Self::ConnectionAuth,
            (2, 4..) => Self::Slot { slot: SlotId(u32_at(body, 0)), terms: S::decode(&body[4..])? },
            (3, 4) => Self::Forget { slot: SlotId(u32_at(body, 0)) },
            (4, 16) => {
                Self::Expect { lease: LeaseId(u64_at(body, 0)), fingerprint: u64_at(body, 8) }
            }
            (5, 8) => Self::Withdraw { lease: LeaseId(u64_at(body, 0)) },
            (6, 0) => Self::Bye,
            _ => return None,
        };
        Some(decoded)
    }
}

// === impl ToReceiver ===

impl ToReceiver {
    pub(crate) fn encode(self) -> Vec<u8> {
        match self {
            Self::Written { lease } => [&[1][..], &lease.0.to_le_bytes()].concat(),
            Self::Quiet { lease } => [&[2][..], &lease.0.to_le_bytes()].concat(),
            Self::Bye => vec![3],
        }
    }

    /// `None`: not one of these.
    pub(crate) fn decode(message: &[u8]) -> Option<Self> {
        let (&tag, body) = message.split_first()?;
        match (tag, body.len()) {
            (1, 8) => Some(Self::Written { lease: LeaseId(u64_at(body, 0)) }),
            (2, 8) => Some(Self::Quiet { lease: LeaseId(u64_at(body, 0)) }),
            (3, 0) => Some(Self::Bye),
            _ => None,
        }
    }
}

// === impl SlotTerms ===

/// The length of a slot that comes with its file.
impl SlotTerms for u64 {
    fn encode(&self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(&self.to_le_bytes());
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self::from_le_bytes)
    }
}

/// The number that begins at byte `at`.
///
/// # Panics
/// It ends beyond the bytes.
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(std::array::from_fn(|i| bytes[at + i]))
}

/// As [`u32_at`].
pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(std::array::from_fn(|i| bytes[at + i]))
}

/// Takes any bytes for each of these messages. Panics where one is taken that is written otherwise
/// than it was read.
#[cfg(feature = "conformance")]
pub(crate) fn take_any<S: SlotTerms>(bytes: &[u8]) {
    let written = [
        ToWorker::<S>::decode(bytes).map(|message| message.encode()),
        ToReceiver::decode(bytes).map(ToReceiver::encode),
    ];
    assert!(written.iter().flatten().all(|written| written == bytes), "{written:?}");
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: LeaseId = LeaseId(0x0102_0304_0506_0708);

    #[test]
    fn messages_survive_the_wire() {
        let down = [
            ToWorker::ConnectionAuth,
            ToWorker::Slot { slot: SlotId(9), terms: 1 << 40 },
            ToWorker::Forget { slot: SlotId(9) },
            ToWorker::Expect { lease: LEASE, fingerprint: u64::MAX - 1 },
            ToWorker::Withdraw { lease: LEASE },
            ToWorker::Bye,
        ];
        for message in down {
            assert_eq!(ToWorker::<u64>::decode(&message.encode()), Some(message));
        }
        let up = [
            ToReceiver::Written { lease: LEASE },
            ToReceiver::Quiet { lease: LEASE },
            ToReceiver::Bye,
        ];
        for message in up {
            assert_eq!(ToReceiver::decode(&message.encode()), Some(message));
        }
    }

    #[test]
    fn foreign_bytes_are_no_messages() {
        let foreign: [&[u8]; 6] =
            [&[], &[0], &[1, 0], &[2, 1, 2, 3], b"\x01GET / HTTP/1.1\r\n", &[9; 40]];
        for bytes in foreign {
            assert_eq!(ToReceiver::decode(bytes), None);
            assert_eq!(ToWorker::<u64>::decode(bytes), None);
        }
    }
}
