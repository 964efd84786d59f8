//! The shm link between processes that cannot see each other's numbers, as between containers and pods: the
//! kernel gives each the other's number as 0. Both ends are this same binary, started again on the test
//! `one_end` in a PID namespace of its own or in this one.

use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use headwater_core::Region;
use headwater_transport::conformance::HERE;
use headwater_transport::links::shm::{self, ShmConnect, ShmListen};
use headwater_transport::peer::PeerProcess;
use headwater_transport::{
    Arrival, LeaseId, LinkKind, LinkOffer, PartPlace, PeerId, SessionKey, SlotId, SlotMemory,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::sync::mpsc;

const ROLE: &str = "HEADWATER_TEST_PID_ROLE";
const FOLDER: &str = "HEADWATER_TEST_PID_FOLDER";
/// File with the receiver's address.
const OFFER: &str = "offer";
/// Socket of the process that `looks` looks at.
const SOCKET: &str = "looked-at.sock";
const KEY: SessionKey = SessionKey([7; 32]);
const PEER: PeerId = PeerId(1);
const LEASE: LeaseId = LeaseId(1);
const SLOT_BYTES: u64 = 1 << 20;
const VALUE: u8 = 42;
const PATIENCE: Duration = Duration::from_secs(120);

/// Where an end runs.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Namespace {
    Here,
    Own,
}

fn whole_slot() -> PartPlace {
    let regions = [Region { offset_bytes: 0, len_bytes: SLOT_BYTES }];
    PartPlace { lease: LEASE, slot: SlotId(0), regions: Arc::from(regions) }
}

fn in_namespace() -> Command {
    let mut unshare = Command::new("unshare");
    unshare.args(["--pid", "--fork", "--kill-child"]);
    unshare
}

/// Whether this machine gives namespaces; it says so if not.
fn has_namespaces() -> bool {
    let given = in_namespace().arg("true").status();
    let has = given.is_ok_and(|status| status.success());
    if !has {
        eprintln!("SKIP: `unshare --pid` is refused: run this as root");
    }
    has
}

fn start(role: &str, folder: &Path, namespace: Namespace) -> Child {
    let this = std::env::current_exe().expect("this binary");
    let mut command = match namespace {
        Namespace::Here => Command::new(this),
        Namespace::Own => {
            let mut command = in_namespace();
            command.arg(this);
            command
        }
    };
    command.args(["pid_namespaces::one_end", "--exact", "--ignored", "--nocapture"]);
    command.env(ROLE, role).env(FOLDER, folder).stdout(Stdio::piped());
    command.spawn().expect("a process")
}

/// Whether an end has done what it is for: a name that fits no test passes too.
fn has_passed(end: Child) -> bool {
    let ended = end.wait_with_output().expect("its end");
    let said = String::from_utf8_lossy(&ended.stdout);
    print!("{said}");
    ended.status.success() && said.contains("1 passed")
}

/// Not a test: one of the other processes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "started by the tests here"]
async fn one_end() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let folder = PathBuf::from(std::env::var_os(FOLDER).expect("a folder"));
    match &*role {
        "receiver" => tokio::time::timeout(PATIENCE, receiver(&folder)).await.expect("in time"),
        "worker" => tokio::time::timeout(PATIENCE, worker(&folder)).await.expect("in time"),
        "looks" => looks(&folder),
        role => panic!("no role {role}"),
    }
}

async fn receiver(folder: &Path) {
    let memory = Arc::new(SlotMemory::shared(SLOT_BYTES, false).expect("memory"));
    let (sender, mut arrivals) = mpsc::unbounded_channel();
    let config = ShmListen { socket_dir: Some(folder.to_owned()), ..ShmListen::default() };
    let link = shm::listen(&config, sender).await.expect("a socket");
    link.add_slot(SlotId(0), Arc::clone(&memory)).expect("added");
    link.admit(PEER, KEY);
    link.expect(PEER, whole_slot());
    std::fs::write(folder.join(".offer"), link.offer(HERE).address).expect("written");
    std::fs::rename(folder.join(".offer"), folder.join(OFFER)).expect("named");
    assert_eq!(arrivals.recv().await, Some(Arrival::Connected { peer: PEER }));
    assert_eq!(arrivals.recv().await, Some(Arrival::Part { peer: PEER, lease: LEASE }));
    assert!(memory.read(whole_slot().regions[0]).iter().all(|&byte| byte == VALUE));
    // The worker leaves, or is gone already.
    let gone = arrivals.recv().await;
    assert!(matches!(gone, Some(Arrival::Gone { peer: PEER, .. })), "{gone:?}");
}

async fn worker(folder: &Path) {
    let address = loop {
        match std::fs::read(folder.join(OFFER)) {
            Ok(address) => break address,
            Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    };
    let offer = LinkOffer { kind: LinkKind::Shm, address };
    let link = shm::connect(&offer, &KEY, &ShmConnect::default()).await.expect("a link");
    let mut part = link.begin(whole_slot()).await.expect("a buffer");
    part.region_mut(0).fill(VALUE);
    link.commit(part).await.expect("delivered");
}

/// Looks at a process of a namespace that this one cannot see into.
fn looks(folder: &Path) {
    let socket = UnixStream::connect(folder.join(SOCKET)).expect("somebody listens");
    let uid = rustix::process::geteuid().as_raw();
    assert_eq!(PeerProcess::of(&socket).expect("a peer"), PeerProcess { uid, pid: None });
    let life = match PeerProcess::descriptor(&socket) {
        Ok(life) => life,
        Err(error) => return eprintln!("SKIP: no descriptor of a peer before Linux 6.5: {error}"),
    };
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    let ended = poll(&mut [PollFd::new(&life, PollFlags::IN)], Some(&now));
    assert_eq!(ended, Ok(0), "it has not ended");
}

#[test]
fn a_worker_and_a_receiver_of_other_pid_namespaces_share_memory() {
    if !has_namespaces() {
        return;
    }
    let (here, own) = (Namespace::Here, Namespace::Own);
    for (of_receiver, of_worker) in [(here, own), (own, here), (own, own)] {
        let folder = tempfile::tempdir().expect("a folder");
        let ends = [("receiver", of_receiver), ("worker", of_worker)];
        let ends = ends.map(|(role, namespace)| start(role, folder.path(), namespace));
        assert_eq!(
            ends.map(has_passed),
            [true; 2],
            "receiver {of_receiver:?}, worker {of_worker:?}"
        );
    }
}

#[test]
fn a_process_out_of_sight_is_known_by_its_user_and_its_end() {
    if !has_namespaces() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let listener = UnixListener::bind(folder.path().join(SOCKET)).expect("a socket");
    let looks = start("looks", folder.path(), Namespace::Own);
    let limit = Timespec { tv_sec: 60, tv_nsec: 0 };
    let asked = poll(&mut [PollFd::new(&listener, PollFlags::IN)], Some(&limit));
    assert_eq!(asked, Ok(1), "it connects");
    let (seen, _) = listener.accept().expect("it connects");
    // From here it is in sight: its namespace is within this one.
    assert!(PeerProcess::of(&seen).expect("a peer").pid.is_some());
    let life = PeerProcess::descriptor(&seen);
    assert!(has_passed(looks));
    let Ok(life) = life else { return };
    let begun = Instant::now();
    let ended = poll(&mut [PollFd::new(&life, PollFlags::IN)], Some(&limit));
    assert_eq!(ended, Ok(1), "after {:?}", begun.elapsed());
}
