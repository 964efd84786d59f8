//! Tensorcom's addresses: a scheme that says which socket is made and who connects to whom.

use std::fmt;

use super::files::{self, FileSeries};

/// Most addresses that one range of ports stands for.
const RANGE_MAX: usize = 1024;
const SCHEMES: &str = "zpub, zrpub, zpush or zrpush, each with `+ipc` for a socket file, or file";
const CLIENT_SCHEMES: &str = "zsub, zrsub, zpull or zrpull, each with `+ipc` for a socket file";

/// Where one stream of batches goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// To clients of a socket.
    Socket(SocketAddress),
    /// To files.
    Files(FileSeries),
}

/// Which socket, and what it does with a batch that a client has no room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Waits: no batch is lost. Several clients of one address share its batches out.
    Push,
    /// Drops: every client gets every batch that it has room for.
    Pub,
}

/// One of ZeroMQ's sockets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SocketAddress {
    /// The sending side's socket.
    pub kind: Kind,
    /// Whether the other side connects here; otherwise this side connects to it.
    pub binds: bool,
    /// Scheme as it was written, for announcing.
    pub scheme: String,
    /// As ZeroMQ wants it, `tcp://host:port` or `ipc:///path`.
    pub place: String,
}

// === impl Address ===

impl fmt::Display for Address {
    /// As in `publish.urls`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Socket(socket) => socket.fmt(f),
            Self::Files(series) => series.fmt(f),
        }
    }
}

// === impl SocketAddress ===

impl fmt::Display for SocketAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { scheme, place, .. } = self;
        let rest = place.split_once("://").map_or(place.as_str(), |(_, rest)| rest);
        write!(f, "{scheme}://{rest}")
    }
}

/// Addresses that an entry stands for: one, or one for each port of `{7410..7429}`.
///
/// # Errors
/// An unknown scheme, no port, a range that is none.
pub(super) fn parse(url: &str) -> Result<Vec<Address>, String> {
    if let Some(place) = url.strip_prefix(files::SCHEME) {
        return Ok(vec![Address::Files(FileSeries::parse(place)?)]);
    }
    let one = |url: &String| Ok(Address::Socket(socket(url, sender, SCHEMES)?));
    expanded(url)?.iter().map(one).collect()
}

/// Addresses of a client, as Tensorcom writes them: `zsub://host:7404`, `zrpull://host:{7410..7429}`.
///
/// # Errors
/// An unknown scheme, no port, a range that is none; names the URL.
pub fn client_addresses(url: &str) -> Result<Vec<SocketAddress>, String> {
    let one = |url: &String| socket(url, client, CLIENT_SCHEMES);
    let addresses = expanded(url).and_then(|urls| urls.iter().map(one).collect());
    addresses.map_err(|error| format!("`{url}`: {error}"))
}

/// Socket of the sending side and whether that side binds.
fn sender(socket: &str) -> Result<(Kind, bool), String> {
    Ok(match socket {
        "zpub" => (Kind::Pub, true),
        "zrpub" => (Kind::Pub, false),
        "zpush" => (Kind::Push, false),
        "zrpush" => (Kind::Push, true),
        "zsub" | "zrsub" | "zpull" | "zrpull" => {
            let other_end = other_end(socket);
            return Err(format!("`{socket}` is the client's side: its other end is {other_end}"));
        }
        _ => return Err(format!("`{socket}` is no scheme: it is {SCHEMES}")),
    })
}

/// Socket of the other, sending side, and whether the client binds.
fn client(socket: &str) -> Result<(Kind, bool), String> {
    match socket {
        "zsub" | "zrsub" | "zpull" | "zrpull" => {
            sender(other_end(socket)).map(|(kind, binds)| (kind, !binds))
        }
        "zpub" | "zrpub" | "zpush" | "zrpush" => {
            Err(format!("`{socket}` is the sender's side: clients are {CLIENT_SCHEMES}"))
        }
        _ => Err(format!("`{socket}` is no scheme: it is {CLIENT_SCHEMES}")),
    }
}

fn socket(
    url: &str,
    side: fn(&str) -> Result<(Kind, bool), String>,
    schemes: &str,
) -> Result<SocketAddress, String> {
    let Some((scheme, rest)) = url.split_once("://") else {
        return Err(format!("write SCHEME://HOST:PORT; schemes are {schemes}"));
    };
    let (socket, transport) = scheme.split_once('+').unwrap_or((scheme, "tcp"));
    let (kind, binds) = side(socket)?;
    match transport {
        "tcp" => {
            let port = rest.rsplit_once(':').map(|(_, port)| port.parse::<u16>());
            if !matches!(port, Some(Ok(_))) {
                return Err("give the port, as in zpub://0.0.0.0:7404".to_owned());
            }
        }
        "ipc" if rest.starts_with('/') => {}
        "ipc" => return Err("give the path, as in zpub+ipc:///run/batches".to_owned()),
        _ => return Err(format!("`{transport}` is no transport: it is tcp or ipc")),
    }
    let place = format!("{transport}://{rest}");
    Ok(SocketAddress { kind, binds, scheme: scheme.to_owned(), place })
}

fn other_end(client: &str) -> &'static str {
    match client {
        "zsub" => "zpub",
        "zrsub" => "zrpub",
        "zpull" => "zpush",
        _ => "zrpush",
    }
}

/// `{A..B}` written out, as Tensorcom's clients do.
fn expanded(url: &str) -> Result<Vec<String>, String> {
    let Some((head, rest)) = url.split_once('{') else {
        return Ok(vec![url.to_owned()]);
    };
    let range = rest.split_once('}').and_then(|(range, tail)| {
        let (first, last) = range.split_once("..")?;
        Some((first.parse::<u16>().ok()?, last.parse::<u16>().ok()?, tail))
    });
    let Some((first, last, tail)) = range else {
        return Err("write a range of ports as in {7410..7429}".to_owned());
    };
    let count = usize::from(last.saturating_sub(first)) + 1;
    if first > last || count > RANGE_MAX {
        return Err(format!("a range has 1 to {RANGE_MAX} ports, in order"));
    }
    Ok((first..=last).map(|port| format!("{head}{port}{tail}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sockets(url: &str) -> Vec<SocketAddress> {
        let socket = |address| match address {
            Address::Socket(socket) => socket,
            Address::Files(series) => panic!("{series:?}"),
        };
        parse(url).unwrap().into_iter().map(socket).collect()
    }

    #[test]
    fn schemes_say_which_socket_and_who_connects() {
        // As in Tensorcom's own table; these are the sending half of it.
        for (url, kind, binds, place) in [
            ("zpub://0.0.0.0:7404", Kind::Pub, true, "tcp://0.0.0.0:7404"),
            ("zrpub://a:7404", Kind::Pub, false, "tcp://a:7404"),
            ("zpush://a:7404", Kind::Push, false, "tcp://a:7404"),
            ("zrpush+ipc:///run/x", Kind::Push, true, "ipc:///run/x"),
        ] {
            let parsed = sockets(url);
            assert_eq!((parsed[0].kind, parsed[0].binds), (kind, binds), "{url}");
            assert_eq!(parsed[0].place, place);
            assert_eq!(parsed[0].to_string(), url);
        }
    }

    #[test]
    fn a_range_of_ports_stands_for_its_addresses() {
        let parsed = sockets("zrpush://h:{7410..7412}");
        let places: Vec<&str> = parsed.iter().map(|address| address.place.as_str()).collect();
        assert_eq!(places, ["tcp://h:7410", "tcp://h:7411", "tcp://h:7412"]);
    }

    #[test]
    fn a_client_has_the_other_end() {
        for (url, kind, binds) in [
            ("zsub://a:1", Kind::Pub, false),
            ("zrsub://a:1", Kind::Pub, true),
            ("zpull://a:1", Kind::Push, true),
            ("zrpull+ipc:///run/x", Kind::Push, false),
        ] {
            let parsed = client_addresses(url).unwrap();
            assert_eq!((parsed[0].kind, parsed[0].binds), (kind, binds), "{url}");
        }
        assert_eq!(client_addresses("zsub://a:{1..3}").unwrap().len(), 3);
        let error = client_addresses("zpub://a:1").unwrap_err();
        assert!(error.contains("`zpub://a:1`: `zpub` is the sender's side"), "{error}");
    }

    #[test]
    fn what_cannot_be_an_address_is_refused_with_the_remedy() {
        for (url, said) in [
            ("zsub://a:1", "its other end is zpub"),
            ("tcp://a:1", "zpub, zrpub"),
            ("a:1", "SCHEME://"),
            ("zpub://a", "give the port"),
            ("zpub+udp://a:1", "tcp or ipc"),
            ("zpub+ipc://run", "give the path"),
            ("zrpush://a:{9..1}", "in order"),
            ("zrpush://a:{9,1}", "range of ports"),
            ("file:batch.ten", "range of numbers"),
        ] {
            let config =
                super::super::PublishConfig { urls: vec![url.into()], ..Default::default() };
            let error = config.addresses().unwrap_err().to_string();
            assert!(error.contains(said) && error.contains(url), "{error}");
        }
    }
}
