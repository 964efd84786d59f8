//! Messages of the shm socket, one packet each; little-endian. docs/wire-format.md has the table.

use crate::contract::{LeaseId, SlotId};

/// Version of these messages; both ends must have the same.
pub(crate) const VERSION: u16 = 1;

/// No packet is longer.
pub(crate) const MAX_PACKET_BYTES: usize = 256;

const MAGIC: [u8; 4] = *b"HWSM";

/// From a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ToReceiver {
    /// The first message: who is there.
    Hello { version: u16, key: [u8; 32] },
    /// All bytes of the lease are in the slot.
    Commit { lease: LeaseId, fingerprint: u64 },
    /// The withdrawn lease has no buffer here, and will get none.
    Quiet { lease: LeaseId },
}

/// From a receiver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ToWorker {
    /// Answer to a good hello.
    Accepted,
    /// Answer to a bad one, with the reason.
    Refused { reason: String },
    /// A slot; its file descriptor comes with the packet.
    Slot { slot: SlotId, len_bytes: u64 },
    /// The slot is no longer in use.
    Forget { slot: SlotId },
    /// The lease may be rendered.
    Expect { lease: LeaseId },
    /// It may no longer. To be answered with `Quiet`.
    Withdraw { lease: LeaseId },
}

// === impl ToReceiver ===

impl ToReceiver {
    pub(crate) fn encode(&self) -> Vec<u8> {
        match self {
            Self::Hello { version, key } => {
                [&[1][..], &MAGIC, &version.to_le_bytes(), key].concat()
            }
            Self::Commit { lease, fingerprint } => {
                [&[2][..], &lease.0.to_le_bytes(), &fingerprint.to_le_bytes()].concat()
            }
            Self::Quiet { lease } => [&[3][..], &lease.0.to_le_bytes()].concat(),
        }
    }

    /// `None`: not a message of this protocol.
    pub(crate) fn decode(packet: &[u8]) -> Option<Self> {
        let (&tag, body) = packet.split_first()?;
        let message = match (tag, body.len()) {
            (1, 38) if body[..4] == MAGIC => Self::Hello {
                version: u16::from_le_bytes(body[4..6].try_into().ok()?),
                key: body[6..].try_into().ok()?,
            },
            (2, 16) => {
                Self::Commit { lease: LeaseId(u64_at(body, 0)), fingerprint: u64_at(body, 8) }
            }
            (3, 8) => Self::Quiet { lease: LeaseId(u64_at(body, 0)) },
            _ => return None,
        };
        Some(message)
    }
}

// === impl ToWorker ===

impl ToWorker {
    pub(crate) fn encode(&self) -> Vec<u8> {
        match self {
            Self::Accepted => vec![1],
            Self::Refused { reason } => {
                let end = reason.floor_char_boundary(MAX_PACKET_BYTES - 1);
                [&[2], &reason.as_bytes()[..end]].concat()
            }
            Self::Slot { slot, len_bytes } => {
                [&[3][..], &slot.0.to_le_bytes(), &len_bytes.to_le_bytes()].concat()
            }
            Self::Forget { slot } => [&[4][..], &slot.0.to_le_bytes()].concat(),
            Self::Expect { lease } => [&[5][..], &lease.0.to_le_bytes()].concat(),
            Self::Withdraw { lease } => [&[6][..], &lease.0.to_le_bytes()].concat(),
        }
    }

    /// `None`: not a message of this protocol.
    pub(crate) fn decode(packet: &[u8]) -> Option<Self> {
        let (&tag, body) = packet.split_first()?;
        let message = match (tag, body.len()) {
            (1, 0) => Self::Accepted,
            (2, _) => Self::Refused { reason: String::from_utf8(body.to_vec()).ok()? },
            (3, 12) => Self::Slot { slot: SlotId(u32_at(body, 0)), len_bytes: u64_at(body, 4) },
            (4, 4) => Self::Forget { slot: SlotId(u32_at(body, 0)) },
            (5, 8) => Self::Expect { lease: LeaseId(u64_at(body, 0)) },
            (6, 8) => Self::Withdraw { lease: LeaseId(u64_at(body, 0)) },
            _ => return None,
        };
        Some(message)
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(std::array::from_fn(|i| bytes[at + i]))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(std::array::from_fn(|i| bytes[at + i]))
}

/// Takes any bytes for each message of this protocol. Panics where one is taken that is written
/// otherwise than it was read.
#[cfg(feature = "conformance")]
pub(crate) fn take_any(packet: &[u8]) {
    if let Some(message) = ToReceiver::decode(packet) {
        assert_eq!(message.encode(), packet, "{message:?}");
    }
    // The kernel hands out no longer ones; a longer reason would be cut.
    let packet = &packet[..packet.len().min(MAX_PACKET_BYTES)];
    if let Some(message) = ToWorker::decode(packet) {
        assert_eq!(message.encode(), packet, "{message:?}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_survive_the_wire() {
        let lease = LeaseId(0x0102_0304_0506_0708);
        let up = [
            ToReceiver::Hello { version: 7, key: std::array::from_fn(|i| i as u8) },
            ToReceiver::Commit { lease, fingerprint: u64::MAX - 1 },
            ToReceiver::Quiet { lease },
        ];
        for message in up {
            assert_eq!(ToReceiver::decode(&message.encode()), Some(message));
        }
        let down = [
            ToWorker::Accepted,
            ToWorker::Refused { reason: "no".into() },
            ToWorker::Slot { slot: SlotId(9), len_bytes: 1 << 40 },
            ToWorker::Forget { slot: SlotId(9) },
            ToWorker::Expect { lease },
            ToWorker::Withdraw { lease },
        ];
        for message in down {
            assert_eq!(ToWorker::decode(&message.encode()), Some(message));
        }
    }

    #[test]
    fn foreign_packets_are_not_messages() {
        let foreign: [&[u8]; 5] = [&[], &[0], &[2, 1, 2, 3], b"\x01GET / HTTP/1.1\r\n", &[9; 40]];
        for packet in foreign {
            assert_eq!(ToReceiver::decode(packet), None);
            assert!(!matches!(
                ToWorker::decode(packet),
                Some(ToWorker::Slot { .. } | ToWorker::Expect { .. })
            ));
        }
    }

    #[test]
    fn a_long_reason_is_cut_at_a_character() {
        let packet = ToWorker::Refused { reason: "ä".repeat(1000) }.encode();
        assert!(packet.len() <= MAX_PACKET_BYTES);
        assert!(ToWorker::decode(&packet).is_some());
    }
}
