//! Text between the two processes.

use std::io;
use std::time::Duration;

use headwater_core::hex;
use headwater_transport::SessionKey;
use rustix::time::{ClockId, clock_gettime};

use super::plan::Plan;
use super::ways::{Route, Way};

/// What the worker has to know, as one word of a command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Invitation {
    pub(super) links: Vec<Invited>,
    pub(super) raw: String,
    pub(super) batch_samples: u32,
    pub(super) part_samples: u32,
    pub(super) slots: u32,
}

/// A link that the worker is to connect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Invited {
    pub(super) route: Route,
    /// As the receiver's end offers it.
    pub(super) address: Vec<u8>,
    pub(super) key: SessionKey,
}

/// Leases of one measurement are numbered from `first_lease` on, batch after batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Order {
    pub(super) way: Way,
    pub(super) batches: u32,
    pub(super) first_lease: u64,
}

/// What one process spent on a measurement.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Spent {
    pub(super) wall: Duration,
    pub(super) cpu: Duration,
}

/// Processor time of this process, all threads.
pub(super) fn cpu_time() -> Duration {
    let spent = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(spent.tv_sec.cast_unsigned(), spent.tv_nsec as u32)
}

// === impl Invitation ===

impl Invitation {
    pub(super) fn plan(&self) -> Plan {
        Plan {
            batch_samples: self.batch_samples,
            part_samples: self.part_samples,
            slots: self.slots,
            ..Plan::default()
        }
    }

    pub(super) fn encode(&self) -> String {
        let fields: [&[u8]; 4] = [
            self.raw.as_bytes(),
            &self.batch_samples.to_le_bytes(),
            &self.part_samples.to_le_bytes(),
            &self.slots.to_le_bytes(),
        ];
        let links = self.links.iter().flat_map(|Invited { route, address, key }| {
            [hex(route.name().as_bytes()), hex(address), hex(&key.0)]
        });
        fields.map(hex).into_iter().chain(links).collect::<Vec<_>>().join(".")
    }

    pub(super) fn decode(text: &str) -> Option<Self> {
        let fields: Vec<Vec<u8>> = text.split('.').map(unhex).collect::<Option<_>>()?;
        let ([raw, batch, part, slots], links) = fields.split_first_chunk()?;
        let (links, []) = links.as_chunks() else { return None };
        let invited = |[route, address, key]: &[Vec<u8>; 3]| {
            Some(Invited {
                route: Route::from_name(std::str::from_utf8(route).ok()?)?,
                address: address.clone(),
                key: SessionKey(key.as_slice().try_into().ok()?),
            })
        };
        let number = |bytes: &[u8]| Some(u32::from_le_bytes(bytes.try_into().ok()?));
        Some(Self {
            links: links.iter().map(invited).collect::<Option<_>>()?,
            raw: String::from_utf8(raw.clone()).ok()?,
            batch_samples: number(batch)?,
            part_samples: number(part)?,
            slots: number(slots)?,
        })
    }
}

// === impl Order ===

impl Order {
    pub(super) fn encode(self) -> String {
        format!("{} {} {}", self.way.name(), self.batches, self.first_lease)
    }

    pub(super) fn decode(line: &str) -> Option<Self> {
        let mut words = line.split_whitespace();
        Some(Self {
            way: Way::from_name(words.next()?)?,
            batches: words.next()?.parse().ok()?,
            first_lease: words.next()?.parse().ok()?,
        })
    }
}

// === impl Spent ===

impl Spent {
    pub(super) fn encode(self) -> String {
        format!("spent {} {}", self.wall.as_nanos(), self.cpu.as_nanos())
    }

    pub(super) fn decode(line: &str) -> io::Result<Self> {
        let mut words = line.split_whitespace();
        let spent = words.next().filter(|&word| word == "spent").and_then(|_| {
            let mut nanos = || words.next()?.parse().ok().map(Duration::from_nanos);
            Some(Self { wall: nanos()?, cpu: nanos()? })
        });
        spent.ok_or_else(|| io::Error::other(format!("the bench worker says: {}", line.trim())))
    }
}

/// Bytes of hexadecimal digits; `None` for anything else.
pub(super) fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits: Vec<u8> =
        text.chars().map(|digit| Some(digit.to_digit(16)? as u8)).collect::<Option<_>>()?;
    let (pairs, rest) = digits.as_chunks::<2>();
    rest.is_empty().then(|| pairs.iter().map(|[high, low]| high << 4 | low).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invitation_survives_a_command_line() {
        let link = |route, address: &[u8], key| Invited {
            route: Route::from_name(route).expect("a route"),
            address: address.to_vec(),
            key: SessionKey([key; 32]),
        };
        let invitation = Invitation {
            links: vec![link("shm", b"@name", 1), link("tcp-tls", b"", 255)],
            raw: "127.0.0.1:1".into(),
            batch_samples: 32,
            part_samples: 8,
            slots: 4,
        };
        assert_eq!(Invitation::decode(&invitation.encode()), Some(invitation));
        assert_eq!(Invitation::decode("00.11"), None);
    }

    #[test]
    fn orders_survive_a_line() {
        let order = Order { way: Way::PrivateFill, batches: 3, first_lease: 77 };
        assert_eq!(Order::decode(&order.encode()), Some(order));
        assert_eq!(Order::decode("sideways 1 2"), None);
    }
}
