//! What other users, and receivers that mean harm, do to the shm link. A stranger is this same binary,
//! started as another user on the test `stranger`.

use std::io::{BufRead as _, BufReader, IoSlice, IoSliceMut, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use headwater_transport::conformance::HERE;
use headwater_transport::links::shm::{self, ShmConnect, ShmListen};
use headwater_transport::{Arrival, LinkError, LinkKind, LinkOffer, PeerId, SessionKey};
use rustix::fs::{FallocateFlags, MemfdFlags, Mode, OFlags, SealFlags};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, SocketAddrUnix, SocketFlags, SocketType,
};
use tokio::sync::mpsc;

const ROLE: &str = "HEADWATER_TEST_STRANGER";
const NAME: &str = "HEADWATER_TEST_SOCKET";
const NOBODY: u32 = 65_534;
const KEY: SessionKey = SessionKey([7; 32]);
const PEER: PeerId = PeerId(1);
const SLOT_BYTES: u64 = 1 << 20;
/// More than a receiver hears out at a time.
const SILENT: usize = 70;
const PATIENCE: Duration = Duration::from_secs(60);

/// A process of another user; killed when dropped.
struct Stranger {
    child: Child,
    says: BufReader<ChildStdout>,
}

// === impl Stranger ===

impl Stranger {
    /// Starts one and waits until it has said that it is there; `None`: only root can be two users.
    fn start(role: &str, name: &str) -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            return None;
        }
        let mut command = Command::new(std::env::current_exe().expect("this binary"));
        command
            .args(["stranger", "--exact", "--ignored", "--nocapture"])
            .env(ROLE, role)
            .env(NAME, name)
            .stdout(Stdio::piped())
            .uid(NOBODY);
        let mut child = command.spawn().expect("a process");
        let says = BufReader::new(child.stdout.take().expect("its output"));
        let mut stranger = Self { child, says };
        stranger.until("there");
        Some(stranger)
    }

    fn until(&mut self, start: &str) {
        let mut line = String::new();
        while !line.starts_with(start) {
            line.clear();
            let read = self.says.read_line(&mut line).expect("its output");
            assert_ne!(read, 0, "the stranger ended before it said {start}");
        }
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

fn socket() -> OwnedFd {
    rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
        .expect("a socket")
}

fn address(name: &str) -> SocketAddrUnix {
    SocketAddrUnix::new_abstract_name(name.trim_start_matches('@').as_bytes()).expect("a name")
}

fn listening(name: &str) -> OwnedFd {
    let listener = socket();
    rustix::net::bind(&listener, &address(name)).expect("bound");
    rustix::net::listen(&listener, 8).expect("listening");
    listener
}

fn offer(name: &str) -> LinkOffer {
    LinkOffer { kind: LinkKind::Shm, address: name.as_bytes().to_vec() }
}

fn unique(what: &str) -> String {
    format!("@headwater-test-{what}-{}", std::process::id())
}

/// Not a test: the other process.
#[test]
#[ignore = "started by the tests here"]
fn stranger() {
    let (Ok(role), Ok(name)) = (std::env::var(ROLE), std::env::var(NAME)) else { return };
    match role.as_str() {
        "silent" => {
            let silent: Vec<OwnedFd> = (0..SILENT).map(|_| socket()).collect();
            for socket in &silent {
                rustix::net::connect(socket, &address(&name)).expect("a listener");
            }
            println!("\nthere");
            std::thread::sleep(PATIENCE);
        }
        _ => {
            let listener = listening(&name);
            println!("\nthere");
            let worker = rustix::net::accept(&listener).expect("a worker");
            let heard = receive(worker.as_fd());
            println!("\nheard {heard} bytes");
        }
    }
    std::io::stdout().flush().ok();
}

/// Length of the next packet.
fn receive(socket: BorrowedFd<'_>) -> usize {
    let mut bytes = [0; 256];
    let mut space: [MaybeUninit<u8>; 0] = [];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut into = [IoSliceMut::new(&mut bytes)];
    let got = rustix::net::recvmsg(socket, &mut into, &mut control, RecvFlags::empty());
    got.map_or(0, |got| got.bytes)
}

fn send(socket: BorrowedFd<'_>, bytes: &[u8], file: Option<BorrowedFd<'_>>) {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let files = file.as_slice();
    if !files.is_empty() {
        control.push(SendAncillaryMessage::ScmRights(files));
    }
    let sent =
        rustix::net::sendmsg(socket, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL);
    sent.expect("sent");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silent_connections_hold_up_no_worker() {
    let (sender, mut arrivals) = mpsc::unbounded_channel();
    let link = shm::listen(&ShmListen::default(), sender).await.expect("a socket");
    let offer = link.offer(HERE);
    let name = String::from_utf8(offer.address.clone()).expect("a name");
    // Nor do those of this user: the first of them makes room.
    let own: Vec<OwnedFd> = (0..SILENT).map(|_| socket()).collect();
    for socket in &own {
        rustix::net::connect(socket, &address(&name)).expect("a listener");
    }
    let _stranger = Stranger::start("silent", &name);
    link.admit(PEER, KEY);
    let worker = shm::connect(&offer, &KEY, &ShmConnect::default()).await;
    worker.expect("let in beside them");
    let next = tokio::time::timeout(PATIENCE, arrivals.recv()).await.expect("a word");
    assert_eq!(next, Some(Arrival::Connected { peer: PEER }));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_receiver_of_another_user_is_not_told_the_key_unless_allowed() {
    let name = unique("foreign");
    let Some(mut stranger) = Stranger::start("receiver", &name) else { return };
    let connected = shm::connect(&offer(&name), &KEY, &ShmConnect::default()).await;
    let error = connected.map(drop).expect_err("another user's").to_string();
    assert!(error.contains("user 65534") && error.contains("links.shm_allow_uids"), "{error}");
    stranger.until("heard 0 bytes");
    drop(stranger);

    let Some(mut stranger) = Stranger::start("receiver", &name) else { return };
    let allowed = ShmConnect { allow_uids: vec![NOBODY], ..ShmConnect::default() };
    shm::connect(&offer(&name), &KEY, &allowed).await.map(drop).expect_err("it says no more");
    stranger.until("heard 38 bytes");
}

/// A memory file as a receiver makes it, but for its seals.
fn memory_file(seals: SealFlags, len_bytes: u64, allocated_bytes: u64) -> OwnedFd {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = rustix::fs::memfd_create("test", flags).expect("a memory file");
    rustix::fs::ftruncate(&file, len_bytes).expect("its length");
    if allocated_bytes > 0 {
        let flags = FallocateFlags::empty();
        rustix::fs::fallocate(&file, flags, 0, allocated_bytes).expect("its pages");
    }
    rustix::fs::fcntl_add_seals(&file, seals).expect("sealed");
    file
}

/// What a worker says that is given such memory for a slot of [`SLOT_BYTES`].
async fn given(name: &str, file: OwnedFd) -> LinkError {
    let listener = listening(name);
    let receiver = tokio::task::spawn_blocking(move || {
        let worker = rustix::net::accept(&listener).expect("a worker");
        receive(worker.as_fd());
        send(worker.as_fd(), &[1], None);
        let slot = [&[2, 0, 0, 0, 0][..], &SLOT_BYTES.to_le_bytes()].concat();
        send(worker.as_fd(), &slot, Some(file.as_fd()));
        worker
    });
    let worker = shm::connect(&offer(name), &KEY, &ShmConnect::default()).await.expect("connected");
    let _socket = receiver.await.expect("sent");
    tokio::time::timeout(PATIENCE, worker.closed()).await.expect("the worker takes it")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_that_could_be_taken_away_is_not_mapped() {
    let whole = SLOT_BYTES;
    let flags = OFlags::RDWR | OFlags::TMPFILE | OFlags::CLOEXEC;
    let nameless =
        rustix::fs::open("/dev/shm", flags, Mode::RUSR | Mode::WUSR).expect("a file of a tmpfs");
    rustix::fs::fallocate(&nameless, FallocateFlags::empty(), 0, whole).expect("its pages");
    let shrink = SealFlags::SHRINK;
    for (what, file, why) in [
        ("nameless", nameless, "not sealed"),
        ("unsealed", memory_file(SealFlags::GROW, whole, whole), "not sealed"),
        ("short", memory_file(shrink, whole / 2, whole / 2), "has 524288 bytes"),
        ("empty", memory_file(shrink, whole, 0), "of which 0 are there"),
    ] {
        let error = given(&unique(what), file).await.to_string();
        assert!(error.contains(why), "{what}: {error}");
    }
}

/// Descriptors that this process has open.
fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").expect("own descriptors").count()
}

/// What a worker says to a receiver that sends `packets` and reads nothing, and how many descriptors are
/// open then. A packet may come with memory for a slot.
async fn flooded(
    name: &str,
    packets: impl Iterator<Item = (Vec<u8>, bool)> + Send + 'static,
) -> (String, usize) {
    let file = memory_file(SealFlags::SHRINK, SLOT_BYTES, SLOT_BYTES);
    let listener = listening(name);
    let receiver = tokio::task::spawn_blocking(move || {
        let worker = rustix::net::accept(&listener).expect("a worker");
        receive(worker.as_fd());
        send(worker.as_fd(), &[1], None);
        for (packet, has_file) in packets {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
            let mut control = SendAncillaryBuffer::new(&mut space);
            let files = [file.as_fd()];
            if has_file {
                control.push(SendAncillaryMessage::ScmRights(&files));
            }
            let packet = [IoSlice::new(&packet)];
            // The worker has had enough.
            if rustix::net::sendmsg(&worker, &packet, &mut control, SendFlags::NOSIGNAL).is_err() {
                break;
            }
        }
        worker
    });
    let worker = shm::connect(&offer(name), &KEY, &ShmConnect::default()).await.expect("connected");
    let said =
        tokio::time::timeout(PATIENCE, worker.closed()).await.expect("the worker has enough");
    let open = descriptors();
    drop(worker);
    receiver.await.expect("it ends");
    (said.to_string(), open)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_receiver_without_measure_is_left_and_takes_no_descriptors() {
    let length = SLOT_BYTES.to_le_bytes();
    let slots =
        (0..100_000_u32).map(move |slot| ([&[2][..], &slot.to_le_bytes(), &length].concat(), true));
    let (said, open) = flooded(&unique("slots"), slots).await;
    assert!(said.contains("1025 slots in this session, 1024 at most"), "{said}");
    assert!(open < 500, "{open} descriptors");
    let leases =
        (0..1_000_000_u64).map(|lease| ([&[4][..], &lease.to_le_bytes(), &[0; 8]].concat(), false));
    let (said, _) = flooded(&unique("leases"), leases).await;
    assert!(said.contains("8193 permitted leases"), "{said}");
    // Each is answered, and no answer is read.
    let withdrawn =
        (0..10_000_000_u64).map(|lease| ([&[5][..], &lease.to_le_bytes()].concat(), false));
    let (said, _) = flooded(&unique("withdrawn"), withdrawn).await;
    assert!(said.contains("does not read what it is told"), "{said}");
}
