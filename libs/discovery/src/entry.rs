//! One way to say where somebody is, and one look there.

use std::fs::File;
use std::io::Read as _;
use std::net::ToSocketAddrs as _;
use std::path::{Path, PathBuf};

use headwater_kubernetes::{ApiServer, ServicePort, Slices};

use crate::DiscoveryError;
use crate::address::{Piece, addresses};
use crate::followed::Followed;

/// Longest file of addresses.
const FILE_BYTES_MAX: u64 = 4 << 20;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    /// Addresses as they are written.
    Written(Vec<String>),
    /// All records of a name.
    Dns { entry: String, name: String, port: u16 },
    /// The lines of a file.
    File { entry: String, path: PathBuf },
    /// The pods behind a Service of Kubernetes.
    Slices { entry: String, slices: Slices },
}

// === impl Entry ===

impl Entry {
    /// Parses what does not stand for itself; `None` is an address or host list.
    pub(crate) fn parse_prefixed(entry: &str) -> Option<Result<Self, DiscoveryError>> {
        if let Some(name) = entry.strip_prefix("dns:") {
            return Some(dns(entry, name));
        }
        if let Some(service) = entry.strip_prefix("slices:") {
            return Some(slices(entry, service));
        }
        let path = entry.strip_prefix("file:")?;
        Some(match path.is_empty() {
            true => Err(DiscoveryError::entry(entry, "write `file:/path`")),
            false => Ok(Self::File { entry: entry.to_owned(), path: path.into() }),
        })
    }

    /// Whether another look may find something else.
    pub(crate) fn changes(&self) -> bool {
        !matches!(self, Self::Written(_))
    }

    /// The addresses at this moment. Blocks: a name server may take its time, or an API server the first time.
    pub(crate) fn look(
        &self,
        followed: &mut Option<Followed>,
    ) -> Result<Vec<String>, DiscoveryError> {
        match self {
            Self::Written(addresses) => Ok(addresses.clone()),
            Self::Dns { entry, name, port } => records(entry, name, *port),
            Self::File { entry, path } => lines(entry, path),
            Self::Slices { entry, slices } => pods(entry, slices, followed),
        }
    }
}

fn dns(entry: &str, name: &str) -> Result<Entry, DiscoveryError> {
    let parts = name.rsplit_once(':').and_then(|(name, port)| Some((name, port.parse().ok()?)));
    let plain = |name: &str| name.chars().all(|c| c.is_ascii_alphanumeric() || ".-_".contains(c));
    match parts {
        Some((name, port)) if port != 0 && !name.is_empty() && plain(name) => {
            Ok(Entry::Dns { entry: entry.to_owned(), name: name.to_owned(), port })
        }
        _ => Err(DiscoveryError::entry(entry, "write `dns:name:port`")),
    }
}

fn records(entry: &str, name: &str, port: u16) -> Result<Vec<String>, DiscoveryError> {
    let found = (name, port).to_socket_addrs().map_err(|error| {
        DiscoveryError::nothing(entry, format!("{error}: check the name, or that it is served"))
    })?;
    let mut addresses: Vec<String> = found.map(|address| address.to_string()).collect();
    // Servers turn their answers round; who looks twice must see the same list.
    addresses.sort_unstable();
    addresses.dedup();
    match addresses.is_empty() {
        true => Err(DiscoveryError::nothing(entry, "the name has no A or AAAA record")),
        false => Ok(addresses),
    }
}

fn slices(entry: &str, service: &str) -> Result<Entry, DiscoveryError> {
    let plain = |part: &str| {
        !part.is_empty() && part.chars().all(|c| c.is_ascii_alphanumeric() || "-.".contains(c))
    };
    let parts = service.split_once('/').and_then(|(namespace, rest)| {
        let (service, port) = rest.split_once(':')?;
        Some((namespace, service, port))
    });
    match parts {
        Some((namespace, service, port)) if [namespace, service, port].into_iter().all(plain) => {
            let port = match port.parse() {
                Ok(port) => ServicePort::Number(port),
                Err(_) => ServicePort::Name(port.to_owned()),
            };
            let (namespace, service) = (namespace.to_owned(), service.to_owned());
            let slices = Slices { namespace, service, port };
            Ok(Entry::Slices { entry: entry.to_owned(), slices })
        }
        _ => Err(DiscoveryError::entry(entry, "write `slices:namespace/service:port`")),
    }
}

fn pods(
    entry: &str,
    slices: &Slices,
    followed: &mut Option<Followed>,
) -> Result<Vec<String>, DiscoveryError> {
    let heard = followed.as_ref().and_then(Followed::pods);
    let found = match heard {
        Some(heard) => heard,
        None if followed.is_some() => {
            let server = ApiServer::of_this_pod();
            let listed = server.and_then(|server| Ok(slices.list(&server)?.addresses()));
            listed.map_err(|error| error.to_string())
        }
        None => Followed::begin(slices).map_err(|error| error.to_string()).and_then(|begun| {
            let pods = begun.pods().unwrap_or_else(|| Ok(Vec::new()));
            *followed = Some(begun);
            pods
        }),
    };
    match found {
        Ok(pods) if pods.is_empty() => Err(DiscoveryError::nothing(entry, "no pod is ready")),
        Ok(pods) => Ok(pods),
        Err(reason) => Err(DiscoveryError::nothing(entry, reason)),
    }
}

fn lines(entry: &str, path: &Path) -> Result<Vec<String>, DiscoveryError> {
    let unread =
        |error| DiscoveryError::nothing(entry, format!("the file cannot be read: {error}"));
    let mut text = String::new();
    let file = File::open(path).map_err(unread)?;
    file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text).map_err(unread)?;
    if text.len() as u64 > FILE_BYTES_MAX {
        let reason = format!("the file is longer than {FILE_BYTES_MAX} bytes: shorten it");
        return Err(DiscoveryError::nothing(entry, reason));
    }
    let mut found = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim();
        if line.is_empty() {
            continue;
        }
        let of_line = Piece::all(line).and_then(|pieces| addresses(&pieces));
        found.extend(of_line.map_err(|error| {
            let (piece, remedy) = error.into_parts();
            let reason = format!("line {} has `{piece}`: {remedy}", number + 1);
            DiscoveryError::nothing(entry, reason)
        })?);
    }
    match found.is_empty() {
        // Written in place, a file is empty for a moment: nobody is sent away over that.
        true => {
            Err(DiscoveryError::nothing(entry, "the file has no address yet: write one a line"))
        }
        false => Ok(found),
    }
}
