//! Callers who say nothing, who begin and never end, and who take all they can get, beside one honest
//! rank: it gets every batch, and each is the same. No token and no certificates: everybody may call.

use std::io::Write as _;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::{Duration, Instant};

use headwater_receiver::ReceiverConfig;

use crate::support;
use crate::support::fleet::Fleet;
use crate::support::trainer::Ranks;
use crate::unfinished::unfinished;

/// Of each kind, for each address.
const CALLERS: usize = 150;
/// Requests that each greedy caller begins.
const REQUESTS: u32 = 50;
const BATCHES: usize = 30;

/// What a caller sends before it falls silent.
#[derive(Clone)]
struct Caller {
    address: String,
    says: Vec<u8>,
}

/// Callers that come again whenever they are turned out, until this is dropped.
struct Crowd {
    stop: Arc<AtomicBool>,
    connected: Arc<AtomicUsize>,
    thread: Option<JoinHandle<()>>,
}

// === impl Caller ===

impl Caller {
    fn call(&self) -> Option<TcpStream> {
        let mut stream = TcpStream::connect(&self.address).ok()?;
        stream.set_nonblocking(true).ok()?;
        stream.write_all(&self.says).ok()?;
        Some(stream)
    }
}

// === impl Crowd ===

impl Crowd {
    fn of(callers: Vec<Caller>) -> Self {
        let (stop, connected) = (Arc::<AtomicBool>::default(), Arc::<AtomicUsize>::default());
        let (stopped, count) = (Arc::clone(&stop), Arc::clone(&connected));
        let thread = spawn(move || {
            let mut streams: Vec<Option<TcpStream>> = callers.iter().map(|_| None).collect();
            while !stopped.load(Ordering::SeqCst) {
                for (stream, caller) in streams.iter_mut().zip(&callers) {
                    // Somebody who waits for an answer is still there; the end or an error is not.
                    let stands = stream.as_ref().is_some_and(|stream| {
                        let peeked = stream.peek(&mut [0]);
                        peeked.map_or_else(
                            |error| error.kind() == std::io::ErrorKind::WouldBlock,
                            |bytes| bytes > 0,
                        )
                    });
                    if !stands {
                        *stream = caller.call();
                        count.fetch_add(usize::from(stream.is_some()), Ordering::SeqCst);
                    }
                }
                sleep(Duration::from_millis(100));
            }
        });
        Self { stop, connected, thread: Some(thread) }
    }

    fn wait_for(&self, calls: usize) {
        for _ in 0..6000 {
            if self.connected.load(Ordering::SeqCst) >= calls {
                return;
            }
            sleep(Duration::from_millis(10));
        }
        panic!("{} of {calls} calls", self.connected.load(Ordering::SeqCst));
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        self.thread.take().into_iter().for_each(|thread| drop(thread.join()));
    }
}

#[test]
fn idle_half_open_and_greedy_callers_change_no_batch_of_an_honest_rank() {
    let shards = support::data("photos/photos-*.tar");
    let mut fleet = Fleet::without_workers(&shards);
    fleet.add_worker("local_files = \"off\"");
    let config = ReceiverConfig {
        batch_samples: 8,
        epochs: 1_000_000,
        links: vec!["tcp".into()],
        ..fleet.config()
    };
    let storage = fleet.storage().address.clone();
    let (worker, metrics) = (fleet.worker(0).address.clone(), fleet.worker(0).metrics.clone());
    let mut callers = Vec::new();
    let mut add = |address: &String, says: Vec<u8>| {
        let caller = Caller { address: address.clone(), says };
        callers.extend(std::iter::repeat_n(caller, CALLERS));
    };
    for address in [&storage, &worker, &metrics] {
        add(address, Vec::new());
        add(address, b"PRI * HT".to_vec());
    }
    add(&storage, unfinished("/headwater.v1.Storage/GetManifest", REQUESTS));
    add(&worker, unfinished("/headwater.v1.Augment/Work", 15));
    let calls = callers.len();
    let crowd = Crowd::of(callers);
    crowd.wait_for(calls);

    let folder = fleet.dir().to_owned();
    let only = ["--batches".to_owned(), BATCHES.to_string()];
    let started = Instant::now();
    let mut ranks = Ranks::start(&config, &folder, "crowded", &only);
    ranks.finish();
    let took = started.elapsed();
    let crowded = ranks.stream();
    assert_eq!(crowded.len(), BATCHES);
    let calls = crowd.connected.load(Ordering::SeqCst);
    drop(crowd);
    let started = Instant::now();
    let mut ranks = Ranks::start(&config, &folder, "alone", &only);
    ranks.finish();
    println!("{BATCHES} batches: {took:?} beside {calls} calls, {:?} without", started.elapsed());
    assert!(crowded == ranks.stream(), "batches differ");
}
