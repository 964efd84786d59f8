//! Whole reads and writes on a shared stream, and the socket's options.

use std::io::{self, IoSlice};
use std::time::Duration;

use rustix::net::{Shutdown, sockopt};
use tokio::net::TcpStream;

/// Silence after which the kernel asks whether the other end is still there.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(10);
/// Pause between such questions.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(5);
/// Unanswered questions after which the connection is broken.
const KEEPALIVE_COUNT: u32 = 3;

/// Sets what every data connection has.
pub(super) fn configure(stream: &TcpStream, buffer_bytes: Option<usize>) -> io::Result<()> {
    stream.set_nodelay(true)?;
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, KEEPALIVE_IDLE)?;
    sockopt::set_tcp_keepintvl(stream, KEEPALIVE_INTERVAL)?;
    sockopt::set_tcp_keepcnt(stream, KEEPALIVE_COUNT)?;
    if let Some(bytes) = buffer_bytes {
        sockopt::set_socket_recv_buffer_size(stream, bytes)?;
        sockopt::set_socket_send_buffer_size(stream, bytes)?;
    }
    Ok(())
}

/// Fills `target`; the end of the stream is `UnexpectedEof`.
pub(super) async fn read_exact(stream: &TcpStream, mut target: &mut [u8]) -> io::Result<()> {
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

/// Writes all slices, without joining them.
pub(super) async fn write_all(
    stream: &TcpStream,
    mut slices: &mut [IoSlice<'_>],
) -> io::Result<()> {
    IoSlice::advance_slices(&mut slices, 0); // Skips empty ones, which would read as "wrote none".
    while !slices.is_empty() {
        stream.writable().await?;
        match stream.try_write_vectored(slices) {
            Ok(sent) => IoSlice::advance_slices(&mut slices, sent),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
        tokio::task::coop::consume_budget().await;
    }
    Ok(())
}

/// Ends both directions at once; whoever reads or writes the stream sees it.
pub(super) fn cut(stream: &TcpStream) {
    rustix::net::shutdown(stream, Shutdown::Both).ok();
}
