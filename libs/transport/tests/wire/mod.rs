//! A wire between a worker and a receiver that breaks on command.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use headwater_transport::{LinkKind, LinkOffer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

/// Stands between a worker and a receiver, and breaks what `faults` names.
pub(crate) struct Wire {
    pub(crate) offer: LinkOffer,
    pub(crate) faults: Arc<Faults>,
}

#[derive(Default)]
pub(crate) struct Faults {
    /// Bytes upwards after which the connection is cut; 0 for never. Holds for one connection.
    pub(crate) cut_after: AtomicU64,
    /// Cuts the connection now.
    pub(crate) cut: Notify,
    /// Bytes upwards after which nothing more passes until `flow`; 0 for never.
    pub(crate) stall_after: AtomicU64,
    pub(crate) flow: Notify,
    /// Where a connection is cut, the receiver does not hear of it: its end stays open, and at
    /// `flow` gets bytes of nobody.
    pub(crate) half_open: AtomicBool,
    /// Nothing passes downwards after the answer to the hello.
    pub(crate) deaf: AtomicBool,
    /// New connections are closed at once.
    pub(crate) shut: AtomicBool,
    pub(crate) connections: AtomicU64,
}

// === impl Wire ===

impl Wire {
    pub(crate) async fn new(target: &LinkOffer) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let faults = Arc::<Faults>::default();
        let target = String::from_utf8(target.address.clone()).expect("an address");
        let shared = Arc::clone(&faults);
        tokio::spawn(async move {
            loop {
                let (worker, _) = listener.accept().await.expect("a connection");
                shared.connections.fetch_add(1, Ordering::SeqCst);
                if shared.shut.load(Ordering::SeqCst) {
                    continue;
                }
                let receiver = TcpStream::connect(&target).await.expect("the receiver");
                tokio::spawn(pass(worker, receiver, Arc::clone(&shared)));
            }
        });
        let offer = LinkOffer { kind: LinkKind::Tcp, address: address.into_bytes() };
        Self { offer, faults }
    }
}

async fn pass(mut worker: TcpStream, mut receiver: TcpStream, faults: Arc<Faults>) {
    let (mut from_worker, mut to_worker) = worker.split();
    let (mut from_receiver, mut to_receiver) = receiver.split();
    let up = async {
        let mut bytes = vec![0; 65_536];
        let mut passed = 0;
        loop {
            let got = from_worker.read(&mut bytes).await.unwrap_or(0);
            if got == 0 {
                return;
            }
            to_receiver.write_all(&bytes[..got]).await.ok();
            passed += got as u64;
            let cut_after = faults.cut_after.load(Ordering::SeqCst);
            if cut_after > 0 && passed >= cut_after {
                faults.cut_after.store(0, Ordering::SeqCst);
                return;
            }
            let stall_after = faults.stall_after.load(Ordering::SeqCst);
            if stall_after > 0 && passed >= stall_after {
                faults.stall_after.store(0, Ordering::SeqCst);
                faults.flow.notified().await;
            }
        }
    };
    let down = async {
        let mut bytes = [0; 4096];
        let mut answered = false;
        loop {
            let got = from_receiver.read(&mut bytes).await.unwrap_or(0);
            if got == 0 {
                return;
            }
            if !(answered && faults.deaf.load(Ordering::SeqCst)) {
                to_worker.write_all(&bytes[..got]).await.ok();
            }
            answered = true;
        }
    };
    tokio::select! { () = up => {}, () = down => {}, () = faults.cut.notified() => {} }
    drop(worker);
    if faults.half_open.swap(false, Ordering::SeqCst) {
        faults.flow.notified().await;
        receiver.write_all(&[0xEE; 1 << 16].repeat(64)).await.ok();
    }
}
