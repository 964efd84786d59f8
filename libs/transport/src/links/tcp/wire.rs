//! Frames of the tcp link; little-endian. docs/wire-format.md has the table.

use crate::memory::place::{LeaseId, MAX_REGIONS};

/// Version of these frames; both ends must have the same.
pub(super) const VERSION: u16 = 2;

/// Bytes of a hello that are the same in every version.
pub(super) const HELLO_HEAD_BYTES: usize = 8;
pub(super) const HELLO_BYTES: usize = 48;
pub(super) const ANSWER_BYTES: usize = 4;
pub(super) const FRAME_BYTES: usize = 24;
pub(super) const ACK_BYTES: usize = 16;

/// Longest text of a refusal.
pub(super) const MAX_REASON_BYTES: usize = 240;

const MAGIC: [u8; 4] = *b"HWTC";
const ACCEPTED: u8 = 1;
const REFUSED: u8 = 2;
const PART: u8 = 1;
const BYE: u8 = 2;
const ARRIVED: u8 = 1;
const UNWANTED: u8 = 2;

/// First bytes of a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Hello {
    pub(super) version: u16,
    /// Number of this connection of the session; each is used once.
    pub(super) attempt: u64,
    /// The session's key, hashed with the number: who reads it cannot make the next one.
    pub(super) proof: [u8; 32],
}

/// What follows on the worker's side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Frame {
    /// A part: `regions` lengths of 8 bytes each and then that many bytes follow.
    Part { lease: LeaseId, regions: usize },
    /// The worker leaves; nothing follows.
    Bye,
}

/// The receiver's word on a part, after its last byte was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ack {
    pub(super) lease: LeaseId,
    /// It is in its slot; otherwise it was read and thrown away.
    pub(super) arrived: bool,
}

// === impl Hello ===

impl Hello {
    pub(super) fn encode(&self) -> [u8; HELLO_BYTES] {
        let mut bytes = [0; HELLO_BYTES];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4..6].copy_from_slice(&self.version.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.attempt.to_le_bytes());
        bytes[16..].copy_from_slice(&self.proof);
        bytes
    }

    /// The version, told from the first [`HELLO_HEAD_BYTES`]; `None`: not a worker.
    pub(super) fn version_of(head: &[u8]) -> Option<u16> {
        let rest = head.strip_prefix(&MAGIC)?;
        (rest.get(2..4) == Some(&[0, 0])).then(|| u16::from_le_bytes([rest[0], rest[1]]))
    }

    /// `None`: not a worker of this protocol.
    pub(super) fn decode(bytes: &[u8; HELLO_BYTES]) -> Option<Self> {
        let version = Self::version_of(bytes)?;
        let attempt = u64::from_le_bytes(bytes[8..16].try_into().ok()?);
        Some(Self { version, attempt, proof: bytes[16..].try_into().ok()? })
    }
}

/// The answer to a hello: its first bytes, then the text of a refusal.
pub(super) fn encode_answer(refusal: Option<&str>) -> Vec<u8> {
    let text = refusal.unwrap_or_default();
    let text = &text[..text.floor_char_boundary(MAX_REASON_BYTES)];
    let status = if refusal.is_some() { REFUSED } else { ACCEPTED };
    let mut bytes = vec![status, 0];
    bytes.extend_from_slice(&(text.len() as u16).to_le_bytes());
    bytes.extend_from_slice(text.as_bytes());
    bytes
}

/// Whether the first bytes of an answer are how TLS says that it does not understand.
pub(super) fn is_tls_alert(bytes: [u8; ANSWER_BYTES]) -> bool {
    bytes[..2] == [0x15, 0x03]
}

/// `Some((accepted, length of the text))`, or `None`: not a receiver of this protocol.
pub(super) fn decode_answer(bytes: [u8; ANSWER_BYTES]) -> Option<(bool, usize)> {
    let len = usize::from(u16::from_le_bytes([bytes[2], bytes[3]]));
    match (bytes[0], len) {
        (ACCEPTED, 0) => Some((true, 0)),
        (REFUSED, _) if len <= MAX_REASON_BYTES => Some((false, len)),
        _ => None,
    }
}

// === impl Frame ===

impl Frame {
    pub(super) fn encode(self) -> [u8; FRAME_BYTES] {
        let mut bytes = [0; FRAME_BYTES];
        match self {
            Self::Bye => bytes[0] = BYE,
            Self::Part { lease, regions } => {
                bytes[0] = PART;
                bytes[4..8].copy_from_slice(&(regions as u32).to_le_bytes());
                bytes[8..16].copy_from_slice(&lease.0.to_le_bytes());
            }
        }
        bytes
    }

    /// `None`: not a frame of this protocol.
    pub(super) fn decode(bytes: &[u8; FRAME_BYTES]) -> Option<Self> {
        let regions = u32::from_le_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]) as usize;
        let lease = u64::from_le_bytes(bytes[8..16].try_into().ok()?);
        match bytes[0] {
            _ if bytes[1..4] != [0; 3] || bytes[16..] != [0; 8] => None,
            PART if regions <= MAX_REGIONS => Some(Self::Part { lease: LeaseId(lease), regions }),
            BYE if regions == 0 && lease == 0 => Some(Self::Bye),
            _ => None,
        }
    }
}

/// The bytes ahead of a part's payload.
pub(super) fn encode_part(lease: LeaseId, lens: impl ExactSizeIterator<Item = u64>) -> Vec<u8> {
    let frame = Frame::Part { lease, regions: lens.len() };
    let mut bytes = Vec::with_capacity(FRAME_BYTES + 8 * lens.len());
    bytes.extend_from_slice(&frame.encode());
    bytes.extend(lens.flat_map(u64::to_le_bytes));
    bytes
}

// === impl Ack ===

impl Ack {
    pub(super) fn encode(self) -> [u8; ACK_BYTES] {
        let mut bytes = [0; ACK_BYTES];
        bytes[0] = if self.arrived { ARRIVED } else { UNWANTED };
        bytes[8..].copy_from_slice(&self.lease.0.to_le_bytes());
        bytes
    }

    /// `None`: not an acknowledgement of this protocol.
    pub(super) fn decode(bytes: &[u8; ACK_BYTES]) -> Option<Self> {
        let lease = LeaseId(u64::from_le_bytes(bytes[8..].try_into().ok()?));
        match bytes[0] {
            _ if bytes[1..8] != [0; 7] => None,
            ARRIVED => Some(Self { lease, arrived: true }),
            UNWANTED => Some(Self { lease, arrived: false }),
            _ => None,
        }
    }
}

/// Takes any bytes for each message of this protocol. Panics where one is taken that is written
/// otherwise than it was read.
#[cfg(feature = "conformance")]
pub(crate) fn take_any(bytes: &[u8]) {
    if let Some(hello) = bytes.first_chunk().and_then(Hello::decode) {
        assert_eq!(Hello::decode(&hello.encode()), Some(hello));
    }
    if let Some(first) = bytes.first_chunk() {
        let frame = Frame::decode(first);
        assert!(frame.is_none_or(|frame| frame.encode() == *first), "{frame:?}");
    }
    if let Some(first) = bytes.first_chunk() {
        let ack = Ack::decode(first);
        assert!(ack.is_none_or(|ack| ack.encode() == *first), "{ack:?}");
    }
    let answer = bytes.first_chunk().copied().and_then(decode_answer);
    assert!(answer.is_none_or(|(_, len)| len <= MAX_REASON_BYTES), "{answer:?}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_survive_the_wire() {
        let hello = Hello { version: 3, attempt: 7, proof: std::array::from_fn(|i| i as u8) };
        assert_eq!(Hello::decode(&hello.encode()), Some(hello));
        let lease = LeaseId(0x0102_0304_0506_0708);
        for frame in [Frame::Part { lease, regions: 11 }, Frame::Bye] {
            assert_eq!(Frame::decode(&frame.encode()), Some(frame));
        }
        for arrived in [true, false] {
            let ack = Ack { lease, arrived };
            assert_eq!(Ack::decode(&ack.encode()), Some(ack));
        }
        let refusal = encode_answer(Some("no"));
        assert_eq!(
            decode_answer([refusal[0], refusal[1], refusal[2], refusal[3]]),
            Some((false, 2))
        );
        assert_eq!(&refusal[4..], b"no");
        assert_eq!(encode_answer(None).len(), ANSWER_BYTES);
    }

    #[test]
    fn foreign_bytes_are_not_frames() {
        assert_eq!(Hello::decode(b"GET / HTTP/1.1\r\nHost: headwater.example:7403\r\n\r\n"), None);
        assert_eq!(Frame::decode(&[0xff; FRAME_BYTES]), None);
        let too_many = Frame::Part { lease: LeaseId(1), regions: MAX_REGIONS + 1 };
        assert_eq!(Frame::decode(&too_many.encode()), None);
        assert_eq!(Ack::decode(&[7; ACK_BYTES]), None);
        assert_eq!(decode_answer([REFUSED, 0, 0xff, 0xff]), None);
    }
}
