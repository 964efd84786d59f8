//! Connections that a server takes.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::server::{Connected, TcpConnectInfo};

use crate::Access;

/// Handshakes at the same time; further callers wait in the kernel's queue.
const HANDSHAKES_MAX: usize = 256;
/// Connections that the server has not taken yet.
const TAKEN_AHEAD: usize = 64;
/// Pause after the system refused a connection, as when descriptors run out.
const PAUSE: Duration = Duration::from_millis(100);

/// A connection that may be used.
#[derive(Debug)]
pub enum Connection {
    /// As it came.
    Plain(TcpStream),
    /// Over TLS, the caller's certificate checked.
    Tls(Box<TlsStream<TcpStream>>),
}

// === impl Access ===

impl Access {
    /// The connections of a listener. With TLS, handshakes go on beside one another; a caller that
    /// fails at it is logged and left out. Ends when the stream is dropped.
    #[must_use]
    pub fn incoming(&self, listener: TcpListener) -> ReceiverStream<io::Result<Connection>> {
        let (take, taken) = mpsc::channel(TAKEN_AHEAD);
        tokio::spawn(accept(self.clone(), listener, take));
        ReceiverStream::new(taken)
    }
}

async fn accept(access: Access, listener: TcpListener, take: mpsc::Sender<io::Result<Connection>>) {
    let handshakes = Arc::new(Semaphore::new(HANDSHAKES_MAX));
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = take.closed() => return,
        };
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "a connection could not be taken");
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%peer, %error, "a connection is gone already");
            continue;
        }
        let Some(tls) = &access.inner.tls else {
            if take.send(Ok(Connection::Plain(stream))).await.is_err() {
                return;
            }
            continue;
        };
        let Ok(permit) = Arc::clone(&handshakes).acquire_owned().await else { return };
        let acceptor = TlsAcceptor::from(tls.server());
        let (take, limit) = (take.clone(), access.inner.config.handshake_timeout());
        tokio::spawn(async move {
            let _permit = permit;
            match tokio::time::timeout(limit, acceptor.accept(stream)).await {
                Ok(Ok(stream)) => {
                    let _ = take.send(Ok(Connection::Tls(Box::new(stream)))).await;
                }
                Ok(Err(error)) => tracing::warn!(%peer, %error, "a caller is refused"),
                Err(_) => tracing::warn!(%peer, "a caller does not finish its TLS handshake"),
            }
        });
    }
}

// === impl Connection ===

impl Connection {
    pub(crate) fn tcp(&self) -> &TcpStream {
        match self {
            Self::Plain(stream) => stream,
            Self::Tls(stream) => stream.get_ref().0,
        }
    }

    fn peer(&self) -> Option<SocketAddr> {
        self.tcp().peer_addr().ok()
    }
}

impl Connected for Connection {
    type ConnectInfo = TcpConnectInfo;

    fn connect_info(&self) -> Self::ConnectInfo {
        TcpConnectInfo { local_addr: self.tcp().local_addr().ok(), remote_addr: self.peer() }
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_read(context, buffer),
            Self::Tls(stream) => Pin::new(stream).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write(context, bytes),
            Self::Tls(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write_vectored(context, slices),
            Self::Tls(stream) => Pin::new(stream).poll_write_vectored(context, slices),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Plain(stream) => stream.is_write_vectored(),
            Self::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_flush(context),
            Self::Tls(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(context),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}
