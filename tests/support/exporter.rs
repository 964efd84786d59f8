//! A process that shows metrics, without anything behind them: a text for each second it has run.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Instant;

/// Serves `/metrics` until it is dropped; then its port is closed.
pub struct Exporter {
    address: SocketAddr,
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

// === impl Exporter ===

impl Exporter {
    /// `text` gets the seconds since the start.
    pub fn start(text: impl Fn(f64) -> String + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let ends = Arc::new(AtomicBool::new(false));
        let (begun, has_ended) = (Instant::now(), Arc::clone(&ends));
        let thread = std::thread::spawn(move || {
            for stream in listener.incoming() {
                if has_ended.load(Ordering::SeqCst) {
                    return;
                }
                // A caller that went away is its own business.
                let _ = stream
                    .and_then(|stream| answer(stream, || text(begun.elapsed().as_secs_f64())));
            }
        });
        Self { address, ends, thread: Some(thread) }
    }

    pub fn address(&self) -> String {
        self.address.to_string()
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::SeqCst);
        // Wakes the thread, which may have ended by a panic.
        let _ = TcpStream::connect(self.address);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn answer(mut stream: TcpStream, text: impl Fn() -> String) -> std::io::Result<()> {
    let mut request = String::new();
    let mut lines = BufReader::new(stream.try_clone()?);
    while lines.read_line(&mut request)? > 2 {}
    let is_known = request.starts_with("GET /metrics ");
    let (status, body) =
        if is_known { ("200 OK", text()) } else { ("404 Not Found", String::new()) };
    write!(stream, "HTTP/1.1 {status}\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}
