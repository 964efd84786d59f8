//! Which device and port: found, judged, opened once.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::address;
use super::verbs::{self, Device, DeviceLimits, Library, ProtectionDomain};
use super::wire::{Gid, Offer, Path, common_bits};

/// What the configuration says of device, port, address, and the class of packets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct RdmaPort {
    /// `mlx5_0`, `mlx5_0:2`; empty: the first port that is active, has an address and takes queue
    /// pairs; a worker takes one that the receiver's port can be reached from.
    pub device: String,
    /// Devices in the order in which they are tried where none is named; others come after them.
    pub preferred: Vec<String>,
    /// Index of the address in the port's table. `None`: RoCE v2 before v1, then what has most bits in
    /// common with the other end's (a receiver that does not know it yet: with its end of the control stream), then IPv4, then what is not link-local, then the first.
    pub gid_index: Option<u8>,
    /// Key of the partition, without the bit of membership; 0: the first of the port's table.
    pub pkey: u16,
    /// Traffic class of packets with a global route: on RoCE, six bits of DSCP and two of ECN.
    pub traffic_class: u8,
    /// Service level, from 0 to 15: the virtual lane on InfiniBand, the priority on Ethernet.
    pub service_level: u8,
}

/// An opened device, and the port of it that is used.
#[derive(Debug)]
pub(super) struct Adapter {
    pub(super) domain: Arc<ProtectionDomain>,
    pub(super) limits: DeviceLimits,
    pub(super) port: u8,
    choice: RdmaPort,
}

/// What a port is now. All of it may change while the port is in use.
#[derive(Clone, Copy, Debug)]
pub(super) struct Route {
    pub(super) path: Path,
    /// Index of the partition in the port's table.
    pub(super) pkey_index: u16,
    /// Maximum bytes of one write.
    pub(super) message_max_bytes: u32,
}

/// Says whether a port takes pairs all the way.
type TryOut = fn(&Arc<Adapter>) -> Result<(), String>;

// === impl Adapter ===

impl Adapter {
    /// The adapter of the system's library; shared by all of this process that ask for the same, as long as it can be
    /// used. `towards`: the port to reach.
    ///
    /// # Errors
    /// What is missing, and the remedy.
    pub(super) fn open(
        choice: &RdmaPort,
        towards: Option<&Offer>,
        try_out: TryOut,
    ) -> Result<Arc<Self>, String> {
        type Known = HashMap<(RdmaPort, Option<Vec<u8>>), Weak<Adapter>>;
        static OPENED: Mutex<Option<Known>> = Mutex::new(None);
        let mut opened = OPENED.lock().unwrap_or_else(PoisonError::into_inner);
        let opened = opened.get_or_insert_default();
        let wanted = (choice.clone(), towards.map(Offer::encode));
        let known = opened.get(&wanted).and_then(Weak::upgrade);
        if let Some(adapter) = known.filter(|adapter| adapter.route(None).is_ok()) {
            return Ok(adapter);
        }
        let library = Library::system().map_err(|error| error.to_string())?;
        let adapter = Self::find(&library, choice, towards, try_out)?;
        opened.retain(|_, adapter| adapter.strong_count() > 0);
        opened.insert(wanted, Arc::downgrade(&adapter));
        Ok(adapter)
    }

    /// The best port that can be used.
    pub(super) fn find(
        library: &Library,
        choice: &RdmaPort,
        towards: Option<&Offer>,
        try_out: TryOut,
    ) -> Result<Arc<Self>, String> {
        let mut names = verbs::names(library)
            .map_err(|error| format!("RDMA devices cannot be listed: {error}"))?;
        if names.is_empty() {
            return Err(
                "there is no RDMA device: see /sys/class/infiniband, and docs/rdma.md for \
                        modules and, in a container, /dev/infiniband"
                    .into(),
            );
        }
        let (wanted, port) = match choice.device.rsplit_once(':') {
            Some((name, port)) => (
                name,
                Some(port.parse::<u8>().map_err(|_| {
                    format!("rdma_device `{}` is not a device or device:port", choice.device)
                })?),
            ),
            None => (choice.device.as_str(), None),
        };
        if !wanted.is_empty() && !names.iter().any(|name| name == wanted) {
            return Err(format!("there is no RDMA device `{wanted}`, but {}", names.join(", ")));
        }
        let place = |name: &String| choice.preferred.iter().position(|other| other == name);
        names.sort_by_key(|name| place(name).unwrap_or(usize::MAX));
        let (mut refused, mut found) = (Vec::new(), Vec::new());
        for name in names.iter().filter(|name| wanted.is_empty() || *name == wanted) {
            match Self::ports(library, name, port, choice, &mut refused) {
                Ok(ports) => found.extend(ports),
                Err(reason) => refused.push(reason),
            }
        }
        // Those of one rank stay in their order.
        found.sort_by_key(|(_, route)| towards.map(|offer| rank(&route.path, offer)));
        for (adapter, route) in found {
            let reached = towards.map_or(Ok(()), |offer| reaches(&route.path, offer));
            let tried = reached
                .map_err(|reason| format!("{}: {reason}", adapter.name_port()))
                .and_then(|()| try_out(&adapter));
            match tried {
                Ok(()) => return Ok(adapter),
                Err(reason) => refused.push(reason),
            }
        }
        Err(refused.join("; "))
    }

    /// The ports of a device that can be asked for pairs; what is wrong with the others.
    fn ports(
        library: &Library,
        name: &str,
        port: Option<u8>,
        choice: &RdmaPort,
        refused: &mut Vec<String>,
    ) -> Result<Vec<(Arc<Self>, Route)>, String> {
        let failed = |what: &str, error: io::Error| format!("{name}: {what}: {error}");
        let domain = domain(library, name)?;
        let limits = domain.device().limits().map_err(|error| failed("cannot be asked", error))?;
        let mut ports = Vec::new();
        for port in port.map_or(1..=limits.ports, |port| port..=port) {
            let (domain, choice) = (Arc::clone(&domain), choice.clone());
            let adapter = Arc::new(Self { domain, limits, port, choice });
            match adapter.route(None) {
                Ok(route) => ports.push((adapter, route)),
                Err(reason) => refused.push(reason),
            }
        }
        Ok(ports)
    }

    /// What the port is now, with the address that is best towards another port's.
    ///
    /// # Errors
    /// The port cannot be used now; why.
    pub(super) fn route(&self, towards: Option<&Gid>) -> Result<Route, String> {
        let (device, port, choice) = (self.device(), self.port, &self.choice);
        let name = self.name_port();
        if device.is_dead() {
            return Err(format!("{name}: the device had a fatal error; see the kernel's log"));
        }
        let state =
            device.port(port).map_err(|error| format!("{name} cannot be asked: {error}"))?;
        if !state.is_active() {
            return Err(format!("{name} is {}, not ACTIVE", state.state_name()));
        }
        let Some((gid_index, gid)) =
            address::choose(device, port, &state, choice.gid_index, towards)
        else {
            let which =
                choice.gid_index.map_or("no GID".into(), |i| format!("no GID of index {i}"));
            return Err(format!("{name} has {which}: its network interface has no address"));
        };
        let keys = (0..state.pkeys).map(|index| device.pkey(port, index).unwrap_or(0));
        let pkey_index = pkey_index(choice.pkey, keys).ok_or_else(|| {
            format!("{name} is not in the partition of rdma_pkey {:#06x}", choice.pkey)
        })?;
        let path = Path {
            gid,
            gid_index,
            port,
            lid: state.lid,
            mtu: state.mtu,
            ethernet: state.ethernet,
            needs_grh: state.needs_grh,
            traffic_class: choice.traffic_class,
            service_level: choice.service_level,
        };
        Ok(Route { path, pkey_index, message_max_bytes: state.message_max_bytes.max(1) })
    }

    /// What a worker gets to know of the port, with the address that is best where this end of the control stream
    /// has the address `control`.
    ///
    /// # Errors
    /// As [`Adapter::route`].
    pub(super) fn offer(&self, control: IpAddr) -> Result<Offer, String> {
        let near = match control {
            IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
            IpAddr::V6(address) => address.octets(),
        };
        let Path { ethernet, gid, .. } = self.route(Some(&near))?.path;
        Ok(Offer { ethernet, gid, description: self.describe() })
    }

    pub(super) fn device(&self) -> &Device {
        self.domain.device()
    }

    fn name_port(&self) -> String {
        format!("{}: port {}", self.device().name(), self.port)
    }

    /// For logs.
    pub(super) fn describe(&self) -> String {
        let name = self.device().name();
        match self.route(None) {
            Ok(Route { path: Path { gid, gid_index, port, ethernet, .. }, .. }) => {
                let layer = if ethernet { "Ethernet" } else { "InfiniBand" };
                format!("{name} port {port} ({layer}), GID {gid_index} {}", Ipv6Addr::from(gid))
            }
            Err(reason) => reason,
        }
    }
}

/// The device of this name, opened once for all of this process, until it has a fatal error.
fn domain(library: &Library, name: &str) -> Result<Arc<ProtectionDomain>, String> {
    static OPENED: Mutex<Option<HashMap<String, Weak<ProtectionDomain>>>> = Mutex::new(None);
    let failed = |what: &str, error: io::Error| format!("{name}: {what}: {error}");
    let mut opened = OPENED.lock().unwrap_or_else(PoisonError::into_inner);
    let opened = opened.get_or_insert_default();
    let known = opened.get(name).and_then(Weak::upgrade);
    if let Some(domain) = known.filter(|domain| !domain.device().is_dead()) {
        return Ok(domain);
    }
    let device = verbs::open(library, name).map_err(|error| {
        failed("cannot be opened (may /dev/infiniband/uverbs* be read and written?)", error)
    })?;
    let domain = ProtectionDomain::new(device)
        .map_err(|error| failed("gives no protection domain", error))?;
    opened.insert(name.to_owned(), Arc::downgrade(&domain));
    Ok(domain)
}

/// Whether packets of a port can come to the offered one.
fn reaches(own: &Path, offer: &Offer) -> Result<(), String> {
    own.check_reach(&Path { ethernet: offer.ethernet, gid: offer.gid, ..*own })
}

/// Least for the port that is nearest to the offered one, as their addresses show it.
fn rank(own: &Path, offer: &Offer) -> u32 {
    128 - common_bits(&own.gid, &offer.gid)
}

/// Where a partition stands in a port's table. A key's highest bit says that its port is a full member.
fn pkey_index(wanted: u16, mut keys: impl Iterator<Item = u16>) -> Option<u16> {
    const NUMBER: u16 = 0x7fff;
    if wanted == 0 {
        return Some(0);
    }
    let found = keys.position(|key| key & NUMBER == wanted & NUMBER)?;
    u16::try_from(found).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partition_is_found_by_its_number() {
        let table = || [0xffff, 0x8001, 0x0002].into_iter();
        assert_eq!(pkey_index(0, table()), Some(0), "none is asked for");
        assert_eq!(pkey_index(0x0001, table()), Some(1));
        assert_eq!(pkey_index(0x8002, table()), Some(2));
        assert_eq!(pkey_index(0x0003, table()), None);
    }
}
