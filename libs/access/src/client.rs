//! Connections that a client makes.

use std::io;
use std::net::IpAddr;
use std::sync::{Arc, OnceLock};

use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::{self, CertificateError};
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Channel, Endpoint, Error, Uri};
use tower::Service as _;

use crate::stream::Duplex;
use crate::tls::{Tls, server_name};
use crate::{Access, Bearer, alive};

/// A channel that shows the token.
pub type Caller = InterceptedService<Channel, Bearer>;

/// A server that was reached.
#[derive(Clone, Debug)]
pub struct Reached {
    /// The way to it.
    pub caller: Caller,
    /// This host's address on the connection that was made: whoever answers can reach it too.
    pub local: IpAddr,
}

// === impl Access ===

impl Access {
    /// Connects as the configuration says. The endpoint's scheme is `http` with TLS too.
    ///
    /// # Errors
    /// Nobody listens there, or the server's certificate is not of this job, or not of that name.
    pub async fn connect(&self, endpoint: &Endpoint) -> Result<Reached, Error> {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        alive::configure_connector(&mut tcp);
        let local = Arc::new(OnceLock::new());
        let (noted, access) = (Arc::clone(&local), self.clone());
        let connector = tower::service_fn(move |uri: Uri| {
            let (mut tcp, noted, access) = (tcp.clone(), Arc::clone(&noted), access.clone());
            async move {
                let ready = std::future::poll_fn(|context| tcp.poll_ready(context));
                ready.await.map_err(io::Error::other)?;
                let connected = tcp.call(uri.clone()).await.map_err(io::Error::other)?;
                let stream = connected.into_inner();
                // A channel may connect again later; its first connection is the one of interest.
                let _ = noted.set(stream.local_addr()?.ip().to_canonical());
                access.encrypt(stream, &uri).await.map(TokioIo::new)
            }
        });
        let channel = endpoint.connect_with_connector(connector).await?;
        let local = *local.get().expect("a channel that is connected has noted its address");
        Ok(Reached { caller: InterceptedService::new(channel, self.bearer()), local })
    }

    /// With TLS where it is configured.
    async fn encrypt(&self, stream: TcpStream, uri: &Uri) -> io::Result<Box<dyn Duplex>> {
        let Some(tls) = &self.inner.tls else { return Ok(Box::new(stream)) };
        let shaking = shake(tls, &self.inner.config.server_name, uri, stream);
        let late = |_| io::Error::other("the TLS handshake takes too long");
        let limit = self.inner.config.handshake_timeout();
        Ok(Box::new(tokio::time::timeout(limit, shaking).await.map_err(late)??))
    }
}

async fn shake(
    tls: &Tls,
    name: &str,
    uri: &Uri,
    stream: TcpStream,
) -> io::Result<tokio_rustls::client::TlsStream<TcpStream>> {
    let host = uri.host().ok_or_else(|| io::Error::other("an address without a host"))?;
    let name = if name.is_empty() { host } else { name };
    let name = server_name(name)
        .ok_or_else(|| io::Error::other(format!("`{name}` is no name of a server")))?;
    let shaken = TlsConnector::from(tls.grpc().client).connect(name, stream).await;
    shaken.map_err(|error| io::Error::new(error.kind(), explained(host, &error)))
}

/// What is wrong and what to do where a handshake fails.
fn explained(host: &str, error: &io::Error) -> String {
    let fault = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    let remedy = match fault {
        Some(rustls::Error::InvalidMessage(_)) => {
            "it speaks no TLS: give every process the files of [security], or none"
        }
        Some(rustls::Error::InvalidCertificate(
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
        )) => "sign its certificate for that name, or set security.server_name to the one it has",
        Some(rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer)) => {
            "its certificate is of another authority than security.ca_file"
        }
        _ => "see docs/security.md for the files that both sides need",
    };
    format!("TLS with {host}: {error}; {remedy}")
}
