//! `[links]` of `headwater.toml`: the settings of all links, the same for both ends.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use headwater_config_derive::Keys;
use serde::{Deserialize, Serialize};

/// Queue pairs of one worker at most: a request has the addresses of all of them.
pub(crate) const QUEUE_PAIRS_MAX: u32 = 16;

/// Where receivers listen that only workers of their own host reach.
const ANY_PORT_OF_HOST: &str = "127.0.0.1:0";

/// Settings of links.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Keys)]
#[serde(deny_unknown_fields, default)]
pub struct LinksConfig {
    /// Folder for the sockets of the `shm` and `cuda` links; empty: abstract sockets, which need no folder.
    pub shm_socket_dir: PathBuf,
    /// Numbers of the users whose processes the `shm` and `cuda` links accept at the other end, in addition to this
    /// process's own and root.
    pub shm_allow_uids: Vec<u32>,
    /// Address that a receiver's `tcp` link listens on; `[::]`: all addresses, including IPv4; port 0: any
    /// free port.
    pub tcp_listen: String,
    /// Host that workers connect to for the `tcp` link, needed behind address translation; empty:
    /// the address that it listens on or, with `[::]`, the receiver's address on the route to each
    /// worker.
    pub tcp_advertise: String,
    /// RDMA device of the `rdma` link: `mlx5_0` or, with its port, `mlx5_0:1`; empty: a device with an active port.
    /// A receiver takes one near the rank's GPU; if several are equally near, ranks use them in turn. A worker takes
    /// one near the receiver's.
    pub rdma_device: String,
    /// Index of the address in that port's GID table; -1: RoCE v2, near the other end's address.
    #[key(unit = "none")]
    pub rdma_gid_index: i16,
    /// Key of the partition that the `rdma` link's packets are in, such as 0x8001; 0: the first of the port's
    /// table.
    #[key(unit = "none")]
    pub rdma_pkey: u16,
    /// Traffic class of the `rdma` link's packets, from 0 to 255: on RoCE, six bits of DSCP and two of ECN.
    #[key(unit = "none")]
    pub rdma_traffic_class: u8,
    /// Service level of the `rdma` link's packets, from 0 to 15: the priority on Ethernet.
    #[key(unit = "none")]
    pub rdma_service_level: u8,
    /// Queue pairs per receiver over which a worker's `rdma` link spreads parts.
    #[key(unit = "queue pairs")]
    pub rdma_queue_pairs: u32,
}

/// A setting that cannot work.
#[derive(Debug, thiserror::Error)]
#[error("links.{key} is `{value}`: {rule}")]
pub struct LinksConfigError {
    /// The key.
    pub key: &'static str,
    /// Its value.
    pub value: String,
    /// What it must be.
    pub rule: String,
}

// === impl LinksConfig ===

impl Default for LinksConfig {
    fn default() -> Self {
        Self {
            shm_socket_dir: PathBuf::new(),
            shm_allow_uids: Vec::new(),
            tcp_listen: "[::]:0".into(),
            tcp_advertise: String::new(),
            rdma_device: String::new(),
            rdma_gid_index: -1,
            rdma_pkey: 0,
            rdma_traffic_class: 0,
            rdma_service_level: 0,
            rdma_queue_pairs: 1,
        }
    }
}

impl LinksConfig {
    /// Checks every value that stands for itself.
    ///
    /// # Errors
    /// The first key whose value cannot work.
    pub fn validate(&self) -> Result<(), LinksConfigError> {
        let numbers = [
            ("rdma_gid_index", i64::from(self.rdma_gid_index), -1, 255),
            ("rdma_service_level", self.rdma_service_level.into(), 0, 15),
            ("rdma_queue_pairs", self.rdma_queue_pairs.into(), 1, QUEUE_PAIRS_MAX.into()),
        ];
        for (key, value, least, most) in numbers {
            if !(least..=most).contains(&value) {
                let rule = format!("must be from {least} to {most}");
                return Err(LinksConfigError { key, value: value.to_string(), rule });
            }
        }
        self.tcp_address().map(drop)
    }

    /// Where a receiver's `tcp` link listens.
    ///
    /// # Errors
    /// It is no address.
    pub(super) fn tcp_address(&self) -> Result<SocketAddr, LinksConfigError> {
        self.tcp_listen.parse().map_err(|_| LinksConfigError {
            key: "tcp_listen",
            value: self.tcp_listen.clone(),
            rule: "must be an address and a port, as in `[::]:0`".to_owned(),
        })
    }

    /// The RDMA card that is named.
    #[must_use]
    pub fn card(&self) -> Option<&str> {
        self.rdma_device.split(':').next().filter(|name| !name.is_empty())
    }

    /// The same for receivers that only workers of this host reach, unless it says where they listen.
    #[must_use]
    pub fn within_host(self) -> Self {
        if self.tcp_listen == Self::default().tcp_listen {
            return Self { tcp_listen: ANY_PORT_OF_HOST.to_owned(), ..self };
        }
        self
    }

    /// As far as workers that others share use it: what only receivers do, and the card of one process, has its default.
    #[must_use]
    pub fn of_workers(self) -> Self {
        let Self { shm_socket_dir, tcp_listen, tcp_advertise, rdma_device, .. } = Self::default();
        Self { shm_socket_dir, tcp_listen, tcp_advertise, rdma_device, ..self }
    }

    /// The host that workers call for the `tcp` link, and that the certificate of the receiver must carry.
    #[must_use]
    pub fn tcp_host(&self) -> String {
        let bound =
            self.tcp_listen.parse::<SocketAddr>().ok().filter(|at| !at.ip().is_unspecified());
        match bound {
            _ if !self.tcp_advertise.is_empty() => self.tcp_advertise.clone(),
            Some(bound) => bound.ip().to_string(),
            None => rustix::system::uname().nodename().to_string_lossy().into_owned(),
        }
    }

    /// The same on any free port of one address, which is offered as it is.
    #[must_use]
    pub fn listening_on(self, address: IpAddr) -> Self {
        let tcp_listen = SocketAddr::new(address, 0).to_string();
        Self { tcp_listen, tcp_advertise: String::new(), ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_that_cannot_work_is_named_with_its_key_and_the_rule() {
        let refused = |config: LinksConfig| config.validate().unwrap_err().to_string();
        LinksConfig::default().validate().expect("the defaults");
        let last =
            LinksConfig { rdma_service_level: 15, rdma_gid_index: 255, ..Default::default() };
        last.validate().expect("the last ones");
        let said = refused(LinksConfig { rdma_service_level: 16, ..Default::default() });
        assert_eq!(said, "links.rdma_service_level is `16`: must be from 0 to 15");
        let said = refused(LinksConfig { rdma_gid_index: -2, ..Default::default() });
        assert!(said.starts_with("links.rdma_gid_index is `-2`"), "{said}");
        let said = refused(LinksConfig { rdma_queue_pairs: 0, ..Default::default() });
        assert!(said.starts_with("links.rdma_queue_pairs is `0`"), "{said}");
        let said = refused(LinksConfig { tcp_listen: "rank0:7403".into(), ..Default::default() });
        assert!(said.starts_with("links.tcp_listen is `rank0:7403`"), "{said}");
    }
}
