//! How a connection between processes of one host begins, one packet each way; little-endian. What follows is in
//! `link::messages`; docs/wire-format.md has the table.

/// No packet is longer.
pub(crate) const MAX_PACKET_BYTES: usize = 256;

/// Begins a refusal, and no message.
const REFUSED: u8 = 0;

/// A worker's first packet: who is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hello {
    /// Names the link.
    pub(crate) magic: [u8; 4],
    pub(crate) version: u16,
    pub(crate) key: [u8; 32],
}

// === impl Hello ===

impl Hello {
    pub(crate) fn encode(&self) -> Vec<u8> {
        [&self.magic[..], &self.version.to_le_bytes(), &self.key].concat()
    }

    /// `None`: not a worker of the link that `magic` names.
    pub(crate) fn decode(magic: [u8; 4], packet: &[u8]) -> Option<Self> {
        let (version, key) = packet.strip_prefix(&magic)?.split_first_chunk()?;
        Some(Self { magic, version: u16::from_le_bytes(*version), key: key.try_into().ok()? })
    }
}

/// The answer to a hello of a worker that is not let in.
pub(crate) fn encode_refusal(reason: &str) -> Vec<u8> {
    let end = reason.floor_char_boundary(MAX_PACKET_BYTES - 1);
    [&[REFUSED], &reason.as_bytes()[..end]].concat()
}

/// The reason of a refusal; `None`: it is none.
pub(crate) fn decode_refusal(packet: &[u8]) -> Option<&str> {
    let (&REFUSED, reason) = packet.split_first()? else { return None };
    std::str::from_utf8(reason).ok()
}

/// Takes any bytes for each of these packets. Panics where one is taken that is written otherwise than it was read.
#[cfg(feature = "conformance")]
pub(crate) fn take_any(magic: [u8; 4], packet: &[u8]) {
    if let Some(hello) = Hello::decode(magic, packet) {
        assert_eq!(hello.encode(), packet, "{hello:?}");
    }
    // The kernel hands out no longer ones; a longer reason would be cut.
    let packet = &packet[..packet.len().min(MAX_PACKET_BYTES)];
    if let Some(reason) = decode_refusal(packet) {
        assert_eq!(encode_refusal(reason), packet, "{reason:?}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAGIC: [u8; 4] = *b"HWSM";

    #[test]
    fn a_hello_and_a_refusal_survive_the_wire() {
        let hello = Hello { magic: MAGIC, version: 7, key: std::array::from_fn(|i| i as u8) };
        assert_eq!(Hello::decode(MAGIC, &hello.encode()), Some(hello));
        assert_eq!(decode_refusal(&encode_refusal("no")), Some("no"));
    }

    #[test]
    fn foreign_packets_are_neither() {
        for packet in [&[][..], &[1], b"HWSM", b"GET / HTTP/1.1\r\nHost: headwater", &[9; 38]] {
            assert_eq!((Hello::decode(MAGIC, packet), decode_refusal(packet)), (None, None));
        }
        let other = Hello { magic: *b"HWCU", version: 7, key: [1; 32] };
        assert_eq!(Hello::decode(MAGIC, &other.encode()), None, "a worker of another link");
    }

    #[test]
    fn a_long_reason_is_cut_at_a_character() {
        let packet = encode_refusal(&"\u{e4}".repeat(1000));
        assert!(packet.len() <= MAX_PACKET_BYTES);
        assert!(decode_refusal(&packet).is_some());
    }
}
