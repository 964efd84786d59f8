//! Connections that a server takes.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::server::{Connected, TcpConnectInfo};

use crate::{Access, alive};

/// Handshakes at the same time; further callers wait in the kernel's queue.
const HANDSHAKES_MAX: usize = 256;
/// Connections that the server has not taken yet.
const TAKEN_AHEAD: usize = 64;
/// Pause after the system refused a connection, as when descriptors run out.
const PAUSE: Duration = Duration::from_millis(100);

/// A connection that may be used.
#[derive(Debug)]
pub struct Connection {
    stream: Stream,
    /// Its place among those that there may be.
    _place: OwnedSemaphorePermit,
}

#[derive(Debug)]
enum Stream {
    /// As it came.
    Plain(TcpStream),
    /// Over TLS, the caller's certificate checked.
    Tls(Box<TlsStream<TcpStream>>),
}

// === impl Access ===

impl Access {
    /// The connections of a listener, `connections_max` at a time: a further one is closed at
    /// once. With TLS, handshakes go on beside one another; a caller that fails at it is logged
    /// and left out. Ends when the stream is dropped.
    #[must_use]
    pub fn incoming(
        &self,
        listener: TcpListener,
        connections_max: usize,
    ) -> ReceiverStream<io::Result<Connection>> {
        let (take, taken) = mpsc::channel(TAKEN_AHEAD);
        let places = Places { free: Arc::new(Semaphore::new(connections_max)), refusing: false };
        tokio::spawn(accept(self.clone(), listener, places, take));
        ReceiverStream::new(taken)
    }
}

/// How many connections there may still be.
struct Places {
    free: Arc<Semaphore>,
    /// The last one was refused.
    refusing: bool,
}

// === impl Places ===

impl Places {
    /// A place for a caller; `None`: none is free, which is logged once for a row of them.
    fn take(&mut self, peer: SocketAddr) -> Option<OwnedSemaphorePermit> {
        let place = Arc::clone(&self.free).try_acquire_owned().ok();
        if place.is_none() && !std::mem::replace(&mut self.refusing, true) {
            tracing::warn!(%peer, "as many connections as may be: further callers are refused");
        }
        self.refusing = place.is_none();
        place
    }
}

async fn accept(
    access: Access,
    listener: TcpListener,
    mut places: Places,
    take: mpsc::Sender<io::Result<Connection>>,
) {
    let handshakes = Arc::new(Semaphore::new(HANDSHAKES_MAX));
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = take.closed() => return,
        };
        let (stream, peer) = match accepted {
            // An IPv4 caller of a server that listens on `[::]`.
            Ok((stream, peer)) => (stream, canonical(peer)),
            Err(error) => {
                tracing::warn!(%error, "a connection could not be taken");
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        let Some(place) = places.take(peer) else { continue };
        if let Err(error) = stream.set_nodelay(true).and_then(|()| alive::configure(&stream)) {
            tracing::debug!(%peer, %error, "a connection is gone already");
            continue;
        }
        let Some(tls) = &access.inner.tls else {
            let connection = Connection { stream: Stream::Plain(stream), _place: place };
            if take.send(Ok(connection)).await.is_err() {
                return;
            }
            continue;
        };
        let Ok(permit) = Arc::clone(&handshakes).acquire_owned().await else { return };
        let acceptor = TlsAcceptor::from(tls.grpc().server);
        let (take, limit) = (take.clone(), access.inner.config.handshake_timeout());
        tokio::spawn(async move {
            let _permit = permit;
            match tokio::time::timeout(limit, acceptor.accept(stream)).await {
                Ok(Ok(stream)) => {
                    let stream = Stream::Tls(Box::new(stream));
                    let _ = take.send(Ok(Connection { stream, _place: place })).await;
                }
                Ok(Err(error)) => tracing::warn!(%peer, %error, "a caller is refused"),
                Err(_) => tracing::warn!(%peer, "a caller does not finish its TLS handshake"),
            }
        });
    }
}

/// An IPv4 address that came in over IPv6 as people write it: not `[::ffff:127.0.0.1]`.
pub(crate) fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

// === impl Connection ===

impl Connection {
    pub(crate) fn tcp(&self) -> &TcpStream {
        match &self.stream {
            Stream::Plain(stream) => stream,
            Stream::Tls(stream) => stream.get_ref().0,
        }
    }

    fn peer(&self) -> Option<SocketAddr> {
        self.tcp().peer_addr().ok().map(canonical)
    }
}

impl Connected for Connection {
    type ConnectInfo = TcpConnectInfo;

    fn connect_info(&self) -> Self::ConnectInfo {
        TcpConnectInfo {
            local_addr: self.tcp().local_addr().ok().map(canonical),
            remote_addr: self.peer(),
        }
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match &mut self.get_mut().stream {
            Stream::Plain(stream) => Pin::new(stream).poll_read(context, buffer),
            Stream::Tls(stream) => Pin::new(stream).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match &mut self.get_mut().stream {
            Stream::Plain(stream) => Pin::new(stream).poll_write(context, bytes),
            Stream::Tls(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match &mut self.get_mut().stream {
            Stream::Plain(stream) => Pin::new(stream).poll_write_vectored(context, slices),
            Stream::Tls(stream) => Pin::new(stream).poll_write_vectored(context, slices),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match &self.stream {
            Stream::Plain(stream) => stream.is_write_vectored(),
            Stream::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().stream {
            Stream::Plain(stream) => Pin::new(stream).poll_flush(context),
            Stream::Tls(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().stream {
            Stream::Plain(stream) => Pin::new(stream).poll_shutdown(context),
            Stream::Tls(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}
