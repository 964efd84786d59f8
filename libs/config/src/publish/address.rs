//! Tensorcom's addresses: a scheme that says which socket is made and who connects to whom.

/// Most addresses that one range of ports stands for.
const RANGE_MAX: usize = 1024;
const SCHEMES: &str = "zpub, zrpub, zpush or zrpush, each with `+ipc` for a socket file";

/// Which socket, and what it does with a batch that a client has no room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Waits: no batch is lost. Several clients of one address share its batches out.
    Push,
    /// Drops: every client gets every batch that it has room for.
    Pub,
}

/// Where one stream of batches goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// The socket.
    pub kind: Kind,
    /// Whether clients connect here; otherwise this side connects to the client.
    pub binds: bool,
    /// Scheme as it was written, for announcing.
    pub scheme: String,
    /// As ZeroMQ wants it, `tcp://host:port` or `ipc:///path`.
    pub place: String,
}

/// Addresses that an entry stands for: one, or one for each port of `{7410..7429}`.
///
/// # Errors
/// An unknown scheme, no port, a range that is none.
pub(super) fn parse(url: &str) -> Result<Vec<Address>, String> {
    expanded(url)?.iter().map(|url| one(url)).collect()
}

fn one(url: &str) -> Result<Address, String> {
    let Some((scheme, rest)) = url.split_once("://") else {
        return Err(format!("write SCHEME://HOST:PORT; schemes are {SCHEMES}"));
    };
    let (socket, transport) = scheme.split_once('+').unwrap_or((scheme, "tcp"));
    let (kind, binds) = match socket {
        "zpub" => (Kind::Pub, true),
        "zrpub" => (Kind::Pub, false),
        "zpush" => (Kind::Push, false),
        "zrpush" => (Kind::Push, true),
        "zsub" | "zrsub" | "zpull" | "zrpull" => {
            let other_end = other_end(socket);
            return Err(format!("`{socket}` is the client's side: its other end is {other_end}"));
        }
        _ => return Err(format!("`{socket}` is no scheme: it is {SCHEMES}")),
    };
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
    Ok(Address { kind, binds, scheme: scheme.to_owned(), place })
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

    #[test]
    fn schemes_say_which_socket_and_who_connects() {
        // As in Tensorcom's own table, of which these are the sending half.
        for (url, kind, binds, place) in [
            ("zpub://0.0.0.0:7404", Kind::Pub, true, "tcp://0.0.0.0:7404"),
            ("zrpub://a:7404", Kind::Pub, false, "tcp://a:7404"),
            ("zpush://a:7404", Kind::Push, false, "tcp://a:7404"),
            ("zrpush+ipc:///run/x", Kind::Push, true, "ipc:///run/x"),
        ] {
            let parsed = parse(url).unwrap();
            assert_eq!((parsed[0].kind, parsed[0].binds), (kind, binds), "{url}");
            assert_eq!(parsed[0].place, place);
        }
    }

    #[test]
    fn a_range_of_ports_stands_for_its_addresses() {
        let parsed = parse("zrpush://h:{7410..7412}").unwrap();
        let places: Vec<&str> = parsed.iter().map(|address| address.place.as_str()).collect();
        assert_eq!(places, ["tcp://h:7410", "tcp://h:7411", "tcp://h:7412"]);
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
        ] {
            let config =
                super::super::PublishConfig { urls: vec![url.into()], ..Default::default() };
            let error = config.addresses().unwrap_err().to_string();
            assert!(error.contains(said) && error.contains(url), "{error}");
        }
    }
}
