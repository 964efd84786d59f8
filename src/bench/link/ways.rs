//! The ways of moving batches that are measured, and the yardsticks beside them. Which links there are, the table of
//! links says.

use headwater_transport::LinkKind;
use headwater_transport::links::Reference;

/// One way of moving batches, or a yardstick. Two are the same if they have the same name.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Way {
    /// Copies a batch within one process.
    Memcpy,
    /// Writes and reads whole batches over a bare TCP socket, into a reused buffer.
    RawSocket,
    /// A link; nothing is rendered.
    Link(Route),
    /// A program of others that measures the same as a link.
    Reference(&'static Reference),
    /// A link whose workers render in the slot; each part is filled by memset there.
    Fill(Route),
    /// The same memset into the worker's own memory, without a link.
    PrivateFill,
}

/// A link that can be measured, encrypted or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Route {
    pub(super) kind: LinkKind,
    pub(super) encrypted: bool,
}

// === impl Way ===

impl Way {
    /// All, in the order of a round: links that every machine has first, those within the slot last.
    pub(crate) fn all() -> Vec<Self> {
        let routes = Route::all().into_iter();
        let (in_slot, mut moving): (Vec<Route>, Vec<Route>) =
            routes.partition(|route| route.kind.facts().renders_in_slot);
        moving.sort_by_key(|route| !route.kind.facts().is_everywhere);
        let mut ways = vec![Self::Memcpy, Self::RawSocket];
        for route in moving {
            ways.push(Self::Link(route));
            if !route.encrypted {
                ways.extend(route.kind.references().iter().map(Self::Reference));
            }
        }
        ways.extend(in_slot.into_iter().flat_map(|route| [Self::Link(route), Self::Fill(route)]));
        ways.push(Self::PrivateFill);
        ways
    }

    /// What is compared with what: links with their yardsticks.
    pub(super) fn pairs() -> Vec<(String, Self, Self)> {
        let yardsticks = |way: Self| match way {
            Self::Link(Route { kind, encrypted: true }) => {
                let plain = Self::Link(Route { kind, encrypted: false });
                vec![(format!("{kind} with tls / {kind}"), way, plain)]
            }
            Self::Link(Route { kind, .. }) if kind.facts().renders_in_slot => Vec::new(),
            Self::Link(Route { kind, .. }) if kind.references().is_empty() => {
                vec![(format!("{kind} / raw socket"), way, Self::RawSocket)]
            }
            Self::Link(Route { kind, .. }) => {
                let references = kind.references().iter();
                let pair = |other: &'static Reference| {
                    (format!("{kind} / {}", other.name), way, Self::Reference(other))
                };
                references.map(pair).collect()
            }
            Self::Fill(Route { kind, .. }) => {
                vec![(format!("{kind} fill / private fill"), way, Self::PrivateFill)]
            }
            Self::Memcpy | Self::RawSocket | Self::Reference(_) | Self::PrivateFill => Vec::new(),
        };
        Self::all().into_iter().flat_map(yardsticks).collect()
    }

    /// Name in reports and orders.
    pub(crate) fn name(self) -> String {
        match self {
            Self::Memcpy => "memcpy".to_owned(),
            Self::RawSocket => "raw-socket".to_owned(),
            Self::Link(route) if route.kind.facts().renders_in_slot => {
                format!("{}-empty", route.name())
            }
            Self::Link(route) => route.name(),
            Self::Reference(reference) => reference.name.to_owned(),
            Self::Fill(route) => format!("{}-fill", route.name()),
            Self::PrivateFill => "private-fill".to_owned(),
        }
    }

    pub(super) fn from_name(name: &str) -> Option<Self> {
        Self::all().into_iter().find(|way| way.name() == name)
    }

    /// The link that it goes over.
    pub(super) fn route(self) -> Option<Route> {
        match self {
            Self::Link(route) | Self::Fill(route) => Some(route),
            Self::Memcpy | Self::RawSocket | Self::Reference(_) | Self::PrivateFill => None,
        }
    }

    /// Whether it moves no byte of a part: a link in the slot, where nothing is rendered.
    pub(super) fn is_empty(self) -> bool {
        matches!(self, Self::Link(route) if route.kind.facts().renders_in_slot)
    }
}

impl PartialEq for Way {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

impl Eq for Way {}

// === impl Route ===

impl Route {
    /// All whose slots may be in the host's memory, encrypted ones beside the plain ones.
    pub(super) fn all() -> Vec<Self> {
        let plain = |kind| Self { kind, encrypted: false };
        let measured = LinkKind::ALL.into_iter().filter(|kind| !kind.facts().imports_slots);
        let routes = measured.flat_map(|kind| {
            let facts = kind.facts();
            let encrypts = facts.keeps_private && !facts.is_within_host;
            [plain(kind)].into_iter().chain(encrypts.then_some(Self { kind, encrypted: true }))
        });
        routes.collect()
    }

    pub(super) fn name(self) -> String {
        if self.encrypted { format!("{}-tls", self.kind) } else { self.kind.name().to_owned() }
    }

    pub(super) fn from_name(name: &str) -> Option<Self> {
        Self::all().into_iter().find(|route| route.name() == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reports of earlier releases are compared by these names, and rows stand in this order.
    #[test]
    fn ways_keep_their_names_and_their_order() {
        let names: Vec<String> = Way::all().into_iter().map(Way::name).collect();
        let expected = [
            "memcpy",
            "raw-socket",
            "tcp",
            "tcp-tls",
            "rdma",
            "ib_write_bw",
            "ib_write_bw-as-link",
            "ucx",
            "ucx_perftest",
            "shm-empty",
            "shm-fill",
            "private-fill",
        ];
        assert_eq!(names, expected);
        let pairs: Vec<String> = Way::pairs().into_iter().map(|(name, ..)| name).collect();
        let expected = [
            "tcp / raw socket",
            "tcp with tls / tcp",
            "rdma / ib_write_bw",
            "rdma / ib_write_bw-as-link",
            "ucx / ucx_perftest",
            "shm fill / private fill",
        ];
        assert_eq!(pairs, expected);
        assert!(Way::all().into_iter().all(|way| Way::from_name(&way.name()) == Some(way)));
    }
}
