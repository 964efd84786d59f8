//! The receiver's end: the listening socket and a task for each connection.

use std::io;
use std::net::IpAddr;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use headwater_lobby::Lobby;
use rustix::fs::{FileType, Mode, OFlags};
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};

use super::channel::Channel;
use super::choices::ShmListen;
use super::users::Users;
use super::wire::{Hello, VERSION, encode_refusal};
use crate::link::contract::{AnswersRequests, ReceiverLink, TakesDeviceSlots};
use crate::link::key::random_bytes;
use crate::link::messages::{ToReceiver, ToWorker};
use crate::link::receiver_permits::{
    ALREADY_CONNECTED, ChannelToWorker, ReceiverPermits, TURNED_OUT,
};
use crate::link::receiving_end::{ReceiverPath, ReceivingEnd};
use crate::link::terms::{Arrival, LinkError, LinkKind, PeerId};
use crate::memory::place::SlotId;
use crate::memory::slot::SlotMemory;
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

/// Whole slots are given away: a worker maps them and writes until it closes its end.
type Permits = ReceiverPermits<Arc<Channel>>;

/// A listening socket. Dropping it closes every connection.
#[derive(Debug)]
pub(super) struct ShmReceiver {
    name: Vec<u8>,
    file: Option<SocketFile>,
    task: AbortHandle,
}

/// A socket in a directory, removed when dropped.
#[derive(Debug)]
struct SocketFile(PathBuf);

/// Who may connect, and how long it may take.
#[derive(Debug)]
struct Acceptor {
    users: Users,
    handshake_timeout: Duration,
    lobby: Lobby,
}

// === impl ShmReceiver ===

impl ShmReceiver {
    pub(super) fn listen(
        config: &ShmListen,
        arrivals: mpsc::UnboundedSender<Arrival>,
    ) -> Result<Arc<dyn ReceiverLink>, LinkError> {
        let (name, socket, file) = bind(config).map_err(|error| {
            LinkKind::Shm.setup(match &config.socket_dir {
                Some(dir) => format!(
                    "no socket in {}: {error}; links.shm_socket_dir must be a writable \
                     directory with a short path",
                    dir.display()
                ),
                None => format!("no socket in the abstract namespace: {error}"),
            })
        })?;
        let permits = Arc::new(Permits::new(LinkKind::Shm, false, arrivals));
        let door = Acceptor {
            users: Users::new(&config.allow_uids),
            handshake_timeout: config.handshake_timeout,
            lobby: Lobby::new("shm", STRANGERS_MAX),
        };
        let task = tokio::spawn(accept_all(socket, Arc::clone(&permits), Arc::new(door)));
        Ok(ReceivingEnd::link(permits, Self { name, file, task: task.abort_handle() }))
    }
}

impl ReceiverPath for ShmReceiver {
    const KIND: LinkKind = LinkKind::Shm;

    type Channel = Arc<Channel>;

    fn address(&self, _: IpAddr) -> Vec<u8> {
        self.name.clone()
    }

    fn add_slot(
        &self,
        permits: &Permits,
        slot: SlotId,
        memory: Arc<SlotMemory>,
    ) -> Result<(), LinkError> {
        if memory.file().is_none() {
            return Err(LinkKind::Shm.setup(format!(
                "slot {} is private memory; make it with SlotMemory::shared",
                slot.0
            )));
        }
        permits.add_slot(slot, memory);
        Ok(())
    }

    fn answers_requests(&self) -> Option<&dyn AnswersRequests> {
        None
    }

    fn takes_device_slots(&self) -> Option<&dyn TakesDeviceSlots> {
        None // A GPU's memory has no file that a processor could map.
    }
}

impl Drop for ShmReceiver {
    fn drop(&mut self) {
        tracing::debug!(socket_file = ?self.file, "shm link closes");
        self.task.abort();
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        std::fs::remove_file(&self.0).ok();
    }
}

fn bind(config: &ShmListen) -> io::Result<(Vec<u8>, PacketSocket, Option<SocketFile>)> {
    let unique = u128::from_le_bytes(random_bytes()?);
    let Some(dir) = &config.socket_dir else {
        let name = format!("@{PREFIX}{unique:032x}").into_bytes();
        let socket = PacketSocket::listen(&name)?;
        return Ok((name, socket, None));
    };
    remove_abandoned(dir)?;
    let path = dir.join(format!("{PREFIX}{unique:032x}{SUFFIX}"));
    let name = path.as_os_str().as_encoded_bytes().to_vec();
    let socket = PacketSocket::listen(&name)?;
    let file = SocketFile(path);
    // Other users are let in by their uid, not by the file's mode.
    let mode = if config.allow_uids.is_empty() { 0o600 } else { 0o666 };
    set_mode(&file.0, mode)?;
    Ok((name, socket, Some(file)))
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

async fn accept_all(listener: PacketSocket, permits: Arc<Permits>, door: Arc<Acceptor>) {
    // Dropped with this task, and every connection with it.
    let mut connections = JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        match listener.accept().await {
            // Before it costs a place: whoever is refused here holds up nobody.
            Ok(socket) => {
                if let Err(reason) = door.users.check(socket.peer_uid(), "links.shm_allow_uids") {
                    turn_away(&Channel::new(socket, WAITING_MAX), &reason);
                    continue;
                }
                connections.spawn(serve(socket, Arc::clone(&permits), Arc::clone(&door)));
            }
            Err(error) => {
                tracing::warn!(%error, "shm link cannot accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn serve(socket: PacketSocket, permits: Arc<Permits>, door: Arc<Acceptor>) {
    let channel = Arc::new(Channel::new(socket, WAITING_MAX));
    let knock = tokio::time::timeout(door.handshake_timeout, door.knock(&channel, &permits));
    let known = tokio::select! {
        known = knock => known.unwrap_or_else(|_| Err("no hello in time".into())),
        () = door.lobby.enter(None) => Err(TURNED_OUT.into()),
    };
    let peer = match known {
        Ok(peer) => peer,
        Err(reason) => return turn_away(&channel, &reason),
    };
    let reason = listen_to(peer, &channel, &permits).await;
    permits.gone(peer, &reason);
}

fn turn_away(channel: &Channel, reason: &str) {
    metrics::refused(LinkKind::Shm);
    tracing::warn!(reason, "shm link refused a connection");
    channel.post(encode_refusal(reason), None);
}

/// Hears the worker to the end of its stream, whatever happens in between: only then is it gone.
async fn listen_to(peer: PeerId, channel: &Channel, permits: &Permits) -> String {
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
            tracing::warn!(peer = peer.0, reason, "a worker broke the shm link's protocol");
            fault = Some(reason);
            permits.drop_peer(peer);
        }
    }
}

// === impl Acceptor ===

impl Acceptor {
    async fn knock(&self, channel: &Arc<Channel>, permits: &Permits) -> Result<PeerId, String> {
        let packet = channel.receive().await.map_err(|error| error.to_string())?;
        let packet = packet.ok_or("closed before its hello")?;
        let Hello { version, key } =
            Hello::decode(&packet.bytes).ok_or("not a worker of this protocol")?;
        if version != VERSION {
            return Err(format!("shm link version {version}; this receiver speaks {VERSION}"));
        }
        permits.join(
            |own| own.matches(&key),
            |before| match before {
                Some(_) => Err(ALREADY_CONNECTED.into()),
                None => Ok(Arc::clone(channel)),
            },
        )
    }
}

// === impl ChannelToWorker ===

impl ChannelToWorker for Arc<Channel> {
    type Slot = Arc<SlotMemory>;

    const WRITTEN_HERE: bool = false;

    fn slot_bytes(slot: &Self::Slot) -> u64 {
        slot.len_bytes()
    }

    /// Goodbye is the end of this side's stream; a slot's file goes with its packet.
    fn send(&self, message: ToWorker<&Self::Slot>) {
        let file = match message {
            ToWorker::Bye => return self.end_sending(),
            ToWorker::Slot { terms, .. } => Some(Arc::clone(terms)),
            _ => None,
        };
        self.post(message.map(|slot| slot.len_bytes()).encode(), file);
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
