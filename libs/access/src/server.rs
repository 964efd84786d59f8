//! Connections that a server takes.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use headwater_lobby::{Lobby, Place};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::server::Connected;

use crate::{Access, ConnectionAuth, alive};

/// Connections that the server has not taken yet.
const TAKEN_AHEAD: usize = 64;
/// Pause after the system refused a connection, as when descriptors run out.
const PAUSE: Duration = Duration::from_millis(100);

/// A connection that may be used until its standing ends: it has some seconds to have a request let
/// in, and gives way to newcomers until then.
#[derive(Debug)]
pub struct Connection {
    stream: Stream,
    standing: ConnectionAuth,
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
    /// The connections of a listener. Those that have had no request let in have places of their
    /// own (`strangers_max`) and little time; `connections_max` of the others there may be. With
    /// TLS, handshakes go on beside one another; a caller that fails at it is logged and left out.
    /// Ends when the stream is dropped. `door` names the server in metrics.
    #[must_use]
    pub fn incoming(
        &self,
        listener: TcpListener,
        connections_max: usize,
        door: &'static str,
    ) -> ReceiverStream<io::Result<Connection>> {
        let (take, taken) = mpsc::channel(TAKEN_AHEAD);
        let entrance = Entrance {
            access: self.clone(),
            lobby: Lobby::new(door, self.inner.config.strangers_max as usize),
            seats: Arc::new(Semaphore::new(connections_max)),
            take,
        };
        tokio::spawn(entrance.accept(listener));
        ReceiverStream::new(taken)
    }
}

/// Where callers come in.
struct Entrance {
    access: Access,
    lobby: Lobby,
    seats: Arc<Semaphore>,
    take: mpsc::Sender<io::Result<Connection>>,
}

// === impl Entrance ===

impl Entrance {
    async fn accept(self, listener: TcpListener) {
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                () = self.take.closed() => return,
            };
            match accepted {
                // An IPv4 caller of a server that listens on `[::]`.
                Ok((stream, peer)) => self.receive(stream, canonical(peer)),
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be taken");
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }

    /// Goes on with one caller beside the others.
    fn receive(&self, stream: TcpStream, peer: SocketAddr) {
        if let Err(error) = stream.set_nodelay(true).and_then(|()| alive::configure(&stream)) {
            tracing::debug!(%peer, %error, "a connection is gone already");
            return;
        }
        let place = self.lobby.enter(Some(peer.ip()));
        let acceptor =
            self.access.inner.tls.as_ref().map(|tls| TlsAcceptor::from(tls.grpc().server));
        let config = &self.access.inner.config;
        let limits = (config.handshake_timeout(), config.first_request_timeout());
        let (seats, take) = (Arc::clone(&self.seats), self.take.clone());
        tokio::spawn(async move {
            let shaken = shake(acceptor, stream, place, limits.0).await;
            match shaken {
                Ok((stream, place)) => {
                    let standing = ConnectionAuth::new(peer, seats, place, limits.1);
                    let _ = take.send(Ok(Connection::new(stream, standing))).await;
                }
                // Counted: somebody who comes by the thousand is not to fill the log as well.
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {
                    tracing::debug!(%peer, %error, "a caller is turned out");
                }
                Err(error) => tracing::warn!(%peer, %error, "a caller is refused"),
            }
        });
    }
}

/// With TLS where there is an acceptor. A caller may be turned out meanwhile.
async fn shake(
    acceptor: Option<TlsAcceptor>,
    stream: TcpStream,
    mut place: Place,
    limit: Duration,
) -> io::Result<(Stream, Place)> {
    let Some(acceptor) = acceptor else { return Ok((Stream::Plain(stream), place)) };
    let shaken = tokio::select! {
        shaken = tokio::time::timeout(limit, acceptor.accept(stream)) => shaken,
        () = &mut place => {
            let reason = "another took its place before its TLS handshake was done";
            return Err(io::Error::new(io::ErrorKind::ConnectionAborted, reason));
        }
    };
    let late = |_| io::Error::other("it does not finish its TLS handshake");
    Ok((Stream::Tls(Box::new(shaken.map_err(late)??)), place))
}

/// An IPv4 address that came in over IPv6 as people write it: not `[::ffff:127.0.0.1]`.
pub(crate) fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

// === impl Connection ===

impl Connection {
    fn new(stream: Stream, standing: ConnectionAuth) -> Self {
        Self { stream, standing }
    }

    /// What the connection has shown, for what is not gRPC: there a [`Guard`](crate::Guard) judges.
    #[must_use]
    pub fn standing(&self) -> ConnectionAuth {
        self.standing.clone()
    }

    pub(crate) fn tcp(&self) -> &TcpStream {
        match &self.stream {
            Stream::Plain(stream) => stream,
            Stream::Tls(stream) => stream.get_ref().0,
        }
    }
}

/// Requests carry it: see [`Guard`](crate::Guard).
impl Connected for Connection {
    type ConnectInfo = ConnectionAuth;

    fn connect_info(&self) -> ConnectionAuth {
        self.standing.clone()
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.standing.leave();
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let connection = self.get_mut();
        connection.standing.poll(context)?;
        match &mut connection.stream {
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

#[cfg(test)]
mod tests {
    use super::canonical;

    #[test]
    fn an_ipv4_caller_of_a_socket_of_both_kinds_is_shown_as_people_write_it() {
        let shown = |address: &str| canonical(address.parse().expect("an address")).to_string();
        assert_eq!(shown("[::ffff:127.0.0.1]:7401"), "127.0.0.1:7401");
        assert_eq!(shown("[fd00::7]:7401"), "[fd00::7]:7401");
    }
}
