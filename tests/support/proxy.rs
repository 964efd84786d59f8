//! Bad weather between processes, made by a proxy.
//!
//! A proxy, not the network itself (the kernels of small machines have no netem): it delays, slows
//! and holds bytes, cuts connections in mid-message, and swallows everything. A lost packet is
//! what TCP makes of it for its users: bytes that come later, by the time until it is sent again.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher as _;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Until a lost packet is sent again: Linux's least time.
const RETRANSMISSION: Duration = Duration::from_millis(200);
const PIECE_BYTES: usize = 64 << 10;
const HEARD_BYTES_MAX: usize = 64 << 20;

/// Passes connections on, both ways, through its weather.
pub struct Proxy {
    pub address: String,
    pub weather: Arc<Weather>,
}

/// Holds for every connection, present and future.
#[derive(Default)]
pub struct Weather {
    /// Added to the way of every piece of at most 64 KiB, one after the other.
    pub delay_ms: AtomicU64,
    /// One piece in this number is lost and sent again; 0: none.
    pub loses_one_in: AtomicU64,
    /// Bytes per second of each direction; 0: as fast as may be.
    pub bytes_per_s: AtomicU64,
    /// Everything is swallowed, and nobody learns of it.
    pub swallows: AtomicBool,
    /// Raised to cut all connections, each in the middle of the piece that comes next.
    cuts: AtomicU64,
    /// Pieces that passed.
    pieces: AtomicU64,
    heard: Mutex<Vec<u8>>,
}

// === impl Proxy ===

impl Proxy {
    /// Listens on `listen` and passes on to `target`.
    pub fn new(listen: &str, target: &str) -> Self {
        let listener = TcpListener::bind(listen).expect("an address");
        let address = listener.local_addr().expect("an address").to_string();
        let weather = Arc::<Weather>::default();
        let (target, shared) = (target.to_owned(), Arc::clone(&weather));
        std::thread::spawn(move || {
            for caller in listener.incoming().map_while(Result::ok) {
                // A target that is away closes the caller's connection, as a port without
                // listener would.
                let Ok(callee) = TcpStream::connect(&target) else { continue };
                let born = shared.cuts.load(Ordering::SeqCst);
                for (from, to) in [(&caller, &callee), (&callee, &caller)] {
                    let ends = from.try_clone().and_then(|from| Ok((from, to.try_clone()?)));
                    let Ok((from, to)) = ends else { break };
                    let weather = Arc::clone(&shared);
                    std::thread::spawn(move || {
                        weather.pass(&from, &to, born);
                        from.shutdown(Shutdown::Both).ok();
                        to.shutdown(Shutdown::Both).ok();
                    });
                }
            }
        });
        Self { address, weather }
    }

    /// A port of 127.0.0.1 that is free now, and that the kernel gives to nobody who asks for any.
    pub fn free_port() -> u16 {
        let range = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range");
        let range = range.expect("the kernel's own ports");
        let first = range.split_whitespace().next().and_then(|first| first.parse::<u64>().ok());
        let below = first.filter(|first| *first > 12_000).expect("ports below the kernel's own");
        let draw = |number: u64| 10_000 + RandomState::new().hash_one(number) % (below - 10_000);
        let is_free = |port: &u16| TcpListener::bind(("127.0.0.1", *port)).is_ok();
        let mut ports = (0..1000).map(|number| draw(number) as u16);
        ports.find(is_free).expect("a free port")
    }
}

// === impl Weather ===

impl Weather {
    /// Cuts every connection.
    pub fn cut(&self) {
        self.cuts.fetch_add(1, Ordering::SeqCst);
    }

    /// Nothing stands in the way any more.
    pub fn clear(&self) {
        for number in [&self.delay_ms, &self.loses_one_in, &self.bytes_per_s] {
            number.store(0, Ordering::SeqCst);
        }
        self.swallows.store(false, Ordering::SeqCst);
    }

    /// Bytes that came by, of all connections.
    pub fn heard(&self) -> Vec<u8> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn pass(&self, mut from: &TcpStream, mut to: &TcpStream, born: u64) {
        let mut piece = vec![0; PIECE_BYTES];
        while let Ok(got) = from.read(&mut piece) {
            if got == 0 {
                return;
            }
            let mut heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
            let room = HEARD_BYTES_MAX.saturating_sub(heard.len()).min(got);
            heard.extend_from_slice(&piece[..room]);
            drop(heard);
            self.hold(got);
            if self.cuts.load(Ordering::SeqCst) > born {
                to.write_all(&piece[..got / 2]).ok();
                return;
            }
            if to.write_all(&piece[..got]).is_err() {
                return;
            }
        }
    }

    /// The time of a piece on its way.
    fn hold(&self, bytes: usize) {
        let number = |number: &AtomicU64| number.load(Ordering::SeqCst);
        std::thread::sleep(Duration::from_millis(number(&self.delay_ms)));
        let piece = self.pieces.fetch_add(1, Ordering::SeqCst);
        let one_in = number(&self.loses_one_in);
        if one_in > 0 && piece.is_multiple_of(one_in) {
            std::thread::sleep(RETRANSMISSION);
        }
        let speed = number(&self.bytes_per_s);
        if speed > 0 {
            std::thread::sleep(Duration::from_secs_f64(bytes as f64 / speed as f64));
        }
        while self.swallows.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}
