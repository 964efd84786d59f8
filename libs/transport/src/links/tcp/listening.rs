//! Where the receiver's end listens, and the address that workers get to connect to.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use rustix::io::Errno;
use rustix::net::sockopt::set_ipv6_v6only;
use tokio::net::{TcpListener, TcpSocket};

use super::tls::Offered;

/// Connections that the kernel may keep for a receiver that is busy.
const BACKLOG: u32 = 1024;

/// What the offers of one listening receiver are made of.
#[derive(Debug)]
pub(super) struct Advertised {
    /// The configured host, which goes before everything else.
    pub(super) host: Option<String>,
    pub(super) bound: SocketAddr,
    pub(super) encrypted: bool,
}

/// Listens on `address`. `[::]` takes IPv4 connections too; on a host without IPv6 it means all
/// addresses of IPv4.
pub(super) fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    match bind_exactly(address) {
        Err(error) if address.ip() == Ipv6Addr::UNSPECIFIED && lacks_ipv6(&error) => {
            bind_exactly((Ipv4Addr::UNSPECIFIED, address.port()).into())
        }
        bound => bound,
    }
}

fn bind_exactly(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv6() { TcpSocket::new_v6()? } else { TcpSocket::new_v4()? };
    if address.ip() == Ipv6Addr::UNSPECIFIED {
        // The system's default (net.ipv6.bindv6only) may be the other one.
        set_ipv6_v6only(&socket, false)?;
    }
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

fn lacks_ipv6(error: &io::Error) -> bool {
    let errno = error.raw_os_error().map(Errno::from_raw_os_error);
    matches!(errno, Some(Errno::AFNOSUPPORT | Errno::ADDRNOTAVAIL))
}

// === impl Advertised ===

impl Advertised {
    /// The offer for a worker that is reached over `route`, an address of this host.
    pub(super) fn over(&self, route: IpAddr) -> String {
        let port = self.bound.port();
        let offered = |host_and_port: String, name: Option<String>| {
            Offered { host_and_port, encrypted: self.encrypted, name }.to_string()
        };
        if let Some(host) = &self.host {
            let bare_ipv6 = host.contains(':') && !host.starts_with('[');
            let host = if bare_ipv6 { format!("[{host}]") } else { host.clone() };
            return offered(format!("{host}:{port}"), None);
        }
        if !self.bound.ip().is_unspecified() {
            return offered(self.bound.to_string(), None);
        }
        let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let route = route.to_canonical();
        if self.bound.is_ipv4() && route.is_ipv6() {
            // Nobody listens at the route's own address.
            return offered(format!("{name}:{port}"), None);
        }
        // Certificates carry names rather than addresses.
        offered(SocketAddr::new(route, port).to_string(), Some(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offers(host: Option<&str>, bound: &str, route: &str) -> String {
        let host = host.map(ToOwned::to_owned);
        let bound = bound.parse().expect("an address");
        let advertised = Advertised { host, bound, encrypted: false };
        advertised.over(route.parse().expect("an address"))
    }

    #[test]
    fn workers_are_told_an_address_they_can_use() {
        let told = [
            // What is configured goes before everything else.
            offers(Some("rank0.example"), "[::]:4000", "10.0.0.5"),
            offers(Some("2001:db8::1"), "0.0.0.0:4000", "10.0.0.5"),
            // A link that listens on one address can be reached there only.
            offers(None, "192.0.2.7:4000", "10.0.0.5"),
            // One that listens on all of them is reached as the worker's control connection is.
            offers(None, "[::]:4000", "10.0.0.5"),
            offers(None, "[::]:4000", "::ffff:10.0.0.5"),
            offers(None, "[::]:4000", "2001:db8::5"),
            offers(None, "0.0.0.0:4000", "10.0.0.5"),
        ];
        let wanted = [
            "rank0.example:4000",
            "[2001:db8::1]:4000",
            "192.0.2.7:4000",
            "10.0.0.5:4000",
            "10.0.0.5:4000",
            "[2001:db8::5]:4000",
            "10.0.0.5:4000",
        ];
        assert_eq!(told, wanted);
        let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
        assert_eq!(offers(None, "0.0.0.0:4000", "2001:db8::5"), format!("{name}:4000"));
    }

    #[test]
    fn an_encrypted_link_says_which_name_its_certificate_carries() {
        let bound = "[::]:4000".parse().expect("an address");
        let advertised = Advertised { host: None, bound, encrypted: true };
        let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let told = advertised.over(Ipv4Addr::new(10, 0, 0, 5).into());
        assert_eq!(told, format!("tls:{name}@10.0.0.5:4000"));
    }

    #[tokio::test]
    async fn all_addresses_are_those_of_ipv4_too() {
        let listener = bind("[::]:0".parse().expect("an address")).expect("a free port");
        let port = listener.local_addr().expect("an address").port();
        let caller = tokio::net::TcpStream::connect((Ipv4Addr::LOCALHOST, port));
        let (called, accepted) = tokio::join!(caller, listener.accept());
        called.expect("a connection over IPv4");
        accepted.expect("the same");
    }
}
