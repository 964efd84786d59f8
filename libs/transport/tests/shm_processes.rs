//! The shm link between processes that are killed and stopped. The worker is this same binary,
//! started again on the test `worker_process`.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use headwater_core::Region;
use headwater_transport::conformance::HERE;
use headwater_transport::links::shm::{self, ShmConnect, ShmListen};
use headwater_transport::{
    Arrival, LeaseId, LinkKind, LinkOffer, PartPlace, PeerId, ReceiverLink, SessionKey, SlotId,
    SlotMemory, Withdrawal,
};
use rustix::process::{Pid, Signal};
use tokio::sync::mpsc;

const SLOT_BYTES: u64 = 1 << 20;
const ROLE: &str = "HEADWATER_TEST_SHM_WORKER";
const KEY: SessionKey = SessionKey([7; 32]);
const PEER: PeerId = PeerId(1);
const LEASE: LeaseId = LeaseId(1);
const SILENCE: Duration = Duration::from_millis(400);

/// A receiver with one slot, and a lease on all of it.
struct Receiver {
    link: Arc<dyn ReceiverLink>,
    arrivals: mpsc::UnboundedReceiver<Arrival>,
    memory: Arc<SlotMemory>,
}

/// A worker process; killed when dropped.
struct Worker {
    child: Child,
    says: BufReader<ChildStdout>,
}

fn whole_slot() -> PartPlace {
    let regions = [Region { offset_bytes: 0, len_bytes: SLOT_BYTES }];
    PartPlace { lease: LEASE, slot: SlotId(0), regions: Arc::from(regions) }
}

// === impl Receiver ===

impl Receiver {
    async fn new(config: &ShmListen) -> Self {
        let memory = SlotMemory::shared(SLOT_BYTES, false).expect("memory");
        let (sender, arrivals) = mpsc::unbounded_channel();
        let link = shm::listen(config, sender).await.expect("a socket");
        let memory = Arc::new(memory);
        link.add_slot(SlotId(0), Arc::clone(&memory)).expect("added");
        link.admit(PEER, KEY);
        link.expect(PEER, whole_slot());
        Self { link, arrivals, memory }
    }

    async fn next(&mut self) -> Arrival {
        let next = tokio::time::timeout(Duration::from_secs(60), self.arrivals.recv()).await;
        next.expect("the link reports nothing").expect("the link is there")
    }

    async fn silent(&mut self) {
        let soon = tokio::time::timeout(SILENCE, self.arrivals.recv()).await;
        assert!(soon.is_err(), "nothing is to be reported, but {soon:?}");
    }

    /// Whether the worker writes the slot within a while.
    async fn is_written(&self) -> bool {
        let before = self.memory.checksum(&whole_slot().regions, 1);
        tokio::time::sleep(Duration::from_millis(100)).await;
        before != self.memory.checksum(&whole_slot().regions, 1)
    }
}

// === impl Worker ===

impl Worker {
    /// Starts a worker that connects, begins the lease and writes its slot over and over.
    fn start(receiver: &Receiver, prepare: impl FnOnce(&mut Command)) -> Self {
        let name = String::from_utf8(receiver.link.offer(HERE).address).expect("a name");
        let mut command = Command::new(std::env::current_exe().expect("this binary"));
        command
            .args(["shm_processes::worker_process", "--exact", "--ignored", "--nocapture"])
            .env(ROLE, name)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        prepare(&mut command);
        let mut child = command.spawn().expect("a process");
        let says = BufReader::new(child.stdout.take().expect("its output"));
        Self { child, says }
    }

    /// Reads its output up to a line that begins so.
    fn until(&mut self, start: &str) -> String {
        let mut line = String::new();
        while !line.starts_with(start) {
            line.clear();
            let read = self.says.read_line(&mut line).expect("its output");
            assert_ne!(read, 0, "the worker ended before it said {start}");
            assert!(!line.starts_with("writing") || start == "writing", "the worker was let in");
        }
        line
    }

    fn tell(&mut self, what: &str) {
        let stdin = self.child.stdin.as_mut().expect("its input");
        writeln!(stdin, "{what}").expect("told");
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_child(&self.child);
        rustix::process::kill_process(pid, signal).expect("signalled");
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// Not a test: the other process. Obeys `commit` and `drop` on its input.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "started by the tests here"]
async fn worker_process() {
    let Ok(name) = std::env::var(ROLE) else { return };
    let offer = LinkOffer { kind: LinkKind::Shm, address: name.into_bytes() };
    let link = match shm::connect(&offer, &KEY, &ShmConnect::default()).await {
        Ok(link) => link,
        Err(error) => return println!("\nfailed {error}"),
    };
    let mut part = link.begin(whole_slot()).await.expect("a buffer");
    let (order, mut orders) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            order.send(line).ok();
        }
    });
    let mut value = 0_u8;
    let mut said = false;
    let order = loop {
        value = value.wrapping_add(1);
        part.region_mut(0).fill(value);
        if !said {
            println!("\nwriting");
            said = true;
        }
        if let Ok(order) = orders.try_recv() {
            break order;
        }
    };
    if order == "commit" {
        part.region_mut(0).fill(42);
        let committed = link.commit(part).await;
        println!("\ncommitted {committed:?}");
    } else {
        drop(part);
        println!("\ndropped");
    }
    link.closed().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_part_of_another_process_is_there_without_a_copy() {
    let mut receiver = Receiver::new(&ShmListen::default()).await;
    let mut worker = Worker::start(&receiver, |_| {});
    assert_eq!(receiver.next().await, Arrival::Connected { peer: PEER });
    worker.until("writing");
    assert!(receiver.is_written().await, "the worker renders in the slot itself");
    worker.tell("commit");
    assert_eq!(receiver.next().await, Arrival::Part { peer: PEER, lease: LEASE });
    assert!(receiver.memory.read(whole_slot().regions[0]).iter().all(|&byte| byte == 42));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_killed_in_mid_write_is_gone_and_writes_no_more() {
    let mut receiver = Receiver::new(&ShmListen::default()).await;
    let mut worker = Worker::start(&receiver, |_| {});
    assert_eq!(receiver.next().await, Arrival::Connected { peer: PEER });
    worker.until("writing");
    assert!(receiver.is_written().await);
    assert_eq!(receiver.link.withdraw(PEER, LEASE), Withdrawal::Open, "it is being written");
    receiver.silent().await;
    worker.signal(Signal::KILL);
    assert!(matches!(receiver.next().await, Arrival::Gone { peer: PEER, .. }));
    assert!(!receiver.is_written().await, "written after it was gone");
    assert_eq!(receiver.link.withdraw(PEER, LEASE), Withdrawal::Quiet);
    receiver.silent().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopped_worker_stays_open_until_it_goes_on() {
    let mut receiver = Receiver::new(&ShmListen::default()).await;
    let mut worker = Worker::start(&receiver, |_| {});
    assert_eq!(receiver.next().await, Arrival::Connected { peer: PEER });
    worker.until("writing");
    worker.signal(Signal::STOP);
    assert_eq!(receiver.link.withdraw(PEER, LEASE), Withdrawal::Open);
    receiver.silent().await;
    worker.signal(Signal::CONT);
    receiver.silent().await;
    worker.tell("drop");
    assert_eq!(receiver.next().await, Arrival::Quiet { peer: PEER, lease: LEASE });
    worker.until("dropped");
    assert!(!receiver.is_written().await, "written after it was quiet");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_worker_that_is_stopped_is_gone_only_when_it_dies() {
    let mut receiver = Receiver::new(&ShmListen::default()).await;
    let mut worker = Worker::start(&receiver, |_| {});
    assert_eq!(receiver.next().await, Arrival::Connected { peer: PEER });
    worker.until("writing");
    worker.signal(Signal::STOP);
    receiver.link.drop_peer(PEER);
    receiver.silent().await;
    assert_eq!(receiver.link.withdraw(PEER, LEASE), Withdrawal::Open);
    worker.signal(Signal::CONT);
    // It writes on, in a buffer it was given: the receiver cannot take that away.
    assert!(receiver.is_written().await);
    receiver.silent().await;
    worker.signal(Signal::KILL);
    assert!(matches!(receiver.next().await, Arrival::Gone { peer: PEER, .. }));
    assert!(!receiver.is_written().await, "written after it was gone");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slot_has_no_name_and_cannot_be_shortened_while_it_is_written() {
    let mut receiver = Receiver::new(&ShmListen::default()).await;
    let mut worker = Worker::start(&receiver, |_| {});
    assert_eq!(receiver.next().await, Arrival::Connected { peer: PEER });
    worker.until("writing");
    let file = receiver.memory.file().expect("a file");
    let stat = rustix::fs::fstat(file).expect("its status");
    assert_eq!((stat.st_nlink, stat.st_mode & 0o7777), (0, 0o600), "nothing is left behind");
    assert_eq!(rustix::fs::ftruncate(file, 0), Err(rustix::io::Errno::PERM));
    let all = rustix::fs::SealFlags::WRITE | rustix::fs::SealFlags::FUTURE_WRITE;
    assert_eq!(rustix::fs::fcntl_add_seals(file, all), Err(rustix::io::Errno::PERM));
    assert!(receiver.is_written().await, "the worker has gone");
    worker.tell("commit");
    assert_eq!(receiver.next().await, Arrival::Part { peer: PEER, lease: LEASE });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_of_another_user_is_refused_unless_allowed() {
    const NOBODY: u32 = 65_534;
    if !rustix::process::geteuid().is_root() {
        return; // Only root can be two users.
    }
    let mut receiver = Receiver::new(&ShmListen::default()).await;
    let mut worker = Worker::start(&receiver, |command| {
        command.uid(NOBODY);
    });
    let said = worker.until("failed");
    assert!(said.contains("user 65534") && said.contains("as one user"), "{said}");
    receiver.silent().await;

    let allowed = ShmListen { allow_uids: vec![NOBODY], ..ShmListen::default() };
    let mut receiver = Receiver::new(&allowed).await;
    let mut worker = Worker::start(&receiver, |command| {
        command.uid(NOBODY);
    });
    assert_eq!(receiver.next().await, Arrival::Connected { peer: PEER });
    worker.until("writing");
}

#[tokio::test]
async fn a_socket_in_a_directory_is_removed_by_its_receiver_or_by_the_next() {
    let dir = tempfile::tempdir().expect("a directory");
    let config = ShmListen { socket_dir: Some(dir.path().into()), ..ShmListen::default() };
    let sockets = |dir: &Path| std::fs::read_dir(dir).expect("the directory").count();
    let (sender, _arrivals) = mpsc::unbounded_channel();
    let link = shm::listen(&config, sender.clone()).await.expect("a socket");
    assert_eq!(sockets(dir.path()), 1);
    drop(link);
    assert_eq!(sockets(dir.path()), 0);

    // As a killed receiver leaves it: a socket that nobody listens on.
    let abandoned = dir.path().join("headwater-killed.sock");
    drop(std::os::unix::net::UnixListener::bind(&abandoned).expect("a socket"));
    let foreign = dir.path().join("other.sock");
    drop(std::os::unix::net::UnixListener::bind(&foreign).expect("a socket"));
    let first = shm::listen(&config, sender.clone()).await.expect("a socket");
    assert!(!abandoned.exists() && foreign.exists());
    let _second = shm::listen(&config, sender).await.expect("a socket");
    assert!(Path::new(&String::from_utf8(first.offer(HERE).address).expect("a path")).exists());
}

/// Each sweeps the folder as it starts, and one that does not listen yet looks like one that was killed.
#[tokio::test(flavor = "multi_thread", worker_threads = 8)]
async fn receivers_that_start_together_leave_each_other_their_sockets() {
    const ROUNDS: usize = 100;
    const RANKS: usize = 8;
    let dir = tempfile::tempdir().expect("a directory");
    for round in 0..ROUNDS {
        let starts = (0..RANKS).map(|_| {
            let config = ShmListen { socket_dir: Some(dir.path().into()), ..ShmListen::default() };
            tokio::spawn(async move {
                let (sender, _arrivals) = mpsc::unbounded_channel();
                shm::listen(&config, sender).await
            })
        });
        let mut links = Vec::new();
        for start in starts.collect::<Vec<_>>() {
            links.push(start.await.expect("no panic").expect("a socket"));
        }
        for link in &links {
            let path = String::from_utf8(link.offer(HERE).address).expect("a path");
            assert!(Path::new(&path).exists(), "round {round}: {path} was removed");
        }
    }
    let left: Vec<_> = std::fs::read_dir(dir.path()).expect("the directory").collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn memory_that_is_not_there_is_an_error_with_numbers_and_a_remedy() {
    let error = SlotMemory::shared(1 << 60, false).expect_err("too large");
    let text = error.to_string();
    for part in [&(1_u64 << 60).to_string(), "fewer or smaller slots"] {
        assert!(text.contains(part), "{text}");
    }
}
