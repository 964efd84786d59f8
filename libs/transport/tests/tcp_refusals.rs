//! Who is not let in on the tcp link, plain and encrypted.

use std::sync::{Arc, Mutex};

use headwater_transport::conformance::{HERE, World, region};
use headwater_transport::links::tcp;
use headwater_transport::{
    Arrival, LinkError, LinkKind, LinkOffer, PeerId, SessionKey, WorkerLink,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::support::Tcp;
use crate::support::certificates::Authority;

type Connected = Result<Arc<dyn WorkerLink>, LinkError>;

#[track_caller]
fn refused(connected: Connected, why: &str) {
    match connected {
        Ok(_) => panic!("let in"),
        Err(error) => assert!(error.to_string().contains(why), "no `{why}` in: {error}"),
    }
}

/// The offer, as a worker sees it that takes it for the other kind.
fn relabelled(offer: &LinkOffer) -> LinkOffer {
    let address = String::from_utf8(offer.address.clone()).expect("text");
    let other = match address.strip_prefix("tls:") {
        Some(plain) => plain.to_owned(),
        None => format!("tls:{address}"),
    };
    LinkOffer { kind: LinkKind::Tcp, address: other.into_bytes() }
}

/// Somebody is let in after all those who were not.
async fn still_open(world: &mut World<'_>) {
    let (slot, _memory) = world.add_slot(4096);
    let peer = world.worker().await;
    let place = world.expect(peer.id, slot, &[region(0, 100)]);
    peer.deliver(&place).await.expect("delivered");
    assert_eq!(world.next().await, Arrival::Part { peer: peer.id, lease: place.lease });
}

#[tokio::test]
async fn a_worker_without_encryption_gets_nothing_from_a_receiver_that_encrypts() {
    let harness = Tcp::encrypted();
    let mut world = World::new(&harness).await;
    let (_, key) = world.admit();
    let offer = world.receiver().offer(HERE);
    let plain = Tcp::default().connect;
    refused(tcp::connect(&offer, &key, &plain).await, "give this worker the three files");
    // Even if it does not believe the offer; its key is not read.
    let connected = tcp::connect(&relabelled(&offer), &key, &plain).await;
    refused(connected, "encrypted connections only");
    still_open(&mut world).await;
}

#[tokio::test]
async fn a_worker_that_insists_on_encryption_takes_no_other_offer() {
    let harness = Tcp::default();
    let mut world = World::new(&harness).await;
    let (_, key) = world.admit();
    let offer = world.receiver().offer(HERE);
    let insists = Tcp::encrypted().connect;
    refused(tcp::connect(&offer, &key, &insists).await, "is not encrypted: set security.tcp_tls");
    let connected = tcp::connect(&relabelled(&offer), &key, &insists).await;
    refused(connected, "tcp link is not available");
    still_open(&mut world).await;
}

#[tokio::test]
async fn another_authority_is_trusted_by_neither_end() {
    let (ours, theirs) = (Authority::new(), Authority::new());
    let mut harness = Tcp::default();
    harness.listen.tls = Some(ours.listen());
    harness.connect.tls = Some(ours.connect(Some(&ours)));
    let mut world = World::new(&harness).await;
    let (_, key) = world.admit();
    let offer = world.receiver().offer(HERE);
    let mut connect = harness.connect.clone();
    connect.tls = Some(theirs.connect(Some(&theirs)));
    refused(tcp::connect(&offer, &key, &connect).await, "invalid peer certificate");
    // These trust the receiver, which does not trust them.
    connect.tls = Some(ours.connect(Some(&theirs)));
    refused(tcp::connect(&offer, &key, &connect).await, "tcp link is not available");
    connect.tls = Some(ours.connect(None));
    refused(tcp::connect(&offer, &key, &connect).await, "tcp link is not available");
    still_open(&mut world).await;
}

#[tokio::test]
async fn a_certificate_does_without_no_key() {
    let harness = Tcp::encrypted();
    let mut world = World::new(&harness).await;
    let foreign = SessionKey::random().expect("random numbers");
    refused(world.connect(&foreign).await, "unknown session key");
    still_open(&mut world).await;
}

/// Stands between a worker and a receiver, and keeps the worker's first bytes.
async fn eavesdrop(target: String) -> (LinkOffer, Arc<Mutex<Vec<u8>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address").to_string().into_bytes();
    let heard = Arc::<Mutex<Vec<u8>>>::default();
    let ear = Arc::clone(&heard);
    tokio::spawn(async move {
        let (mut worker, _) = listener.accept().await.expect("a connection");
        let mut receiver = TcpStream::connect(target).await.expect("the receiver");
        let mut hello = [0; 48];
        worker.read_exact(&mut hello).await.expect("a hello");
        *ear.lock().expect("the ear") = hello.to_vec();
        receiver.write_all(&hello).await.expect("passed on");
        tokio::io::copy_bidirectional(&mut worker, &mut receiver).await.ok();
    });
    (LinkOffer { kind: LinkKind::Tcp, address }, heard)
}

#[tokio::test]
async fn a_hello_that_was_overheard_is_refused_and_the_worker_keeps_its_connection() {
    let harness = Tcp::default();
    let mut world = World::new(&harness).await;
    let (slot, _memory) = world.add_slot(4096);
    let (id, key): (PeerId, SessionKey) = world.admit();
    let target = String::from_utf8(world.receiver().offer(HERE).address).expect("text");
    let (offer, heard) = eavesdrop(target.clone()).await;
    let link = tcp::connect(&offer, &key, &harness.connect).await.expect("let in");
    assert_eq!(world.next().await, Arrival::Connected { peer: id });

    let hello = heard.lock().expect("the ear").clone();
    assert!(!hello.windows(32).any(|bytes| bytes == key.0), "the key itself is on the wire");
    let mut later = hello.clone();
    later[8] += 1; // The number of the next connection, with the proof of this one.
    for (replayed, why) in [(hello, "was made before"), (later, "unknown session key")] {
        let mut stream = TcpStream::connect(&target).await.expect("a listener");
        stream.write_all(&replayed).await.expect("written");
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.expect("an answer and the end");
        let said = String::from_utf8_lossy(&answer[4..]);
        assert!(answer[0] == 2 && said.contains(why), "{said}");
    }
    let place = world.expect(id, slot, &[region(0, 100)]);
    let part = link.begin(place.clone()).await.expect("memory");
    link.commit(part).await.expect("the worker's own connection stands");
    assert_eq!(world.next().await, Arrival::Part { peer: id, lease: place.lease });
}
