//! Whole reads and writes on a connection, encrypted or not, and the socket's options.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use rustix::net::{Shutdown, sockopt};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::io::{ReadBuf, ReadHalf, WriteHalf};
use tokio::net::TcpStream;
use tokio_rustls::{TlsAcceptor, TlsConnector, TlsStream};

use super::target::{Filled, Target};
use super::tls::{ConnectTls, ListenTls, Offered};

/// Silence after which the kernel asks whether the other end is still there.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(10);
/// Pause between such questions.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(5);
/// Unanswered questions after which the connection is broken.
const KEEPALIVE_COUNT: u32 = 3;
/// Time for the other end to acknowledge what was sent; no keepalive runs meanwhile.
const UNACKNOWLEDGED: Duration = Duration::from_secs(30);

/// The reading half of a connection.
#[derive(Debug)]
pub(super) enum Reader {
    Plain(Arc<TcpStream>),
    Tls(ReadHalf<TlsStream<Shared>>),
}

/// The writing half of a connection.
#[derive(Debug)]
pub(super) enum Writer {
    Plain(Arc<TcpStream>),
    Tls(WriteHalf<TlsStream<Shared>>),
}

/// A socket that others may cut off while it is read and written.
#[derive(Debug)]
pub(super) struct Shared(Arc<TcpStream>);

/// Sets what every data connection has.
pub(super) fn configure(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, KEEPALIVE_IDLE)?;
    sockopt::set_tcp_keepintvl(stream, KEEPALIVE_INTERVAL)?;
    sockopt::set_tcp_keepcnt(stream, KEEPALIVE_COUNT)?;
    Ok(sockopt::set_tcp_user_timeout(stream, UNACKNOWLEDGED.as_millis() as u32)?)
}

/// The receiver's side of a new connection.
pub(super) async fn accept(
    stream: &Arc<TcpStream>,
    tls: Option<&ListenTls>,
) -> io::Result<(Reader, Writer)> {
    let Some(tls) = tls else { return Ok(plain(stream)) };
    let shaken = TlsAcceptor::from(tls.config()).accept(Shared(Arc::clone(stream))).await?;
    Ok(encrypted(shaken.into()))
}

/// The worker's side of a new connection to the receiver of an offer.
pub(super) async fn connect(
    stream: &Arc<TcpStream>,
    tls: Option<&ConnectTls>,
    offered: &Offered,
) -> io::Result<(Reader, Writer)> {
    let Some(tls) = tls else { return Ok(plain(stream)) };
    let name = tls.name(offered).ok_or_else(|| io::Error::other("no name of a server"))?;
    let connector = TlsConnector::from(tls.config());
    let shaken = connector.connect(name, Shared(Arc::clone(stream))).await?;
    Ok(encrypted(shaken.into()))
}

fn plain(stream: &Arc<TcpStream>) -> (Reader, Writer) {
    (Reader::Plain(Arc::clone(stream)), Writer::Plain(Arc::clone(stream)))
}

fn encrypted(stream: TlsStream<Shared>) -> (Reader, Writer) {
    let (reader, writer) = tokio::io::split(stream);
    (Reader::Tls(reader), Writer::Tls(writer))
}

/// Ends both directions at once; whoever reads or writes the stream sees it.
pub(super) fn cut(stream: &TcpStream) {
    rustix::net::shutdown(stream, Shutdown::Both).ok();
}

// === impl Reader ===

impl Reader {
    /// Fills `target`; the end of the stream is `UnexpectedEof`.
    pub(super) async fn read_exact(&mut self, mut target: &mut [u8]) -> io::Result<()> {
        let stream = match self {
            Self::Plain(stream) => stream,
            Self::Tls(half) => return half.read_exact(target).await.map(drop),
        };
        while !target.is_empty() {
            stream.readable().await?;
            match stream.try_read(target) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(got) => target = &mut target[got..],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Reads a part's payload to its place.
    pub(super) async fn fill(&mut self, target: &Target) -> io::Result<Filled> {
        match self {
            Self::Plain(stream) => target.fill_from(stream).await,
            Self::Tls(half) => target.fill_deciphered(half).await,
        }
    }
}

// === impl Writer ===

impl Writer {
    /// Writes all slices, without joining them.
    pub(super) async fn write_all(&mut self, mut slices: &mut [IoSlice<'_>]) -> io::Result<()> {
        IoSlice::advance_slices(&mut slices, 0); // Skips empty ones, which would read as "wrote none".
        while !slices.is_empty() {
            let sent = match self {
                Self::Plain(stream) => {
                    stream.writable().await?;
                    match stream.try_write_vectored(slices) {
                        Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
                        sent => sent?,
                    }
                }
                Self::Tls(half) => match half.write_vectored(slices).await? {
                    0 => return Err(io::ErrorKind::WriteZero.into()),
                    sent => sent,
                },
            };
            IoSlice::advance_slices(&mut slices, sent);
            tokio::task::coop::consume_budget().await;
        }
        match self {
            Self::Plain(_) => Ok(()),
            Self::Tls(half) => half.flush().await,
        }
    }
}

// === impl Shared ===

impl AsyncRead for Shared {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            ready!(self.0.poll_read_ready(context))?;
            match self.0.try_read(buffer.initialize_unfilled()) {
                Ok(got) => {
                    buffer.advance(got);
                    return Poll::Ready(Ok(()));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}

impl AsyncWrite for Shared {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(context, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.0.poll_write_ready(context))?;
            match self.0.try_write_vectored(slices) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                sent => return Poll::Ready(sent),
            }
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(rustix::net::shutdown(&*self.0, Shutdown::Write).map_err(Into::into))
    }
}
