//! Which device and port: found, judged, opened once.

use std::collections::HashMap;
use std::io;
use std::net::Ipv6Addr;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::verbs::{self, DeviceLimits, Library, PortState, ProtectionDomain};
use super::wire::{Gid, Path};

/// What the configuration says of device, port and address.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct RdmaPort {
    /// `mlx5_0`, `mlx5_0:2`; empty: the first port that is active and has an address.
    pub device: String,
    /// Index of the address in the port's table. `None`: RoCE v2 with an IPv4 address, else the
    /// first that is not link-local, else the first.
    pub gid_index: Option<u8>,
}

/// An opened device, and the port of it that is used.
#[derive(Debug)]
pub(super) struct Adapter {
    pub(super) domain: Arc<ProtectionDomain>,
    pub(super) limits: DeviceLimits,
    pub(super) path: Path,
    /// Most bytes of one write.
    pub(super) message_max_bytes: u32,
}

// === impl Adapter ===

impl Adapter {
    /// The adapter of the system's library; shared by all of this process that ask for the same.
    ///
    /// # Errors
    /// What is missing, and the remedy.
    pub(super) fn open(choice: &RdmaPort) -> Result<Arc<Self>, String> {
        static OPENED: Mutex<Option<HashMap<RdmaPort, Weak<Adapter>>>> = Mutex::new(None);
        let mut opened = OPENED.lock().unwrap_or_else(PoisonError::into_inner);
        let opened = opened.get_or_insert_default();
        if let Some(adapter) = opened.get(choice).and_then(Weak::upgrade) {
            return Ok(adapter);
        }
        let library = Library::system().map_err(|error| error.to_string())?;
        let adapter = Arc::new(Self::find(&library, choice)?);
        opened.insert(choice.clone(), Arc::downgrade(&adapter));
        Ok(adapter)
    }

    /// The first port that can be used.
    pub(super) fn find(library: &Library, choice: &RdmaPort) -> Result<Self, String> {
        let names = verbs::names(library)
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
        let mut refused = Vec::new();
        for name in names.iter().filter(|name| wanted.is_empty() || *name == wanted) {
            match Self::open_device(library, name, port, choice.gid_index) {
                Ok(adapter) => return Ok(adapter),
                Err(reason) => refused.push(reason),
            }
        }
        if refused.is_empty() {
            return Err(format!("there is no RDMA device `{wanted}`, but {}", names.join(", ")));
        }
        Err(refused.join("; "))
    }

    fn open_device(
        library: &Library,
        name: &str,
        port: Option<u8>,
        gid_index: Option<u8>,
    ) -> Result<Self, String> {
        let failed = |what: &str, error: io::Error| format!("{name}: {what}: {error}");
        let device = verbs::open(library, name).map_err(|error| {
            failed("cannot be opened (may /dev/infiniband/uverbs* be read and written?)", error)
        })?;
        let limits = device.limits().map_err(|error| failed("cannot be asked", error))?;
        let ports = port.map_or(1..=limits.ports, |port| port..=port);
        let mut refused = Vec::new();
        for number in ports {
            let state = match device.port(number) {
                Ok(state) => state,
                Err(error) => {
                    refused.push(failed(&format!("port {number} cannot be asked"), error));
                    continue;
                }
            };
            if !state.is_active() {
                let state = state.state_name();
                refused.push(format!("{name}: port {number} is {state}, not ACTIVE"));
                continue;
            }
            let gids = |index| device.gid(number, index).ok();
            let Some((index, gid)) = choose_gid(name, number, &state, gid_index, gids) else {
                let which = gid_index.map_or("no GID".into(), |i| format!("no GID of index {i}"));
                refused.push(format!(
                    "{name}: port {number} has {which}: its network interface has no address"
                ));
                continue;
            };
            let path = Path {
                gid,
                gid_index: index,
                port: number,
                lid: state.lid,
                mtu: state.mtu,
                ethernet: state.ethernet,
            };
            let domain = ProtectionDomain::new(Arc::clone(&device))
                .map_err(|error| failed("gives no protection domain", error))?;
            let message_max_bytes = state.message_max_bytes.max(1);
            return Ok(Self { domain, limits, path, message_max_bytes });
        }
        Err(refused.join("; "))
    }

    /// For logs.
    pub(super) fn describe(&self) -> String {
        let Path { gid, gid_index, port, ethernet, .. } = self.path;
        let layer = if ethernet { "Ethernet" } else { "InfiniBand" };
        let name = self.domain.device().name();
        format!("{name} port {port} ({layer}), GID {gid_index} {}", Ipv6Addr::from(gid))
    }
}

/// An entry of the port's table that packets can be sent from.
fn choose_gid(
    device: &str,
    port: u8,
    state: &PortState,
    wanted: Option<u8>,
    gids: impl Fn(u8) -> Option<Gid>,
) -> Option<(u8, Gid)> {
    let usable = |index: u8| gids(index).filter(|gid| *gid != Gid::default()).map(|g| (index, g));
    if let Some(index) = wanted {
        return usable(index);
    }
    let all = 0..u8::try_from(state.gids).unwrap_or(u8::MAX);
    all.filter_map(usable).min_by_key(|(index, gid)| {
        let link_local = gid[0] == 0xfe && gid[1] == 0x80;
        let ipv4 = gid[..10] == [0; 10] && gid[10..12] == [0xff; 2];
        // On InfiniBand the first is the port's own, link-local or not.
        let rank = match state.ethernet {
            false => 0,
            true if is_roce_v1(device, port, *index) => 3,
            true if ipv4 => 0,
            true if !link_local => 1,
            true => 2,
        };
        (rank, *index)
    })
}

/// Whether the entry speaks RoCE v1, which no router passes; by the kernel's word.
fn is_roce_v1(device: &str, port: u8, index: u8) -> bool {
    let path = format!("/sys/class/infiniband/{device}/ports/{port}/gid_attrs/types/{index}");
    std::fs::read_to_string(path).is_ok_and(|kind| kind.starts_with("IB/RoCE v1"))
}
