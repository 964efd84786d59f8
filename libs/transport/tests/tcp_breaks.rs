//! The tcp link over connections that break, stall and lie.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use headwater_transport::conformance::{HERE, Peer, World, holds, region};
use headwater_transport::links::tcp::{self, TcpConnect};
use headwater_transport::{
    Arrival, LeaseId, LinkError, LinkKind, LinkOffer, PartPlace, SessionKey, SlotId, Withdrawal,
};
use sha2::{Digest as _, Sha256};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::support;
use crate::wire::{Faults, Wire};

const PART_BYTES: u64 = 4_000_000;

/// A worker whose connection goes through a wire.
async fn wired(world: &mut World<'_>, config: &TcpConnect) -> (Peer, Arc<Faults>) {
    let wire = Wire::new(&world.receiver().offer(HERE)).await;
    let (id, key) = world.admit();
    let link = tcp::connect(&wire.offer, &key, config).await.expect("let in");
    assert_eq!(world.next().await, Arrival::Connected { peer: id });
    (Peer { id, link }, wire.faults)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_cut_in_mid_part_is_made_again_and_the_part_arrives_once() {
    let harness = support::Tcp::default();
    let mut world = World::new(&harness).await;
    let (slot, memory) = world.add_slot(3 * PART_BYTES);
    let (peer, faults) = wired(&mut world, &harness.connect).await;
    let expect = |i| world.expect(peer.id, slot, &[region(i * PART_BYTES, PART_BYTES)]);
    let places: Vec<_> = (0..3).map(expect).collect();
    faults.cut_after.store(PART_BYTES * 3 / 2, Ordering::SeqCst);
    let deliveries = places.iter().map(|place| peer.deliver(place));
    for delivered in futures_join(deliveries).await {
        delivered.expect("delivered in the end");
    }
    for place in &places {
        assert_eq!(world.next().await, Arrival::Part { peer: peer.id, lease: place.lease });
        assert!(holds(&memory, place, place.lease));
    }
    world.silent().await;
    assert_eq!(faults.connections.load(Ordering::SeqCst), 2, "the connection was cut");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_part_whose_acknowledgement_is_lost_arrives_once_and_counts_as_delivered() {
    let harness = support::Tcp::default();
    let mut world = World::new(&harness).await;
    let (slot, memory) = world.add_slot(PART_BYTES);
    let (peer, faults) = wired(&mut world, &harness.connect).await;
    let place = world.expect(peer.id, slot, &[region(0, PART_BYTES)]);
    faults.deaf.store(true, Ordering::SeqCst);
    let broken = async {
        assert_eq!(world.next().await, Arrival::Part { peer: peer.id, lease: place.lease });
        // The part is there; now the connection breaks before the worker has heard of it.
        faults.deaf.store(false, Ordering::SeqCst);
        faults.cut.notify_one();
    };
    let (delivered, ()) = tokio::join!(peer.deliver(&place), broken);
    delivered.expect("delivered");
    world.silent().await;
    assert!(holds(&memory, &place, place.lease));
    assert_eq!(faults.connections.load(Ordering::SeqCst), 2, "the connection was cut");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_part_that_stalls_can_be_withdrawn_at_once() {
    let harness = support::Tcp::default();
    let mut world = World::new(&harness).await;
    let (slot, memory) = world.add_slot(2 * PART_BYTES);
    let (peer, faults) = wired(&mut world, &harness.connect).await;
    let place = world.expect(peer.id, slot, &[region(0, PART_BYTES)]);
    let next = world.expect(peer.id, slot, &[region(PART_BYTES, PART_BYTES)]);
    faults.stall_after.store(PART_BYTES / 2, Ordering::SeqCst);
    let withdrawn = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        assert!(!holds(&memory, &place, place.lease), "it is on its way");
        assert_eq!(world.receiver().withdraw(peer.id, place.lease), Withdrawal::Quiet);
        let before = memory.checksum(&place.regions, 1);
        faults.flow.notify_one();
        tokio::time::sleep(Duration::from_millis(200)).await;
        assert_eq!(memory.checksum(&place.regions, 1), before, "written after it was quiet");
    };
    let (delivered, ()) = tokio::join!(peer.deliver(&place), withdrawn);
    assert!(matches!(delivered, Err(LinkError::Withdrawn { lease }) if lease == place.lease));
    peer.deliver(&next).await.expect("the link is still in step");
    assert_eq!(world.next().await, Arrival::Part { peer: peer.id, lease: next.lease });
    assert!(holds(&memory, &next, next.lease));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_cannot_come_back_is_closed_and_gone() {
    let harness = support::Tcp::default();
    let mut world = World::new(&harness).await;
    let (slot, _memory) = world.add_slot(PART_BYTES);
    let (peer, faults) = wired(&mut world, &harness.connect).await;
    let place = world.expect(peer.id, slot, &[region(0, PART_BYTES)]);
    faults.shut.store(true, Ordering::SeqCst);
    faults.cut_after.store(PART_BYTES / 2, Ordering::SeqCst);
    let delivered = peer.deliver(&place).await;
    assert!(matches!(delivered, Err(LinkError::Closed { .. })), "{delivered:?}");
    assert!(matches!(peer.link.closed().await, LinkError::Closed { .. }));
    world.gone(peer.id).await;
    let connections = faults.connections.load(Ordering::SeqCst);
    assert_eq!(connections, 1 + u64::from(harness.connect.reconnect_tries), "bounded tries");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_peer_dropped_in_mid_part_is_gone_at_once() {
    let harness = support::Tcp::default();
    let mut world = World::new(&harness).await;
    let (slot, memory) = world.add_slot(PART_BYTES);
    let (peer, faults) = wired(&mut world, &harness.connect).await;
    let place = world.expect(peer.id, slot, &[region(0, PART_BYTES)]);
    faults.stall_after.store(PART_BYTES / 2, Ordering::SeqCst);
    let dropped = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        world.receiver().drop_peer(peer.id);
        let before = memory.checksum(&place.regions, 1);
        world.gone(peer.id).await;
        faults.flow.notify_one();
        world.silent().await;
        assert_eq!(memory.checksum(&place.regions, 1), before, "written after it was gone");
    };
    let (delivered, ()) = tokio::join!(peer.deliver(&place), dropped);
    assert!(matches!(delivered, Err(LinkError::Closed { .. })), "{delivered:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_newer_connection_takes_over_from_one_that_hangs() {
    let harness = support::Tcp::default();
    let mut world = World::new(&harness).await;
    let (slot, memory) = world.add_slot(PART_BYTES);
    let (peer, faults) = wired(&mut world, &harness.connect).await;
    let place = world.expect(peer.id, slot, &[region(0, PART_BYTES)]);
    faults.stall_after.store(PART_BYTES / 2, Ordering::SeqCst);
    let torn = async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        // The worker hears that its connection is gone, the receiver waits for more.
        faults.half_open.store(true, Ordering::SeqCst);
        faults.cut.notify_one();
    };
    let (delivered, ()) = tokio::join!(peer.deliver(&place), torn);
    delivered.expect("the same worker comes back");
    assert_eq!(world.next().await, Arrival::Part { peer: peer.id, lease: place.lease });
    faults.flow.notify_one();
    world.silent().await;
    assert!(holds(&memory, &place, place.lease), "the hanging connection wrote on");
    assert_eq!(faults.connections.load(Ordering::SeqCst), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_leaves_is_gone_without_a_wait() {
    let mut harness = support::Tcp::default();
    harness.listen.reconnect_grace = Duration::from_secs(600);
    let mut world = World::new(&harness).await;
    let (slot, _memory) = world.add_slot(PART_BYTES);
    let peer = world.worker().await;
    let place = world.expect(peer.id, slot, &[region(0, PART_BYTES)]);
    peer.deliver(&place).await.expect("delivered");
    assert_eq!(world.next().await, Arrival::Part { peer: peer.id, lease: place.lease });
    let id = peer.id;
    drop(peer);
    world.gone(id).await;
}

/// A receiver that reads nothing after its answer to the hello.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_leaves_does_not_wait_for_a_receiver_that_hangs() {
    const LARGE_BYTES: u64 = 64_000_000;
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address").to_string().into_bytes();
    let receiver = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.expect("a connection");
        stream.write_all(&[1, 0, 0, 0]).await.expect("answered");
        stream
    });
    let offer = LinkOffer { kind: LinkKind::Tcp, address };
    let key = SessionKey::random().expect("random numbers");
    let link = tcp::connect(&offer, &key, &TcpConnect::default()).await.expect("let in");
    let mut stream = receiver.await.expect("no panic");
    let place = PartPlace {
        lease: LeaseId(1),
        slot: SlotId(0),
        regions: Arc::from([region(0, LARGE_BYTES)]),
    };
    let part = link.begin(place).await.expect("a buffer");
    let commit = tokio::time::timeout(Duration::from_millis(200), link.commit(part)).await;
    assert!(commit.is_err(), "it hangs");
    drop(link);
    tokio::time::sleep(Duration::from_secs(3)).await;
    let read = tokio::io::copy(&mut stream, &mut tokio::io::sink()).await;
    assert!(read.unwrap_or(0) < LARGE_BYTES, "it was still sending");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn strangers_are_turned_away_without_harm() {
    let mut harness = support::Tcp::default();
    harness.listen.handshake_timeout = Duration::from_millis(200);
    let mut world = World::new(&harness).await;
    let address = String::from_utf8(world.receiver().offer(HERE).address).expect("an address");
    let dial = || TcpStream::connect(&address);

    let mut http = dial().await.expect("connected");
    http.write_all(&b"GET / HTTP/1.1\r\nHost: headwater\r\n\r\n".repeat(4)).await.expect("sent");
    let mut answer = Vec::new();
    http.read_to_end(&mut answer).await.ok();
    assert!(String::from_utf8_lossy(&answer).contains("not a worker"));

    let mut silent = dial().await.expect("connected");
    let mut answer = Vec::new();
    silent.read_to_end(&mut answer).await.expect("closed");
    assert!(String::from_utf8_lossy(&answer).contains("in time"));

    let (_, key) = world.admit();
    // The hello of version 1, which was shorter and held the key as it is.
    let other_version = [b"HWTC", &1_u16.to_le_bytes()[..], &[0, 0], &key.0].concat();
    let mut old = dial().await.expect("connected");
    old.write_all(&other_version).await.expect("sent");
    let mut answer = Vec::new();
    old.read_to_end(&mut answer).await.expect("closed");
    assert!(String::from_utf8_lossy(&answer).contains("version 1;"));
    world.silent().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_silent_callers_than_may_be_make_room_for_the_next_who_is_let_in_at_once() {
    const SILENT_MAX: usize = 64;
    let mut harness = support::Tcp::default();
    harness.listen.handshake_timeout = Duration::from_secs(600);
    let world = World::new(&harness).await;
    let address = String::from_utf8(world.receiver().offer(HERE).address).expect("an address");
    // More than there are places: some are closed, until as many stand as there may be.
    let mut standing = Vec::new();
    for _ in 0..SILENT_MAX + 10 {
        standing.push(TcpStream::connect(&address).await.expect("connected"));
    }
    let is_open = |stream: &TcpStream| match stream.try_read(&mut [0]) {
        Ok(0) => false,
        Err(error) => error.kind() == std::io::ErrorKind::WouldBlock,
        Ok(_) => panic!("a word to a stranger"),
    };
    for tries in 0.. {
        standing.retain(is_open);
        if standing.len() <= SILENT_MAX {
            break;
        }
        assert!(tries < 10_000, "{} callers stand", standing.len());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(standing.len(), SILENT_MAX);
    let (_, key) = world.admit();
    world.connect(&key).await.expect("let in beside them");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_peer_that_breaks_the_protocol_is_cut_off() {
    let harness = support::Tcp::default();
    let mut world = World::new(&harness).await;
    let (_slot, _memory) = world.add_slot(4096);
    let address = String::from_utf8(world.receiver().offer(HERE).address).expect("an address");
    let part_of_many_bytes =
        [&[1, 0, 0, 0, 1, 0, 0, 0][..], &[0; 16], &u64::MAX.to_le_bytes()].concat();
    for nonsense in [vec![0xff; 24], part_of_many_bytes] {
        let (id, key) = world.admit();
        let mut worker = TcpStream::connect(&address).await.expect("connected");
        let hello = first_hello(&key);
        worker.write_all(&hello).await.expect("sent");
        assert_eq!(world.next().await, Arrival::Connected { peer: id });
        worker.write_all(&nonsense).await.expect("sent");
        world.gone(id).await;
        let mut answer = Vec::new();
        worker.read_to_end(&mut answer).await.ok();
        assert_eq!(answer, [1, 0, 0, 0], "the answer to the hello and nothing more");
    }
}

#[tokio::test]
async fn nobody_at_the_address_is_said_so() {
    let offer = LinkOffer { kind: LinkKind::Tcp, address: b"127.0.0.1:1".to_vec() };
    let key = SessionKey::random().expect("random numbers");
    let error = tcp::connect(&offer, &key, &TcpConnect::default()).await.map(|_| ());
    let Err(LinkError::Setup { reason, .. }) = error else { panic!("{error:?}") };
    assert!(reason.contains("127.0.0.1:1"), "{reason}");
}

/// As docs/wire-format.md has it, for the first connection of a session.
fn first_hello(key: &SessionKey) -> Vec<u8> {
    let attempt = 1_u64.to_le_bytes();
    let hash = Sha256::new_with_prefix(b"headwater tcp 2\0").chain_update(key.0);
    let proof = hash.chain_update(attempt).finalize();
    [b"HWTC", &2_u16.to_le_bytes()[..], &[0, 0], &attempt, &proof].concat()
}

/// Polls all at once, without a runtime's tasks, so that they may borrow.
async fn futures_join<F: Future>(futures: impl IntoIterator<Item = F>) -> Vec<F::Output> {
    let mut running: Vec<_> = futures.into_iter().map(|future| (Box::pin(future), None)).collect();
    std::future::poll_fn(|context| {
        let mut pending = false;
        for (future, output) in &mut running {
            if output.is_none() {
                match future.as_mut().poll(context) {
                    std::task::Poll::Ready(done) => *output = Some(done),
                    std::task::Poll::Pending => pending = true,
                }
            }
        }
        if pending { std::task::Poll::Pending } else { std::task::Poll::Ready(()) }
    })
    .await;
    running.into_iter().filter_map(|(_, output)| output).collect()
}
