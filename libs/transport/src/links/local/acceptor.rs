//! A socket that workers of this host connect to, and what every link does with a connection.

use std::future::Future;
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use headwater_lobby::Lobby;
use rustix::fs::{FileType, Mode, OFlags};
use tokio::task::JoinSet;

use super::channel::Channel;
use super::hello::{Hello, encode_refusal};
use super::users::Users;
use crate::link::key::random_bytes;
use crate::link::messages::ToReceiver;
use crate::link::receiver_permits::{ChannelToWorker, ReceiverPermits, TURNED_OUT};
use crate::link::terms::{LinkError, LinkKind, PeerId};
use crate::metrics;
use crate::packets::{self, PacketSocket};

/// Connections that may be about to present their key at one time.
const STRANGERS_MAX: usize = 64;

/// Packets that wait for one worker: this end posts no more than it has slots and leases open.
const WAITING_MAX: usize = usize::MAX;

/// Pause after a failed accept, for instance for want of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Pause after a failed receive, so that a lasting failure does not spin.
const FAULT_PAUSE: Duration = Duration::from_millis(100);

const PREFIX: &str = "headwater-";
const SUFFIX: &str = ".sock";

/// A listening socket's name, and its file where it is in a directory.
#[derive(Debug)]
pub(crate) struct Address {
    pub(crate) name: Vec<u8>,
    /// Removed when dropped.
    _file: Option<SocketFile>,
}

/// A socket in a directory, removed when dropped.
#[derive(Debug)]
struct SocketFile(PathBuf);

/// Who may connect to a link, and how long it may take.
#[derive(Debug)]
pub(crate) struct Acceptor {
    kind: LinkKind,
    users: Users,
    handshake_timeout: Duration,
    lobby: Lobby,
}

// === impl Address ===

impl Address {
    /// A new socket in a directory, or in the abstract namespace. `allow_uids`: users that are let in, beside the own
    /// and root.
    ///
    /// # Errors
    /// It cannot be made; names the key.
    pub(crate) fn listen(
        kind: LinkKind,
        dir: Option<&Path>,
        allow_uids: &[u32],
    ) -> Result<(Self, PacketSocket), LinkError> {
        bind(dir, allow_uids).map_err(|error| {
            kind.setup(match dir {
                Some(dir) => format!(
                    "no socket in {}: {error}; links.shm_socket_dir must be a writable \
                     directory with a short path",
                    dir.display()
                ),
                None => format!("no socket in the abstract namespace: {error}"),
            })
        })
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        std::fs::remove_file(&self.0).ok();
    }
}

fn bind(dir: Option<&Path>, allow_uids: &[u32]) -> io::Result<(Address, PacketSocket)> {
    let unique = u128::from_le_bytes(random_bytes()?);
    let Some(dir) = dir else {
        let name = format!("@{PREFIX}{unique:032x}").into_bytes();
        let socket = PacketSocket::listen(&name)?;
        return Ok((Address { name, _file: None }, socket));
    };
    remove_abandoned(dir)?;
    let path = dir.join(format!("{PREFIX}{unique:032x}{SUFFIX}"));
    let name = path.as_os_str().as_encoded_bytes().to_vec();
    let socket = PacketSocket::listen(&name)?;
    let file = SocketFile(path);
    // Other users are let in by their uid, not by the file's mode.
    let mode = if allow_uids.is_empty() { 0o600 } else { 0o666 };
    set_mode(&file.0, mode)?;
    Ok((Address { name, _file: Some(file) }, socket))
}

/// Changes the mode of a socket, and of nothing that somebody else has put in its place.
fn set_mode(path: &Path, mode: u32) -> io::Result<()> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let there = rustix::fs::open(path, flags, Mode::empty())?;
    if !FileType::from_raw_mode(rustix::fs::fstat(&there)?.st_mode).is_socket() {
        return Err(io::Error::other("another file is in the place of the socket"));
    }
    // What is open by its path only is changed by that name.
    let open = format!("/proc/self/fd/{}", there.as_raw_fd());
    std::fs::set_permissions(open, std::fs::Permissions::from_mode(mode))
}

/// Removes the sockets of receivers that were killed.
fn remove_abandoned(dir: &Path) -> io::Result<()> {
    for entry in std::fs::read_dir(dir)? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if name.starts_with(PREFIX) && name.ends_with(SUFFIX) && packets::is_abandoned(&path) {
            std::fs::remove_file(&path).ok();
        }
    }
    Ok(())
}

/// Takes connections until it is dropped, and every connection with it. `serve` has each to its end.
pub(crate) async fn accept_all<F>(
    listener: PacketSocket,
    door: Arc<Acceptor>,
    serve: impl Fn(Channel) -> F,
) where
    F: Future<Output = ()> + Send + 'static,
{
    // Dropped with this task, and every connection with it.
    let mut connections = JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        match listener.accept().await {
            // Before it costs a place: whoever is refused here holds up nobody.
            Ok(socket) => {
                let known = door.users.check(socket.peer_uid(), "links.shm_allow_uids");
                let channel = Channel::new(door.kind, socket, WAITING_MAX);
                if let Err(reason) = known {
                    door.turn_away(&channel, &reason);
                    continue;
                }
                connections.spawn(serve(channel));
            }
            Err(error) => {
                tracing::warn!(%error, "{} link cannot accept a connection", door.kind);
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Hears the worker to the end of its stream, whatever happens in between: only then is it gone.
pub(crate) async fn listen_to<C: ChannelToWorker>(
    kind: LinkKind,
    peer: PeerId,
    channel: &Channel,
    permits: &ReceiverPermits<C>,
) -> String {
    let mut fault = None;
    loop {
        let heard = match channel.receive().await {
            Ok(None) => return fault.unwrap_or_else(|| "the worker closed the link".into()),
            // After a fault the worker is only waited for.
            Ok(Some(_)) if fault.is_some() => continue,
            Ok(Some(packet)) => match ToReceiver::decode(&packet.bytes) {
                Some(ToReceiver::Bye) | None => Err("no known message".into()),
                Some(message) => {
                    permits.on_message(peer, message);
                    Ok(())
                }
            },
            Err(error) => {
                tokio::time::sleep(FAULT_PAUSE).await;
                Err(error.to_string())
            }
        };
        if let Err(reason) = heard {
            tracing::warn!(peer = peer.0, reason, "a worker broke the {kind} link's protocol");
            fault = Some(reason);
            permits.drop_peer(peer);
        }
    }
}

// === impl Acceptor ===

impl Acceptor {
    pub(crate) fn new(kind: LinkKind, allow_uids: &[u32], handshake_timeout: Duration) -> Self {
        let lobby = Lobby::new(kind.name(), STRANGERS_MAX);
        Self { kind, users: Users::new(allow_uids), handshake_timeout, lobby }
    }

    /// What `knock` comes to in the time that a caller has to show who it is. Whoever does not gets the reason.
    pub(crate) async fn known<T>(
        &self,
        channel: &Channel,
        knock: impl Future<Output = Result<T, String>>,
    ) -> Option<T> {
        let knock = tokio::time::timeout(self.handshake_timeout, knock);
        let known = tokio::select! {
            known = knock => known.unwrap_or_else(|_| Err("no hello in time".into())),
            () = self.lobby.enter(None) => Err(TURNED_OUT.into()),
        };
        known.map_err(|reason| self.turn_away(channel, &reason)).ok()
    }

    pub(crate) fn turn_away(&self, channel: &Channel, reason: &str) {
        metrics::refused(self.kind);
        tracing::warn!(reason, "{} link refused a connection", self.kind);
        channel.post(encode_refusal(reason), None);
    }

    /// The key of a caller's hello.
    ///
    /// # Errors
    /// It is none of this link and version: the answer to it.
    pub(crate) async fn hello(
        &self,
        channel: &Channel,
        magic: [u8; 4],
        version: u16,
    ) -> Result<[u8; 32], String> {
        let packet = channel.receive().await.map_err(|error| error.to_string())?;
        let packet = packet.ok_or("closed before its hello")?;
        let hello = Hello::decode(magic, &packet.bytes).ok_or("not a worker of this protocol")?;
        if hello.version != version {
            let (kind, theirs) = (self.kind, hello.version);
            return Err(format!("{kind} link version {theirs}; this receiver speaks {version}"));
        }
        Ok(hello.key)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn the_mode_of_a_file_that_was_put_in_a_sockets_place_stays() {
        let dir = tempfile::tempdir().expect("a folder");
        let (file, link) = (dir.path().join("file"), dir.path().join("link"));
        std::fs::write(&file, "precious").expect("a file");
        let mode = || std::fs::metadata(&file).expect("the file").permissions().mode();
        let before = mode();
        symlink(&file, &link).expect("a link");
        for path in [&file, &link] {
            assert!(set_mode(path, 0o666).is_err(), "{}", path.display());
        }
        assert_eq!(mode(), before);
        let socket = dir.path().join("socket");
        let _listener = std::os::unix::net::UnixListener::bind(&socket).expect("a socket");
        set_mode(&socket, 0o600).expect("a socket's own");
        let metadata = std::fs::metadata(&socket).expect("the socket");
        assert_eq!(metadata.permissions().mode() & 0o777, 0o600);
    }
}
