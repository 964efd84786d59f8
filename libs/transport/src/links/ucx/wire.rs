//! How a path of the ucx link begins; little-endian. What follows is in `link::messages`;
//! docs/wire-format.md has the table.

use xxhash_rust::xxh3::xxh3_64;

use crate::link::messages::SlotTerms;

/// Version of these messages and of the messages that follow.
pub(super) const VERSION: u32 = 2;
/// First bytes of an offer and of a knock: nothing else is taken for one.
const MAGIC: [u8; 4] = *b"HWUX";
// No message begins like these.
const REFUSED: u8 = 16;
const WELCOME: u8 = 17;
/// A worker's message: the probe is written.
pub(super) const PROBED: &[u8] = &[18];

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

/// A receiver's answer to a knock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Greeting {
    /// Not let in.
    Refused { reason: String },
    /// Let in, at this port; the session's key must be written to this memory.
    Welcome { address: Vec<u8>, probe: RemoteMemory },
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

    /// `None`: not a knock. A knock of another version has only its number in common.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader(bytes);
        if reader.array::<4>()? != MAGIC {
            return None;
        }
        let version = u32::from_le_bytes(reader.array()?);
        Some(Self { version, key: reader.array()?, address: reader.rest() })
    }
}

// === impl Greeting ===

impl Greeting {
    pub(super) fn encode(&self) -> Vec<u8> {
        match self {
            Self::Refused { reason } => [&[REFUSED], reason.as_bytes()].concat(),
            Self::Welcome { address, probe } => {
                let RemoteMemory { address: start, len_bytes, key } = probe;
                let key_bytes = (key.len() as u32).to_le_bytes();
                let numbers = [start.to_le_bytes(), len_bytes.to_le_bytes()].concat();
                [&[WELCOME], &numbers[..], &key_bytes, key, address].concat()
            }
        }
    }

    /// `None`: none of these.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader(bytes);
        match reader.array()? {
            [REFUSED] => Some(Self::Refused { reason: String::from_utf8(reader.rest()).ok()? }),
            [WELCOME] => {
                let (address, len_bytes) = (reader.u64()?, reader.u64()?);
                let key_bytes = u32::from_le_bytes(reader.array()?) as usize;
                let probe = RemoteMemory { address, len_bytes, key: reader.take(key_bytes)? };
                Some(Self::Welcome { probe, address: reader.rest() })
            }
            _ => None,
        }
    }
}

// === impl RemoteMemory ===

impl SlotTerms for RemoteMemory {
    fn encode(&self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(&self.address.to_le_bytes());
        bytes.extend_from_slice(&self.len_bytes.to_le_bytes());
        bytes.extend_from_slice(&self.key);
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader(bytes);
        Some(Self { address: reader.u64()?, len_bytes: reader.u64()?, key: reader.rest() })
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
}

/// Takes any bytes for each message of this protocol. Panics where one is taken that is written
/// otherwise than it was read.
#[cfg(feature = "conformance")]
pub(crate) fn take_any(bytes: &[u8]) {
    let written = [
        decode_offer(bytes).ok().map(|address| encode_offer(&address)),
        Knock::decode(bytes).map(|message| message.encode()),
        Greeting::decode(bytes).map(|message| message.encode()),
    ];
    assert!(written.iter().flatten().all(|written| written == bytes), "{written:?}");
    crate::link::messages::take_any::<RemoteMemory>(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::messages::{ToReceiver, ToWorker};
    use crate::memory::place::SlotId;

    #[test]
    fn what_is_written_is_read_and_nothing_else() {
        let memory = RemoteMemory { address: 1 << 40, len_bytes: 99, key: vec![1, 2, 3] };
        let greetings = [
            Greeting::Refused { reason: "unknown session key".into() },
            Greeting::Welcome { address: vec![9; 200], probe: memory.clone() },
        ];
        for greeting in greetings {
            let bytes = greeting.encode();
            assert_eq!(ToWorker::<RemoteMemory>::decode(&bytes), None, "a message as well");
            assert_eq!(Greeting::decode(&bytes), Some(greeting));
        }
        assert_eq!(Greeting::decode(&[]), None);
        assert_eq!((ToReceiver::decode(PROBED), Greeting::decode(PROBED)), (None, None));
        let slot = ToWorker::Slot { slot: SlotId(7), terms: memory };
        assert_eq!(ToWorker::decode(&slot.encode()), Some(slot));
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
