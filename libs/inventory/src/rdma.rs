//! RDMA devices, as `/sys/class/infiniband` has them.
//!
//! Formats: Documentation/ABI/stable/sysfs-class-infiniband of the Linux sources.

use serde::Serialize;

use crate::Machine;
use crate::pci::PciDevice;

const CLASS: &str = "/sys/class/infiniband";

/// One RDMA device.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RdmaDevice {
    /// Name, as in `mlx5_0`.
    pub name: String,
    /// Where it sits; `None` for software devices such as `rxe0`.
    pub pci: Option<PciDevice>,
    /// Version of its firmware.
    pub firmware: Option<String>,
    /// Its ports.
    pub ports: Vec<RdmaPort>,
}

/// One port.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RdmaPort {
    /// Number, from 1.
    pub number: u32,
    /// Logical state: `ACTIVE`, `INIT`, `DOWN`.
    pub state: String,
    /// Physical state: `LinkUp`, `Polling`, `Disabled`.
    pub physical_state: String,
    /// `InfiniBand` or `Ethernet`.
    pub link_layer: String,
    /// Signalling rate in 1e9 bits per second, all lanes together.
    pub rate_gbit: Option<f64>,
    /// Addresses that are not zero.
    pub gids: Vec<Gid>,
}

/// One address of a port.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Gid {
    /// Place in the port's table.
    pub index: u32,
    /// 16 bytes in hexadecimal, in groups of two.
    pub value: String,
    /// `IB/RoCE v1` or `RoCE v2`.
    pub kind: Option<String>,
    /// Network interface that it belongs to, on Ethernet.
    pub interface: Option<String>,
}

// === impl Machine ===

impl Machine {
    /// All RDMA devices.
    #[must_use]
    pub fn rdma_devices(&self) -> Vec<RdmaDevice> {
        self.names(CLASS).into_iter().map(|name| self.rdma_device(name)).collect()
    }

    /// The usable ports of a device, as in `mlx5_0:1`; of `mlx5_0:2` that port only, whatever its state. None of an
    /// empty name.
    #[must_use]
    pub fn usable_port_names(&self, device: &str) -> Vec<String> {
        if device.contains(':') {
            return vec![device.to_owned()];
        }
        let named = self.rdma_devices().into_iter().find(|found| found.name == device);
        let ports = |device: RdmaDevice| {
            let number = |port: &RdmaPort| format!("{}:{}", device.name, port.number);
            device.usable_ports().map(number).collect()
        };
        named.map(ports).unwrap_or_default()
    }

    fn rdma_device(&self, name: String) -> RdmaDevice {
        let folder = format!("{CLASS}/{name}");
        let numbers = self.names(format!("{folder}/ports")).into_iter();
        let numbers = numbers.filter_map(|number| number.parse().ok());
        RdmaDevice {
            pci: PciDevice::of_link(self, format!("{folder}/device")),
            firmware: self.text(format!("{folder}/fw_ver")),
            ports: numbers.map(|number| self.rdma_port(&folder, number)).collect(),
            name,
        }
    }

    fn rdma_port(&self, device: &str, number: u32) -> RdmaPort {
        let folder = format!("{device}/ports/{number}");
        let text = |file: &str| self.text(format!("{folder}/{file}")).unwrap_or_default();
        RdmaPort {
            number,
            state: after_number(&text("state")),
            physical_state: after_number(&text("phys_state")),
            link_layer: text("link_layer"),
            rate_gbit: text("rate").split_whitespace().next().and_then(|rate| rate.parse().ok()),
            gids: self.gids(&folder),
        }
    }

    fn gids(&self, port: &str) -> Vec<Gid> {
        let indices = self.names(format!("{port}/gids")).into_iter();
        let gids = indices.filter_map(|index| {
            let value = self.text(format!("{port}/gids/{index}"))?;
            // The upper half is the prefix of the subnet, which a port without address has too.
            let interface_id = value.split(':').skip(4);
            if interface_id.flat_map(str::chars).all(|digit| digit == '0') {
                return None;
            }
            let attribute = |name: &str| self.text(format!("{port}/gid_attrs/{name}/{index}"));
            let (kind, interface) = (attribute("types"), attribute("ndevs"));
            Some(Gid { index: index.parse().ok()?, value, kind, interface })
        });
        gids.collect()
    }
}

/// `ACTIVE` of `4: ACTIVE`.
fn after_number(text: &str) -> String {
    text.split_once(':').map_or(text, |(_, name)| name).trim().to_owned()
}

// === impl RdmaDevice ===

impl RdmaDevice {
    /// The ports over which something can be sent now.
    pub fn usable_ports(&self) -> impl Iterator<Item = &RdmaPort> {
        self.ports.iter().filter(|port| port.is_usable())
    }
}

// === impl RdmaPort ===

impl RdmaPort {
    /// Whether something can be sent over it now.
    #[must_use]
    pub fn is_usable(&self) -> bool {
        self.state == "ACTIVE" && !self.gids.is_empty()
    }

    /// Rate in 1e9 bytes per second.
    #[must_use]
    pub fn rate_gb_per_s(&self) -> Option<f64> {
        self.rate_gbit.map(|gbit| gbit / 8.0)
    }

    /// The address that traffic should go over: RoCE v2 with an IPv4 address before others, on
    /// InfiniBand the first.
    #[must_use]
    pub fn best_gid(&self) -> Option<&Gid> {
        let rank = |gid: &Gid| {
            let routable = gid.kind.as_deref() == Some("RoCE v2");
            let ipv4 = gid.value.starts_with("0000:0000:0000:0000:0000:ffff:");
            match (self.link_layer.as_str(), routable, ipv4) {
                ("Ethernet", true, true) => 0,
                ("Ethernet", true, false) => 1,
                ("Ethernet", ..) => 2,
                _ => 0,
            }
        };
        self.gids.iter().min_by_key(|gid| rank(gid))
    }
}
