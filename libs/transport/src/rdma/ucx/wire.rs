//! Messages of the ucx link, little-endian; the format is in docs/wire-format.md.

use xxhash_rust::xxh3::xxh3_64;

use crate::contract::{LeaseId, SlotId};

/// Version of these messages.
pub(super) const VERSION: u32 = 1;
/// First bytes of an offer and of a knock: nothing else is taken for one.
const MAGIC: [u8; 4] = *b"HWUX";

/// Memory that the other side may write to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RemoteMemory {
    pub(super) address: u64,
    pub(super) len_bytes: u64,
    /// As UCX packed it.
    pub(super) key: Vec<u8>,
}

/// A worker's first message, to the receiver's door.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Knock {
    pub(super) version: u32,
    pub(super) key: [u8; 32],
    /// Of the worker's port.
    pub(super) address: Vec<u8>,
}

/// What a receiver says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ToWorker {
    /// Not let in.
    Refused {
        reason: String,
    },
    /// Let in, at this port; the session's key is to be written to this memory.
    Welcome {
        address: Vec<u8>,
        probe: RemoteMemory,
    },
    /// The probe was found.
    Standing,
    Slot {
        slot: SlotId,
        memory: RemoteMemory,
    },
    Forget {
        slot: SlotId,
    },
    Expect {
        lease: LeaseId,
        fingerprint: u64,
    },
    Withdraw {
        lease: LeaseId,
    },
    Bye,
}

/// What a worker says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ToReceiver {
    /// The probe is written.
    Probed,
    /// All bytes of the lease are in the slot.
    Written {
        lease: LeaseId,
    },
    /// The lease's buffer is gone, nothing is written any more.
    Quiet {
        lease: LeaseId,
    },
    Bye,
}

/// Reads what was written, to its end.
struct Reader<'a>(&'a [u8]);

/// A receiver's offer: the address of its door. It is marked, since UCX does not survive to be given
/// something else as an address.
pub(super) fn encode_offer(address: &[u8]) -> Vec<u8> {
    [&MAGIC[..], &VERSION.to_le_bytes(), &xxh3_64(address).to_le_bytes(), address].concat()
}

/// The address of an offer; `Err`: what stands there instead.
pub(super) fn decode_offer(bytes: &[u8]) -> Result<Vec<u8>, String> {
    let mut reader = Reader(bytes);
    let (magic, version) = (reader.array::<4>(), reader.array().map(u32::from_le_bytes));
    match (magic, version, reader.u64()) {
        (Some(MAGIC), Some(VERSION), Some(sum)) if sum == xxh3_64(reader.0) => Ok(reader.rest()),
        (Some(MAGIC), Some(theirs), _) if theirs != VERSION => Err(format!(
            "the receiver speaks version {theirs} of the ucx link, this worker {VERSION}"
        )),
        _ => Err("the receiver's offer holds no address of UCX".into()),
    }
}

// === impl Knock ===

impl Knock {
    pub(super) fn encode(&self) -> Vec<u8> {
        [&MAGIC[..], &self.version.to_le_bytes(), &self.key, &self.address].concat()
    }

    /// `None`: not a knock. A knock of another version has its number alone in common.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader(bytes);
        if reader.array::<4>()? != MAGIC {
            return None;
        }
        let version = u32::from_le_bytes(reader.array()?);
        Some(Self { version, key: reader.array()?, address: reader.rest() })
    }
}

// === impl ToWorker ===

impl ToWorker {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut put = |parts: &[&[u8]]| parts.iter().for_each(|part| bytes.extend_from_slice(part));
        match self {
            Self::Refused { reason } => put(&[&[0], reason.as_bytes()]),
            Self::Welcome { address, probe } => {
                put(&[&[1], &probe.address.to_le_bytes(), &probe.len_bytes.to_le_bytes()]);
                put(&[&(probe.key.len() as u32).to_le_bytes(), &probe.key, address]);
            }
            Self::Standing => put(&[&[2]]),
            Self::Slot { slot, memory } => {
                put(&[&[3], &slot.0.to_le_bytes(), &memory.address.to_le_bytes()]);
                put(&[&memory.len_bytes.to_le_bytes(), &memory.key]);
            }
            Self::Forget { slot } => put(&[&[4], &slot.0.to_le_bytes()]),
            Self::Expect { lease, fingerprint } => {
                put(&[&[5], &lease.0.to_le_bytes(), &fingerprint.to_le_bytes()]);
            }
            Self::Withdraw { lease } => put(&[&[6], &lease.0.to_le_bytes()]),
            Self::Bye => put(&[&[7]]),
        }
        bytes
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader(bytes);
        let message = match reader.array::<1>()? {
            [0] => Self::Refused { reason: String::from_utf8_lossy(&reader.rest()).into_owned() },
            [1] => {
                let (address, len_bytes) = (reader.u64()?, reader.u64()?);
                let key_bytes = u32::from_le_bytes(reader.array()?) as usize;
                let probe = RemoteMemory { address, len_bytes, key: reader.take(key_bytes)? };
                Self::Welcome { probe, address: reader.rest() }
            }
            [2] => Self::Standing,
            [3] => {
                let slot = reader.slot()?;
                let (address, len_bytes) = (reader.u64()?, reader.u64()?);
                let memory = RemoteMemory { address, len_bytes, key: reader.rest() };
                Self::Slot { slot, memory }
            }
            [4] => Self::Forget { slot: reader.slot()? },
            [5] => Self::Expect { lease: reader.lease()?, fingerprint: reader.u64()? },
            [6] => Self::Withdraw { lease: reader.lease()? },
            [7] => Self::Bye,
            _ => return None,
        };
        reader.0.is_empty().then_some(message)
    }
}

// === impl ToReceiver ===

impl ToReceiver {
    pub(super) fn encode(self) -> Vec<u8> {
        match self {
            Self::Probed => vec![0],
            Self::Written { lease } => [&[1][..], &lease.0.to_le_bytes()].concat(),
            Self::Quiet { lease } => [&[2][..], &lease.0.to_le_bytes()].concat(),
            Self::Bye => vec![3],
        }
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader(bytes);
        let message = match reader.array::<1>()? {
            [0] => Self::Probed,
            [1] => Self::Written { lease: reader.lease()? },
            [2] => Self::Quiet { lease: reader.lease()? },
            [3] => Self::Bye,
            _ => return None,
        };
        reader.0.is_empty().then_some(message)
    }
}

// === impl Reader ===

impl Reader<'_> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*first)
    }

    fn take(&mut self, len: usize) -> Option<Vec<u8>> {
        let (first, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(first.to_vec())
    }

    fn rest(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.0).to_vec()
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    fn slot(&mut self) -> Option<SlotId> {
        self.array().map(u32::from_le_bytes).map(SlotId)
    }

    fn lease(&mut self) -> Option<LeaseId> {
        self.u64().map(LeaseId)
    }
}

/// Takes any bytes for each message of this protocol. Panics where one is taken that is written
/// otherwise than it was read.
#[cfg(feature = "conformance")]
pub(crate) fn take_any(bytes: &[u8]) {
    let written = [
        decode_offer(bytes).ok().map(|address| encode_offer(&address)),
        Knock::decode(bytes).map(|message| message.encode()),
        ToReceiver::decode(bytes).map(ToReceiver::encode),
        // A reason in other letters than UTF-8 has is told as far as it can be read.
        ToWorker::decode(bytes)
            .filter(|message| !matches!(message, ToWorker::Refused { .. }))
            .map(|message| message.encode()),
    ];
    assert!(written.iter().flatten().all(|written| written == bytes), "{written:?}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_nothing_else() {
        let memory = RemoteMemory { address: 1 << 40, len_bytes: 99, key: vec![1, 2, 3] };
        let (slot, lease) = (SlotId(7), LeaseId(u64::MAX - 1));
        let to_worker = [
            ToWorker::Refused { reason: "unknown session key".into() },
            ToWorker::Welcome { address: vec![9; 200], probe: memory.clone() },
            ToWorker::Standing,
            ToWorker::Slot { slot, memory },
            ToWorker::Forget { slot },
            ToWorker::Expect { lease, fingerprint: 5 },
            ToWorker::Withdraw { lease },
            ToWorker::Bye,
        ];
        for message in to_worker {
            let bytes = message.encode();
            assert_eq!(ToWorker::decode(&bytes), Some(message));
            assert_eq!(ToWorker::decode(&[]), None);
        }
        for message in [
            ToReceiver::Probed,
            ToReceiver::Written { lease },
            ToReceiver::Quiet { lease },
            ToReceiver::Bye,
        ] {
            let bytes = message.encode();
            assert_eq!(ToReceiver::decode(&bytes), Some(message));
            assert_eq!(ToReceiver::decode(&[&bytes[..], &[0]].concat()), None, "a byte too many");
        }
        let knock = Knock { version: VERSION, key: [3; 32], address: vec![4; 100] };
        assert_eq!(Knock::decode(&knock.encode()), Some(knock.clone()));
        assert_eq!(Knock::decode(&knock.encode()[..39]), None);
        assert_eq!(Knock::decode(&[0; 100]), None);
        let offer = encode_offer(&[5; 300]);
        assert_eq!(decode_offer(&offer), Ok(vec![5; 300]));
        assert!(decode_offer(&offer[..299]).is_err(), "cut off");
        assert!(decode_offer(b"nowhere").is_err());
        let other = [&offer[..4], &[9, 0, 0, 0], &offer[8..]].concat();
        assert!(decode_offer(&other).unwrap_err().contains("version 9"));
    }
}
