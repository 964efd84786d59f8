//! Connections of plain bytes, for what is not gRPC: the caller's side of [`Access::incoming`], and
//! the token as a word.

use std::io;
use std::net::SocketAddr;

use subtle::ConstantTimeEq as _;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::server::canonical;
use crate::tls::server_name;
use crate::{Access, Connection, alive};

/// Bytes both ways.
pub trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

/// A connection that was made.
pub struct Dialed {
    /// The bytes.
    pub stream: Box<dyn Duplex>,
    /// This end.
    pub local: SocketAddr,
    /// The other end.
    pub peer: SocketAddr,
}

// === impl Access ===

impl Access {
    /// Connects to `host:port` as the configuration says: with TLS where it has certificates.
    ///
    /// # Errors
    /// Nobody listens there, or the other side's certificate is not of this job, or not of that
    /// name.
    pub async fn dial(&self, address: &str) -> io::Result<Dialed> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        alive::configure(&stream)?;
        let (local, peer) = (canonical(stream.local_addr()?), canonical(stream.peer_addr()?));
        let Some(tls) = &self.inner.tls else {
            return Ok(Dialed { stream: Box::new(stream), local, peer });
        };
        let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
        let configured = self.inner.config.server_name.as_str();
        let name = if configured.is_empty() { host } else { configured };
        let name = server_name(name)
            .ok_or_else(|| io::Error::other(format!("`{name}` is no name of a server")))?;
        let shaking = TlsConnector::from(tls.grpc().client).connect(name, stream);
        let late = |_| io::Error::other("the TLS handshake takes too long");
        let limit = self.inner.config.handshake_timeout();
        let stream = tokio::time::timeout(limit, shaking).await.map_err(late)??;
        Ok(Dialed { stream: Box::new(stream), local, peer })
    }

    /// The token to show, where there is one.
    #[must_use]
    pub fn token(&self) -> Option<String> {
        let token = self.inner.token.as_ref()?.word();
        Some(String::from_utf8_lossy(&token).into_owned())
    }

    /// Whether a caller that showed `given` is let in.
    #[must_use]
    pub fn lets_in(&self, given: Option<&str>) -> bool {
        let Some(token) = &self.inner.token else { return true };
        // The time this takes tells the tokens' length at most.
        given.is_some_and(|given| token.any(|word| word.ct_eq(given.as_bytes())))
    }
}

// === impl Connection ===

impl Connection {
    /// The two ends: this one and the caller's.
    ///
    /// # Errors
    /// The connection is gone.
    pub fn ends(&self) -> io::Result<(SocketAddr, SocketAddr)> {
        Ok((canonical(self.tcp().local_addr()?), canonical(self.tcp().peer_addr()?)))
    }
}
