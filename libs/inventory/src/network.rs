//! Network interfaces, and which of them leads to an address.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde::Serialize;

use crate::Machine;

/// The interface that an address lies behind.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Interface {
    /// Name, as in `eth0`.
    pub name: String,
    /// Rate in 1e9 bits per second; `None` where the driver does not say, as for virtual ones.
    pub rate_gbit: Option<f64>,
    /// Maximum bytes of a packet.
    pub mtu_bytes: Option<u32>,
}

// === impl Machine ===

impl Machine {
    /// The interface that packets to an address leave by, by the longest prefix of the main
    /// routing table.
    #[must_use]
    pub fn interface_to(&self, address: IpAddr) -> Option<Interface> {
        let name = match address {
            address if address.is_loopback() => "lo".to_owned(),
            IpAddr::V4(address) => self.route_v4(address)?,
            IpAddr::V6(address) => match address.to_ipv4_mapped() {
                Some(address) => self.route_v4(address)?,
                None => self.route_v6(address)?,
            },
        };
        Some(self.interface(name))
    }

    /// All interfaces but the one to this host itself.
    #[must_use]
    pub fn interfaces(&self) -> Vec<Interface> {
        let names = self.names("/sys/class/net").into_iter().filter(|name| name != "lo");
        // Some of the entries are settings of the kernel's.
        let is_one = |name: &String| self.path(format!("/sys/class/net/{name}")).is_dir();
        names.filter(is_one).map(|name| self.interface(name)).collect()
    }

    fn interface(&self, name: String) -> Interface {
        let number = |file: &str| self.number::<i64>(format!("/sys/class/net/{name}/{file}"));
        // In 1e6 bits per second; -1 where there is no link.
        let rate = number("speed").filter(|megabits| *megabits > 0);
        let rate_gbit = rate.map(|megabits| megabits as f64 / 1e3);
        let mtu_bytes = number("mtu").and_then(|mtu| u32::try_from(mtu).ok());
        Interface { name, rate_gbit, mtu_bytes }
    }

    fn route_v4(&self, address: Ipv4Addr) -> Option<String> {
        let text = self.text("/proc/net/route")?;
        let routes = text.lines().skip(1).filter_map(|line| {
            let columns: Vec<&str> = line.split_whitespace().collect();
            // The kernel prints the bytes as a number of its own byte order.
            let word = |at: usize| {
                let number = u32::from_str_radix(columns.get(at)?, 16).ok()?;
                Some(u32::from_be_bytes(number.to_ne_bytes()))
            };
            Some(((*columns.first()?).to_owned(), word(1)?, word(7)?))
        });
        let wanted = u32::from(address);
        let leads = routes.filter(|(_, network, mask)| wanted & mask == *network);
        leads.max_by_key(|(_, _, mask)| mask.count_ones()).map(|(name, ..)| name)
    }

    fn route_v6(&self, address: Ipv6Addr) -> Option<String> {
        let text = self.text("/proc/net/ipv6_route")?;
        let routes = text.lines().filter_map(|line| {
            let columns: Vec<&str> = line.split_whitespace().collect();
            let network = u128::from_str_radix(columns.first()?, 16).ok()?;
            let prefix = u32::from_str_radix(columns.get(1)?, 16).ok()?;
            Some(((*columns.last()?).to_owned(), network, prefix))
        });
        let wanted = u128::from(address);
        let mask = |prefix: u32| u128::MAX.checked_shl(128 - prefix).unwrap_or(0);
        let leads = routes
            .filter(|(_, network, prefix)| wanted & mask(*prefix) == *network & mask(*prefix));
        leads.filter(|(name, ..)| name != "lo").max_by_key(|(.., prefix)| *prefix).map(|(n, ..)| n)
    }
}

// === impl Interface ===

impl Interface {
    /// Rate in 1e9 bytes per second.
    #[must_use]
    pub fn rate_gb_per_s(&self) -> Option<f64> {
        self.rate_gbit.map(|gbit| gbit / 8.0)
    }
}
