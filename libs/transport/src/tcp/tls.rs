//! Encryption of the tcp link: what each end presents and whom it trusts.
//!
//! Refuses to know where certificates come from: whoever opens a link hands over a function that
//! gives the configuration for the next connection, so renewed files are taken over.

use std::fmt;
use std::sync::Arc;

use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, ServerConfig};

type Current<T> = Arc<dyn Fn() -> Arc<T> + Send + Sync>;

/// Marks an offer whose connections are encrypted; `host:port` follows.
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

    /// What the certificate of the receiver at `host:port` must carry; `None`: no name of a host.
    pub(super) fn name(&self, address: &str) -> Option<ServerName<'static>> {
        let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
        let host = host.trim_start_matches('[').trim_end_matches(']');
        self.name.clone().or_else(|| ServerName::try_from(host.to_owned()).ok())
    }
}

impl fmt::Debug for ConnectTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectTls").field("name", &self.name).finish_non_exhaustive()
    }
}

/// The address of an offer.
pub(super) fn offered(host_and_port: &str, encrypted: bool) -> String {
    let scheme = if encrypted { SCHEME } else { "" };
    format!("{scheme}{host_and_port}")
}

/// `host:port` of an offer, and whether its connections are encrypted.
pub(super) fn parse_offered(address: &str) -> (&str, bool) {
    match address.strip_prefix(SCHEME) {
        Some(plain) => (plain, true),
        None => (address, false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offer_says_whether_it_is_encrypted() {
        for encrypted in [true, false] {
            let offer = offered("[::1]:7403", encrypted);
            assert_eq!(parse_offered(&offer), ("[::1]:7403", encrypted));
        }
    }
}
