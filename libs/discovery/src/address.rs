//! Addresses as they are written: hosts with ports.

use std::net::Ipv6Addr;

use crate::DiscoveryError;
use crate::hostlist::{expand, split_list};

/// What to write where an address cannot be understood.
const WRITE: &str = "write `host:port`";

/// One piece of a comma list: a host or a host list, and its port where it names one.
pub(crate) struct Piece<'a> {
    text: &'a str,
    hosts: &'a str,
    port: Option<u16>,
}

// === impl Piece ===

impl<'a> Piece<'a> {
    /// The pieces of `n[0,3-5],gpu1:7402`.
    pub(crate) fn all(list: &'a str) -> Result<Vec<Self>, DiscoveryError> {
        split_list(list).map(|piece| Self::parse(piece.trim())).collect()
    }

    fn parse(text: &'a str) -> Result<Self, DiscoveryError> {
        let (hosts, port) = match port_begins(text) {
            None => (text, None),
            Some(at) => {
                let port = text[at + 1..].parse().ok().filter(|port| *port != 0);
                let port: u16 = port.ok_or_else(|| DiscoveryError::entry(text, WRITE))?;
                (&text[..at], Some(port))
            }
        };
        if hosts.is_empty() {
            return Err(DiscoveryError::entry(text, WRITE));
        }
        Ok(Self { text, hosts, port })
    }

    fn addresses(&self, port: u16) -> Result<Vec<String>, DiscoveryError> {
        let name_all = |hosts: Vec<String>| hosts.iter().map(|h| format!("{h}:{port}")).collect();
        if ipv6(self.hosts).is_some() {
            return Ok(vec![format!("{}:{port}", self.hosts)]);
        }
        let hosts = expand(self.hosts).map_err(|error| {
            let (_, rule) = error.into_parts();
            DiscoveryError::entry(self.text, format!("{WRITE}; {rule}"))
        })?;
        Ok(name_all(hosts))
    }
}

/// The addresses of pieces; one without a port takes that of the next that has one.
pub(crate) fn addresses(pieces: &[Piece<'_>]) -> Result<Vec<String>, DiscoveryError> {
    let mut port = None;
    let mut reversed = Vec::with_capacity(pieces.len());
    for piece in pieces.iter().rev() {
        port = piece.port.or(port);
        let port = port.ok_or_else(|| DiscoveryError::entry(piece.text, WRITE))?;
        reversed.push(piece.addresses(port)?);
    }
    Ok(reversed.into_iter().rev().flatten().collect())
}

/// Where the colon before the port is; colons within brackets belong to an IPv6 address.
fn port_begins(text: &str) -> Option<usize> {
    let after_brackets = text.rfind(']').map_or(0, |at| at + 1);
    text[after_brackets..].rfind(':').map(|at| after_brackets + at)
}

/// The address in `[::1]`.
fn ipv6(host: &str) -> Option<Ipv6Addr> {
    host.strip_prefix('[')?.strip_suffix(']')?.parse().ok()
}
