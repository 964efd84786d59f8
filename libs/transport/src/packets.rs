//! Unix sockets of whole packets (SOCK_SEQPACKET) that can carry a file descriptor each, between
//! processes of one host.

use std::ffi::OsStr;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rustix::cmsg_space;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, Shutdown, SocketAddrUnix, SocketFlags,
    SocketType,
};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::time::Instant;

use crate::link::key::random_bytes;
use crate::peer::PeerProcess;

/// Connections that may wait to be accepted.
const BACKLOG: i32 = 128;

/// Pause before connecting again to a receiver whose backlog is full.
const BACKLOG_PAUSE: Duration = Duration::from_millis(5);

/// How long a packet is tried to be sent that the system does not take: for want of memory, or since more descriptors of
/// the user are on their way than it may have open.
const SHORT_LIMIT: Duration = Duration::from_secs(20);

/// Pause between two tries.
const SHORT_PAUSE: Duration = Duration::from_millis(20);

/// One end, connected or listening.
#[derive(Debug)]
pub struct PacketSocket {
    fd: AsyncFd<OwnedFd>,
    /// Since when the system takes no packet.
    short_since: Mutex<Option<Instant>>,
}

/// A packet as received.
#[derive(Debug)]
pub struct Packet {
    /// What it says.
    pub bytes: Vec<u8>,
    /// The descriptor that came with it.
    pub fd: Option<OwnedFd>,
}

/// `@name` is a name in the abstract namespace, anything else a path.
pub(crate) fn address(name: &[u8]) -> io::Result<SocketAddrUnix> {
    let address = match name.strip_prefix(b"@") {
        Some(name) => SocketAddrUnix::new_abstract_name(name)?,
        None => SocketAddrUnix::new(name)?,
    };
    Ok(address)
}

/// Whether a socket file has no listener any more. Anything but a plain refusal counts as alive.
pub(crate) fn is_abandoned(path: &Path) -> bool {
    let probe = || {
        let fd = new_fd()?;
        rustix::net::connect(&fd, &SocketAddrUnix::new(path)?)
    };
    probe() == Err(Errno::CONNREFUSED)
}

/// Whether an error of sending says that nobody is at the other end any more. Any other may pass.
pub(crate) fn is_gone(error: &io::Error) -> bool {
    let errno = Errno::from_io_error(error);
    matches!(errno, Some(Errno::PIPE | Errno::CONNRESET | Errno::NOTCONN))
}

/// Resolves when a descriptor can be read, as one of a process (`pidfd_open`) can when that has ended.
///
/// # Errors
/// There is no runtime of tokio's here, or the descriptor cannot be waited for.
pub async fn readable(fd: OwnedFd) -> io::Result<()> {
    // SAFETY: as in `PacketSocket::from_fd`.
    let fd = unsafe { AsyncFd::register_with_interest(fd, Interest::READABLE) }?;
    fd.readable().await.map(drop)
}

// === impl PacketSocket ===

impl PacketSocket {
    /// Binds and listens. To be called in a runtime of tokio's, as all that makes a socket. A file that
    /// has the name is replaced.
    ///
    /// # Errors
    /// A name in the abstract namespace is taken, or the socket cannot be made.
    pub fn listen(name: &[u8]) -> io::Result<Self> {
        let fd = new_fd()?;
        if name.starts_with(b"@") {
            rustix::net::bind(&fd, &address(name)?)?;
            rustix::net::listen(&fd, BACKLOG)?;
        } else {
            listen_at(&fd, Path::new(OsStr::from_bytes(name)))?;
        }
        Self::from_fd(fd)
    }

    /// Connects, waiting while the listener's backlog is full.
    ///
    /// # Errors
    /// Nobody listens there, or the system is short of descriptors.
    pub async fn connect(name: &[u8]) -> io::Result<Self> {
        let address = address(name)?;
        let fd = new_fd()?;
        loop {
            match rustix::net::connect(&fd, &address) {
                Ok(()) => return Self::from_fd(fd),
                Err(Errno::AGAIN) => tokio::time::sleep(BACKLOG_PAUSE).await,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// The next connection of a listening socket.
    ///
    /// # Errors
    /// Somebody waits, and the system is short of descriptors: try again after a pause.
    pub async fn accept(&self) -> io::Result<Self> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let accept = |fd: &OwnedFd| {
            // Without a descriptor left `accept` fails, whether or not somebody waits.
            let now = Timespec { tv_sec: 0, tv_nsec: 0 };
            match poll(&mut [PollFd::new(fd, PollFlags::IN)], Some(&now)) {
                Ok(0) => Err(io::ErrorKind::WouldBlock.into()),
                _ => Ok(rustix::net::accept_with(fd, flags)?),
            }
        };
        Self::from_fd(self.fd.async_io(Interest::READABLE, accept).await?)
    }

    /// User of the process at the other end, as it was when it connected.
    ///
    /// # Errors
    /// It is not connected.
    pub fn peer_uid(&self) -> io::Result<u32> {
        Ok(PeerProcess::of(self)?.uid)
    }

    /// Sends a packet now, or says `WouldBlock`.
    pub(crate) fn send_now(&self, bytes: &[u8], fd: Option<BorrowedFd<'_>>) -> io::Result<()> {
        let sent = self.try_send(bytes, fd);
        // A socket that is full is not short of anything: the other end is to read.
        let takes = |error: &io::Error| error.kind() == io::ErrorKind::WouldBlock || is_gone(error);
        let is_short = sent.as_ref().is_err_and(|error| !takes(error));
        let mut since = self.short_since.lock().unwrap_or_else(PoisonError::into_inner);
        *since = is_short.then(|| since.unwrap_or_else(Instant::now));
        sent
    }

    /// How long the system has taken no packet.
    fn short_for(&self) -> Duration {
        let since = self.short_since.lock().unwrap_or_else(PoisonError::into_inner);
        since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    fn try_send(&self, bytes: &[u8], fd: Option<BorrowedFd<'_>>) -> io::Result<()> {
        let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let fds = fd.as_slice();
        if !fds.is_empty() {
            control.push(SendAncillaryMessage::ScmRights(fds));
        }
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        loop {
            match rustix::net::sendmsg(
                self.fd.get_ref(),
                &[IoSlice::new(bytes)],
                &mut control,
                flags,
            ) {
                Ok(_) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Sends a packet as soon as there is room.
    ///
    /// # Errors
    /// The other end is gone; or the system has taken no packet for `SHORT_LIMIT`, whoever wanted to send one.
    pub async fn send(&self, bytes: &[u8], fd: Option<BorrowedFd<'_>>) -> io::Result<()> {
        loop {
            let sent = self.fd.async_io(Interest::WRITABLE, |_| self.send_now(bytes, fd)).await;
            match sent {
                Err(error) if !is_gone(&error) && self.short_for() < SHORT_LIMIT => {
                    tokio::time::sleep(SHORT_PAUSE).await;
                }
                sent => return sent,
            }
        }
    }

    /// The next packet; `None` at the end of the stream, that is when the other end was closed
    /// (or its sending side was shut down). Nothing is lost where it is not waited for to its end.
    ///
    /// # Errors
    /// The packet is longer than `most_bytes`.
    pub async fn receive(&self, most_bytes: usize) -> io::Result<Option<Packet>> {
        self.fd.async_io(Interest::READABLE, |fd| receive_now(fd, most_bytes)).await
    }

    /// Lets the other end see the end of the stream, after what was sent; still receives.
    pub(crate) fn end_sending(&self) {
        rustix::net::shutdown(self.fd.get_ref(), Shutdown::Write).ok();
    }

    /// Ends the connection for all who hold a descriptor of this end; what was sent still arrives.
    pub(crate) fn end(&self) {
        rustix::net::shutdown(self.fd.get_ref(), Shutdown::Both).ok();
    }

    /// A socket that was connected before, and does not block.
    ///
    /// # Errors
    /// There is no runtime of tokio's here.
    pub fn from_fd(fd: OwnedFd) -> io::Result<Self> {
        // SAFETY: an OwnedFd is open, closes only when dropped, and always names the same
        // descriptor; the AsyncFd owns it and nothing here takes it out.
        let fd = unsafe { AsyncFd::register(fd) }?;
        Ok(Self { fd, short_since: Mutex::default() })
    }
}

impl AsFd for PacketSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.get_ref().as_fd()
    }
}

impl AsRawFd for PacketSocket {
    fn as_raw_fd(&self) -> i32 {
        self.fd.get_ref().as_raw_fd()
    }
}

/// Gives a socket its path only when it listens: until then [`is_abandoned`] would take it for one that
/// a killed process has left.
fn listen_at(fd: &OwnedFd, path: &Path) -> io::Result<()> {
    let draft = path.with_file_name(format!(".{:032x}", u128::from_le_bytes(random_bytes()?)));
    rustix::net::bind(fd, &SocketAddrUnix::new(&draft)?)?;
    let named = rustix::net::listen(fd, BACKLOG)
        .map_err(io::Error::from)
        .and_then(|()| std::fs::rename(&draft, path));
    if named.is_err() {
        // The error that matters is the first one.
        std::fs::remove_file(&draft).ok();
    }
    named
}

fn new_fd() -> rustix::io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
}

fn receive_now(fd: &OwnedFd, most_bytes: usize) -> io::Result<Option<Packet>> {
    let mut bytes = vec![0; most_bytes];
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
    let got = loop {
        match rustix::net::recvmsg(fd, &mut [IoSliceMut::new(&mut bytes)], &mut control, flags) {
            Ok(got) => break got,
            // CONNRESET: the other end closed with packets unread. It is reported once, ahead of
            // what it had sent itself; that, and then the end of the stream, are still to come.
            Err(Errno::INTR | Errno::CONNRESET) => {}
            Err(error) => return Err(error.into()),
        }
    };
    if got.flags.intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC) {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "a packet longer than the protocol's",
        ));
    }
    let fd = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
        _ => None,
    });
    if got.bytes == 0 {
        return Ok(None);
    }
    bytes.truncate(got.bytes);
    Ok(Some(Packet { bytes, fd }))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    use super::*;

    /// In a process of its own, whose limit of descriptors it lowers.
    #[tokio::test]
    async fn without_a_descriptor_only_somebody_who_waits_is_a_fault() {
        const ALONE: &str = "HEADWATER_TEST_ALONE";
        if std::env::var_os(ALONE).is_none() {
            let test = "packets::tests::without_a_descriptor_only_somebody_who_waits_is_a_fault";
            let mut alone = Command::new(std::env::current_exe().unwrap());
            assert!(alone.args(["--exact", test]).env(ALONE, "").status().unwrap().success());
            return;
        }
        let name = format!("@headwater-test-{}", std::process::id());
        let listener = PacketSocket::listen(name.as_bytes()).unwrap();
        let accepted = || tokio::time::timeout(Duration::from_millis(200), listener.accept());
        let _first = PacketSocket::connect(name.as_bytes()).await.unwrap();
        accepted().await.unwrap().unwrap();
        let late = new_fd().unwrap();
        let usual = getrlimit(Resource::Nofile);
        setrlimit(Resource::Nofile, Rlimit { current: Some(3), ..usual }).unwrap();
        accepted().await.expect_err("nobody waits");
        rustix::net::connect(&late, &address(name.as_bytes()).unwrap()).unwrap();
        accepted().await.unwrap().unwrap_err();
        setrlimit(Resource::Nofile, usual).unwrap();
        accepted().await.unwrap().unwrap();
    }
}
