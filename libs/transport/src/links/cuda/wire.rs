//! Messages that only the cuda link sends over its socket; docs/wire-format.md has the table.

use crate::link::messages::{SlotTerms, u64_at};
use crate::memory::window::{ExportedWindow, GpuUuid, WindowHandle};

/// Version of what goes over the socket; both ends must have the same.
pub(crate) const VERSION: u16 = 1;

/// Begins a worker's hello.
pub(crate) const MAGIC: [u8; 4] = *b"HWCU";

/// Begins a challenge, and no message.
const CHALLENGE: u8 = 64;
/// All of the answer to it.
pub(crate) const ANSWERED: [u8; 1] = [65];

const LEN_LEAST: usize = 33;
const FILE: u8 = 1;
const FABRIC: u8 = 2;

/// What is said of a slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Terms {
    pub(crate) len_bytes: u64,
    pub(crate) whole_bytes: u64,
    pub(crate) gpu: GpuUuid,
    pub(crate) handle: HandleTerms,
}

/// What is said of a slot's handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HandleTerms {
    /// It comes with the packet.
    File,
    Fabric([u8; 64]),
}

/// The receiver's answer to a hello: memory where both ends show that they reach the same bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Challenge {
    /// Where in the memory.
    pub(crate) offset_bytes: u64,
    pub(crate) terms: Terms,
}

// === impl Terms ===

impl Terms {
    pub(crate) fn of(window: &ExportedWindow) -> Self {
        let handle = match window.handle {
            WindowHandle::File(_) => HandleTerms::File,
            WindowHandle::Fabric(bytes) => HandleTerms::Fabric(bytes),
        };
        let &ExportedWindow { gpu, len_bytes, whole_bytes, .. } = window;
        Self { len_bytes, whole_bytes, gpu, handle }
    }
}

impl SlotTerms for Terms {
    fn encode(&self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(&self.len_bytes.to_le_bytes());
        bytes.extend_from_slice(&self.whole_bytes.to_le_bytes());
        bytes.extend_from_slice(&self.gpu.0);
        match &self.handle {
            HandleTerms::File => bytes.push(FILE),
            HandleTerms::Fabric(handle) => {
                bytes.push(FABRIC);
                bytes.extend_from_slice(handle);
            }
        }
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (fixed, handle) = bytes.split_at_checked(LEN_LEAST)?;
        let handle = match (fixed[LEN_LEAST - 1], handle) {
            (FILE, []) => HandleTerms::File,
            (FABRIC, handle) => HandleTerms::Fabric(handle.try_into().ok()?),
            _ => return None,
        };
        let gpu = GpuUuid(std::array::from_fn(|i| fixed[16 + i]));
        Some(Self { len_bytes: u64_at(fixed, 0), whole_bytes: u64_at(fixed, 8), gpu, handle })
    }
}

// === impl Challenge ===

impl Challenge {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = [&[CHALLENGE][..], &self.offset_bytes.to_le_bytes()].concat();
        self.terms.encode(&mut bytes);
        bytes
    }

    /// `None`: it is none.
    pub(crate) fn decode(packet: &[u8]) -> Option<Self> {
        let (&CHALLENGE, body) = packet.split_first()? else { return None };
        let (offset, terms) = body.split_first_chunk()?;
        Some(Self { offset_bytes: u64::from_le_bytes(*offset), terms: Terms::decode(terms)? })
    }
}

/// Takes any bytes for each message of this protocol. Panics where one is taken that is written
/// otherwise than it was read.
#[cfg(feature = "conformance")]
pub(crate) fn take_any(packet: &[u8]) {
    crate::links::local::hello::take_any(MAGIC, packet);
    if let Some(challenge) = Challenge::decode(packet) {
        assert_eq!(challenge.encode(), packet, "{challenge:?}");
    }
    crate::link::messages::take_any::<Terms>(packet);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::messages::ToWorker;
    use crate::links::local::hello::{MAX_PACKET_BYTES, decode_refusal};
    use crate::memory::place::SlotId;

    fn terms(handle: HandleTerms) -> Terms {
        let gpu = GpuUuid(std::array::from_fn(|i| 100 + i as u8));
        Terms { len_bytes: 1 << 40, whole_bytes: (1 << 40) + 4096, gpu, handle }
    }

    #[test]
    fn slots_and_challenges_survive_the_wire_and_fit_a_packet() {
        for handle in [HandleTerms::File, HandleTerms::Fabric(std::array::from_fn(|i| i as u8))] {
            let terms = terms(handle);
            let slot = ToWorker::Slot { slot: SlotId(9), terms: terms.clone() };
            assert_eq!(ToWorker::decode(&slot.encode()), Some(slot.clone()));
            let challenge = Challenge { offset_bytes: 384, terms };
            let packet = challenge.encode();
            assert_eq!(Challenge::decode(&packet), Some(challenge));
            assert_eq!((ToWorker::<Terms>::decode(&packet), decode_refusal(&packet)), (None, None));
            assert!(packet.len().max(slot.encode().len()) <= MAX_PACKET_BYTES);
        }
    }

    #[test]
    fn cut_terms_and_unknown_handles_are_none() {
        for handle in [HandleTerms::File, HandleTerms::Fabric([7; 64])] {
            let mut bytes = Vec::new();
            terms(handle).encode(&mut bytes);
            for len in 0..bytes.len() {
                assert_eq!(Terms::decode(&bytes[..len]), None, "{len} bytes");
            }
            bytes[LEN_LEAST - 1] = 3;
            assert_eq!(Terms::decode(&bytes), None);
        }
    }
}
