//! How soon a connection whose other end has vanished is given up: within a minute.
//!
//! A host that loses power or its cable says nothing. Without these options the kernel keeps its
//! connections for hours, or for a quarter of an hour where bytes wait to be sent.

use std::io;
use std::time::Duration;

use hyper_util::client::legacy::connect::HttpConnector;
use rustix::net::sockopt;
use tokio::net::TcpStream;

/// Silence after which the kernel asks whether the other end is still there.
const IDLE: Duration = Duration::from_secs(15);
/// Pause between such questions.
const INTERVAL: Duration = Duration::from_secs(5);
/// Unanswered questions after which the connection is broken.
const COUNT: u32 = 4;
/// Time for the other end to acknowledge what was sent.
const UNACKNOWLEDGED: Duration = Duration::from_secs(35);

/// For a connection that was taken or made.
pub(crate) fn configure(stream: &TcpStream) -> io::Result<()> {
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, IDLE)?;
    sockopt::set_tcp_keepintvl(stream, INTERVAL)?;
    sockopt::set_tcp_keepcnt(stream, COUNT)?;
    let milliseconds = UNACKNOWLEDGED.as_millis() as u32;
    Ok(sockopt::set_tcp_user_timeout(stream, milliseconds)?)
}

/// For all connections that a client will make.
pub(crate) fn configure_connector(connector: &mut HttpConnector) {
    connector.set_keepalive(Some(IDLE));
    connector.set_keepalive_interval(Some(INTERVAL));
    connector.set_keepalive_retries(Some(COUNT));
    connector.set_tcp_user_timeout(Some(UNACKNOWLEDGED));
}
