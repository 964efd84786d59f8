//! How a session of the rdma link begins, over the control stream; little-endian. What follows goes over
//! the first queue pair, as `link::messages` has it; docs/wire-format.md has the table.

use crate::link::messages::{SlotTerms, u32_at, u64_at};
use crate::links::config::QUEUE_PAIRS_MAX;
use crate::memory::place::LeaseId;

/// Version of what goes over both; both ends must have the same.
pub(super) const VERSION: u16 = 3;

/// No message is longer.
pub(super) const MESSAGE_MAX_BYTES: usize = 64;

const MAGIC: [u8; 4] = *b"HWRD";
const ACCEPTED: u8 = 1;
const REFUSED: u8 = 2;

/// Address of a port in the fabric, in network order.
pub(crate) type Gid = [u8; 16];

/// How packets find a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Path {
    pub(crate) gid: Gid,
    /// Of this host only: which entry of its port's table the GID is.
    pub(crate) gid_index: u8,
    /// Of this host only.
    pub(crate) port: u8,
    /// Number in an InfiniBand subnet; 0 on Ethernet.
    pub(crate) lid: u16,
    /// 1 is 256 bytes, 5 is 4096.
    pub(crate) mtu: u8,
    pub(crate) ethernet: bool,
    /// Its packets need a global route, even within their subnet.
    pub(crate) needs_grh: bool,
    /// Of this host only: what its packets say of their class, and the lane of switches they take.
    pub(crate) traffic_class: u8,
    pub(crate) service_level: u8,
}

/// One queue pair, as its peer addresses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct QueuePairAddress {
    /// 24 bits.
    pub(crate) number: u32,
    /// Sequence number of its first packet, 24 bits.
    pub(crate) first_packet: u32,
}

/// One end of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Endpoint {
    pub(super) path: Path,
    pub(super) pairs: Vec<QueuePairAddress>,
}

/// A worker asks to be let in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) version: u16,
    pub(super) key: [u8; 32],
    pub(super) endpoint: Endpoint,
}

/// What it is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// Pairs that are ready, and where to write the probe.
    Accepted { endpoint: Endpoint, probe: RemoteMemory },
    /// Not let in; why.
    Refused { reason: String },
}

/// Memory that a peer may write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RemoteMemory {
    pub(super) address: u64,
    pub(super) len_bytes: u64,
    pub(super) key: u32,
}

/// Prefix of the InfiniBand subnet that a port is in.
fn subnet(gid: &Gid) -> u64 {
    u64::from_be_bytes(std::array::from_fn(|i| gid[i]))
}

/// Bits that two addresses have in common, from the first on.
pub(super) fn common_bits(one: &Gid, other: &Gid) -> u32 {
    (u128::from_be_bytes(*one) ^ u128::from_be_bytes(*other)).leading_zeros()
}

/// What a receiver says of its port before a worker has chosen its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Offer {
    pub(super) ethernet: bool,
    /// The address of the port that is preferred.
    pub(super) gid: Gid,
    /// For logs.
    pub(super) description: String,
}

// === impl Offer ===

impl Offer {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = [&MAGIC[..], &VERSION.to_le_bytes(), &[u8::from(self.ethernet)]].concat();
        bytes.extend_from_slice(&self.gid);
        bytes.extend_from_slice(self.description.as_bytes());
        bytes
    }

    /// `None`: not an offer of this version.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let rest = bytes.strip_prefix(&MAGIC)?.strip_prefix(&VERSION.to_le_bytes())?;
        let (&ethernet, rest) = rest.split_first()?;
        let (gid, description) = rest.split_first_chunk::<16>()?;
        let description = String::from_utf8(description.to_vec()).ok()?;
        (ethernet <= 1).then_some(Self { ethernet: ethernet == 1, gid: *gid, description })
    }
}

// === impl Path ===

impl Path {
    /// On Ethernet there is no other; on InfiniBand where one end asks for it.
    pub(crate) fn has_global_route(&self, peer: &Self) -> bool {
        self.ethernet || self.needs_grh || peer.needs_grh
    }

    /// Whether packets can be addressed to the peer.
    ///
    /// # Errors
    /// They cannot; why, and the remedy.
    pub(crate) fn check_reach(&self, peer: &Self) -> Result<(), String> {
        if self.ethernet != peer.ethernet {
            return Err(
                "one port is Ethernet (RoCE), the other InfiniBand: name a port of the same \
                        kind by rdma_device on both ends"
                    .into(),
            );
        }
        if !self.ethernet && self.gid[..8] != peer.gid[..8] {
            let [own, theirs] = [self, peer].map(|path| subnet(&path.gid));
            return Err(format!(
                "the two InfiniBand ports are in different subnets ({own:016x} and {theirs:016x}), and \
                 the number of the router between them is not looked up: name ports of one subnet by \
                 rdma_device, or leave \"rdma\" out of links"
            ));
        }
        Ok(())
    }

    fn encode(&self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(&self.gid);
        bytes.extend_from_slice(&self.lid.to_le_bytes());
        let flags = u8::from(self.ethernet) | u8::from(self.needs_grh) << 1;
        bytes.extend_from_slice(&[self.mtu, flags]);
    }

    fn decode(bytes: &[u8; 20]) -> Option<Self> {
        let (mtu, flags) = (bytes[18], bytes[19]);
        if !(1..=5).contains(&mtu) || flags > 3 {
            return None;
        }
        Some(Self {
            gid: bytes[..16].try_into().ok()?,
            gid_index: 0,
            port: 0,
            lid: u16::from_le_bytes([bytes[16], bytes[17]]),
            mtu,
            ethernet: flags & 1 == 1,
            needs_grh: flags & 2 == 2,
            traffic_class: 0,
            service_level: 0,
        })
    }
}

// === impl Endpoint ===

impl Endpoint {
    fn encode(&self, bytes: &mut Vec<u8>) {
        self.path.encode(bytes);
        bytes.push(self.pairs.len() as u8);
        for pair in &self.pairs {
            bytes.extend_from_slice(&pair.number.to_le_bytes());
            bytes.extend_from_slice(&pair.first_packet.to_le_bytes());
        }
    }

    /// The endpoint and what follows it.
    fn decode(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (path, rest) = bytes.split_first_chunk::<20>()?;
        let (&count, rest) = rest.split_first()?;
        if count == 0 || u32::from(count) > QUEUE_PAIRS_MAX {
            return None;
        }
        let (pairs, rest) = rest.split_at_checked(8 * usize::from(count))?;
        let pair = |bytes: &[u8; 8]| {
            let (number, first_packet) = (u32_at(bytes, 0), u32_at(bytes, 4));
            let fits = number >> 24 == 0 && first_packet >> 24 == 0;
            fits.then_some(QueuePairAddress { number, first_packet })
        };
        let pairs = pairs.as_chunks().0.iter().map(pair).collect::<Option<_>>()?;
        Some((Self { path: Path::decode(path)?, pairs }, rest))
    }
}

// === impl Request ===

impl Request {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = [&MAGIC[..], &self.version.to_le_bytes(), &self.key].concat();
        self.endpoint.encode(&mut bytes);
        bytes
    }

    /// `None`: not a worker of this protocol. Of another version only that is known.
    pub(super) fn decode(bytes: &[u8]) -> Option<Result<Self, u16>> {
        let rest = bytes.strip_prefix(&MAGIC)?;
        let (version, rest) = rest.split_first_chunk::<2>()?;
        let version = u16::from_le_bytes(*version);
        if version != VERSION {
            return Some(Err(version));
        }
        let (key, rest) = rest.split_first_chunk::<32>()?;
        let (endpoint, rest) = Endpoint::decode(rest)?;
        rest.is_empty().then_some(Ok(Self { version, key: *key, endpoint }))
    }
}

// === impl Answer ===

impl Answer {
    pub(super) fn encode(&self) -> Vec<u8> {
        match self {
            Self::Accepted { endpoint, probe } => {
                let mut bytes = vec![ACCEPTED];
                probe.encode(&mut bytes);
                endpoint.encode(&mut bytes);
                bytes
            }
            Self::Refused { reason } => [&[REFUSED], reason.as_bytes()].concat(),
        }
    }

    /// `None`: not a receiver of this protocol.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        match bytes.split_first()? {
            (&ACCEPTED, rest) => {
                let (probe, rest) = rest.split_first_chunk::<20>()?;
                let (endpoint, rest) = Endpoint::decode(rest)?;
                let probe = RemoteMemory::decode(probe)?;
                rest.is_empty().then_some(Self::Accepted { endpoint, probe })
            }
            (&REFUSED, reason) => {
                Some(Self::Refused { reason: String::from_utf8(reason.to_vec()).ok()? })
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
        bytes.extend_from_slice(&self.key.to_le_bytes());
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; 20] = bytes.try_into().ok()?;
        let (address, len_bytes) = (u64_at(bytes, 0), u64_at(bytes, 8));
        Some(Self { address, len_bytes, key: u32_at(bytes, 16) })
    }
}

/// What a write says of its lease. Leases are numbered one by one, and far fewer than 2^32 are open at
/// a time.
pub(super) fn low_half(lease: LeaseId) -> u32 {
    lease.0 as u32
}

/// Takes any bytes for each message of this protocol. Panics where one is taken that is written
/// otherwise than it was read.
#[cfg(feature = "conformance")]
pub(crate) fn take_any(bytes: &[u8]) {
    let written = [
        Request::decode(bytes).and_then(Result::ok).map(|message| message.encode()),
        Answer::decode(bytes).map(|message| message.encode()),
        Offer::decode(bytes).map(|message| message.encode()),
    ];
    assert!(written.iter().flatten().all(|written| written == bytes), "{written:?}");
    crate::link::messages::take_any::<RemoteMemory>(bytes);
}

#[cfg(test)]
mod tests;
