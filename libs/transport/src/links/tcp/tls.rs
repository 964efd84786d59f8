//! Encryption of the tcp link: what each end presents and whom it trusts.
//!
//! Refuses to know where certificates come from: whoever opens a link hands over a function that
//! gives the configuration for the next connection, so renewed files are taken over.

use std::fmt;
use std::sync::Arc;

use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, ServerConfig};

type Current<T> = Arc<dyn Fn() -> Arc<T> + Send + Sync>;

/// Marks an offer whose connections are encrypted.
const SCHEME: &str = "tls:";

/// How a receiver encrypts. Clones share it.
#[derive(Clone)]
pub struct ListenTls(Current<ServerConfig>);

/// How a worker encrypts, when a receiver's offer says so. Clones share it.
#[derive(Clone)]
pub struct ConnectTls {
    config: Current<ClientConfig>,
    name: Option<ServerName<'static>>,
}

// === impl ListenTls ===

impl ListenTls {
    /// `current` is asked at each new connection. It should ask for the worker's certificate.
    pub fn new(current: impl Fn() -> Arc<ServerConfig> + Send + Sync + 'static) -> Self {
        Self(Arc::new(current))
    }

    pub(super) fn config(&self) -> Arc<ServerConfig> {
        (self.0)()
    }
}

impl fmt::Debug for ListenTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ListenTls(..)")
    }
}

// === impl ConnectTls ===

impl ConnectTls {
    /// `current` is asked at each new connection; `name` is what receivers' certificates must
    /// carry, where it is not the host of their address.
    pub fn new(
        current: impl Fn() -> Arc<ClientConfig> + Send + Sync + 'static,
        name: Option<ServerName<'static>>,
    ) -> Self {
        Self { config: Arc::new(current), name }
    }

    pub(super) fn config(&self) -> Arc<ClientConfig> {
        (self.config)()
    }

    /// What the certificate of the receiver of this offer must carry; `None`: no name of a host.
    pub(super) fn name(&self, offered: &Offered) -> Option<ServerName<'static>> {
        if self.name.is_some() {
            return self.name.clone();
        }
        let address = offered.host_and_port.as_str();
        let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let name = offered.name.as_deref().unwrap_or(host);
        ServerName::try_from(name.to_owned()).ok()
    }
}

impl fmt::Debug for ConnectTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectTls").field("name", &self.name).finish_non_exhaustive()
    }
}

/// The address of an offer: `host:port`, `tls:host:port` or `tls:name@host:port`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Offered {
    pub(super) host_and_port: String,
    pub(super) encrypted: bool,
    /// What the receiver's certificate carries, where that is not the host.
    pub(super) name: Option<String>,
}

// === impl Offered ===

impl Offered {
    pub(super) fn parse(address: &str) -> Self {
        let Some(encrypted) = address.strip_prefix(SCHEME) else {
            return Self { host_and_port: address.to_owned(), encrypted: false, name: None };
        };
        let (name, host_and_port) = match encrypted.split_once('@') {
            Some((name, host_and_port)) => (Some(name.to_owned()), host_and_port),
            None => (None, encrypted),
        };
        Self { host_and_port: host_and_port.to_owned(), encrypted: true, name }
    }
}

impl fmt::Display for Offered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.encrypted, &self.name) {
            (true, Some(name)) => write!(f, "{SCHEME}{name}@{}", self.host_and_port),
            (true, None) => write!(f, "{SCHEME}{}", self.host_and_port),
            (false, _) => f.write_str(&self.host_and_port),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offer_says_whether_it_is_encrypted_and_by_whose_certificate() {
        for (encrypted, name) in [(true, None), (true, Some("rank0")), (false, None)] {
            let name = name.map(ToOwned::to_owned);
            let offer = Offered { host_and_port: "[::1]:7403".to_owned(), encrypted, name };
            assert_eq!(Offered::parse(&offer.to_string()), offer);
        }
    }
}
