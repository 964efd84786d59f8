//! Connections that a client makes.

use std::io;
use std::sync::Arc;

use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Channel, Endpoint, Error, Uri};

use crate::tls::{Tls, server_name};
use crate::{Access, Bearer};

/// A channel that shows the token.
pub type Caller = InterceptedService<Channel, Bearer>;

// === impl Access ===

impl Access {
    /// Connects as the configuration says. The endpoint's scheme is `http` with TLS too.
    ///
    /// # Errors
    /// Nobody listens there, or the server's certificate is not of this job, or not of that name.
    pub async fn connect(&self, endpoint: &Endpoint) -> Result<Caller, Error> {
        let channel = match &self.inner.tls {
            None => endpoint.connect().await?,
            Some(tls) => {
                let tls = Arc::clone(tls);
                let name = self.inner.config.server_name.clone();
                let handshake = self.inner.config.handshake_timeout();
                let connector = tower::service_fn(move |uri: Uri| {
                    let (tls, name) = (Arc::clone(&tls), name.clone());
                    async move {
                        let shaken = tokio::time::timeout(handshake, shake(&tls, &name, &uri));
                        let late = |_| io::Error::other("the TLS handshake takes too long");
                        Ok::<_, io::Error>(TokioIo::new(shaken.await.map_err(late)??))
                    }
                });
                endpoint.connect_with_connector(connector).await?
            }
        };
        Ok(InterceptedService::new(channel, self.bearer()))
    }
}

async fn shake(tls: &Tls, name: &str, uri: &Uri) -> io::Result<TlsStream<TcpStream>> {
    let host = uri.host().ok_or_else(|| io::Error::other("an address without a host"))?;
    let port = uri.port_u16().ok_or_else(|| io::Error::other("an address without a port"))?;
    let name = if name.is_empty() { host } else { name };
    let name = server_name(name)
        .ok_or_else(|| io::Error::other(format!("`{name}` is no name of a server")))?;
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let stream = TcpStream::connect((bare, port)).await?;
    stream.set_nodelay(true)?;
    TlsConnector::from(tls.grpc().client).connect(name, stream).await
}
