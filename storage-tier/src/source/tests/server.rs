//! A server of files that speaks what a test asks for, and does wrong what a test asks for.

use std::collections::{BTreeMap, HashMap};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::{hub, s3};

/// What a server speaks.
#[derive(Clone, Debug)]
pub(super) enum Dialect {
    /// Files by their paths, ranges, entity tags.
    Plain,
    /// S3: listings, and files below `/bucket/`.
    S3,
    /// The hub: revisions, trees, and redirects to another server for `.tar` files.
    Hub { elsewhere: SocketAddr },
}

/// What is done wrong with one answer.
#[derive(Clone, Debug)]
pub(super) enum Fault {
    Status(u16),
    /// The body ends after this number of bytes, and the connection with it.
    Cut(usize),
    /// The connection is closed without an answer.
    Hangup,
    /// No answer at all.
    Silence,
    /// The whole file, with status 200.
    NoRange,
    /// As many bytes as asked for, of another place.
    OtherRange,
    /// More bytes than the range has.
    TooMany,
    /// The same bytes with another entity tag, whatever the condition.
    OtherTag,
    Redirect(String),
    /// Other bytes, with the tag and size of the right ones.
    OtherBytes,
}

#[derive(Clone, Debug)]
pub(super) struct Request {
    pub(super) method: String,
    /// Not decoded.
    pub(super) path: String,
    pub(super) query: HashMap<String, String>,
    pub(super) headers: HashMap<String, String>,
    /// The caller's port: another one for each connection.
    pub(super) port: u16,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
}

/// A file and the number of its version.
pub(super) type File = (Arc<Vec<u8>>, u64);
type Faults = Box<dyn FnMut(&Request) -> Option<Fault> + Send>;

pub(super) struct State {
    pub(super) dialect: Dialect,
    pub(super) files: Mutex<BTreeMap<String, File>>,
    faults: Mutex<Faults>,
    requests: Mutex<Vec<Request>>,
    versions: AtomicU64,
    stopped: AtomicBool,
}

pub(super) struct Server {
    pub(super) address: SocketAddr,
    pub(super) state: Arc<State>,
    thread: Option<JoinHandle<()>>,
}

// === impl Server ===

impl Server {
    pub(super) fn start(dialect: Dialect) -> Self {
        let state = State {
            dialect,
            files: Mutex::default(),
            faults: Mutex::new(Box::new(|_| None)),
            requests: Mutex::default(),
            versions: AtomicU64::new(1),
            stopped: AtomicBool::new(false),
        };
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut server =
            Self { address: listener.local_addr().unwrap(), state: Arc::new(state), thread: None };
        server.serve(listener);
        server
    }

    fn serve(&mut self, listener: TcpListener) {
        let state = self.state.clone();
        state.stopped.store(false, Ordering::SeqCst);
        self.thread = Some(thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if state.stopped.load(Ordering::SeqCst) {
                    return;
                }
                let state = state.clone();
                thread::spawn(move || state.talk(stream));
            }
        }));
    }

    /// Nobody answers at the address any more.
    pub(super) fn stop(&mut self) {
        self.state.stopped.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(self.address);
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }

    /// It answers again, at the same address.
    pub(super) fn start_again(&mut self) {
        self.serve(TcpListener::bind(self.address).unwrap());
    }

    pub(super) fn put(&self, name: &str, bytes: &[u8]) {
        let version = self.state.versions.fetch_add(1, Ordering::SeqCst);
        self.state.files().insert(name.to_owned(), (Arc::new(bytes.to_vec()), version));
    }

    /// Which fault each request from now on meets.
    pub(super) fn fail(&self, faults: impl FnMut(&Request) -> Option<Fault> + Send + 'static) {
        *self.state.faults.lock().unwrap() = Box::new(faults);
    }

    /// The next `times` requests that ask for a range meet a fault.
    pub(super) fn fail_ranges(&self, times: usize, fault: Fault) {
        let mut left = times;
        self.fail(move |request| {
            let hit = request.headers.contains_key("range") && left > 0;
            left -= usize::from(hit);
            hit.then(|| fault.clone())
        });
    }

    /// What came since the last call.
    pub(super) fn requests(&self) -> Vec<Request> {
        std::mem::take(&mut self.state.requests.lock().unwrap())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

// === impl State ===

impl State {
    pub(super) fn files(&self) -> MutexGuard<'_, BTreeMap<String, File>> {
        self.files.lock().unwrap()
    }

    fn talk(&self, stream: TcpStream) {
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        let port = stream.peer_addr().map_or(0, |address| address.port());
        while let Some(request) = Request::read(&mut reader) {
            let request = Request { port, ..request };
            if self.stopped.load(Ordering::SeqCst) {
                return;
            }
            self.requests.lock().unwrap().push(request.clone());
            let fault = (self.faults.lock().unwrap())(&request);
            if !self.reply(&request, fault, &stream) {
                let _ = stream.shutdown(Shutdown::Both);
                return;
            }
        }
    }

    /// Whether the connection may go on.
    fn reply(&self, request: &Request, fault: Option<Fault>, mut stream: &TcpStream) -> bool {
        let mut request = request.clone();
        match &fault {
            Some(Fault::Hangup) => return false,
            Some(Fault::Silence) => {
                thread::sleep(Duration::from_secs(2));
                return false;
            }
            Some(Fault::NoRange) => drop(request.headers.remove("range")),
            Some(Fault::OtherRange) => {
                request.headers.insert("range".to_owned(), "bytes=1-2".to_owned());
            }
            _ => {}
        }
        let mut answer = match &self.dialect {
            Dialect::Plain => self.plain(&request),
            Dialect::S3 => s3::answer(self, &request),
            Dialect::Hub { elsewhere } => hub::answer(self, &request, *elsewhere),
        };
        match &fault {
            Some(Fault::Status(status)) => {
                answer = Answer { status: *status, ..Answer::default() };
            }
            Some(Fault::Redirect(to)) => {
                let headers = vec![("Location".to_owned(), to.clone())];
                answer = Answer { status: 302, headers, body: Vec::new() };
            }
            Some(Fault::OtherBytes) => answer.body.iter_mut().for_each(|byte| *byte ^= 0x55),
            Some(Fault::TooMany) => answer.body.extend_from_slice(&[7; 100_000]),
            Some(Fault::OtherTag) => {
                answer.headers.retain(|(name, _)| name != "ETag");
                answer.headers.push(("ETag".to_owned(), "\"another\"".to_owned()));
            }
            _ => {}
        }
        let length = answer.body.len();
        let mut text = format!("HTTP/1.1 {} X\r\n", answer.status);
        if !answer.headers.iter().any(|(name, _)| name == "Content-Length") {
            answer.headers.push(("Content-Length".to_owned(), length.to_string()));
        }
        for (name, value) in &answer.headers {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        text.push_str("\r\n");
        let mut bytes = text.into_bytes();
        let cut = if let Some(Fault::Cut(at)) = fault { at.min(length) } else { length };
        if request.method != "HEAD" {
            bytes.extend_from_slice(&answer.body[..cut]);
        }
        stream.write_all(&bytes).is_ok() && cut == length
    }

    fn plain(&self, request: &Request) -> Answer {
        let name = decoded(request.path.trim_start_matches('/'));
        self.file(request, &name)
    }

    /// A file, or a range of it, if its version is the one that is asked for.
    pub(super) fn file(&self, request: &Request, name: &str) -> Answer {
        let Some((bytes, version)) = self.files().get(name).cloned() else {
            return Answer { status: 404, ..Answer::default() };
        };
        let tag = format!("\"v{version}\"");
        if request.headers.get("if-match").is_some_and(|wanted| *wanted != tag) {
            return Answer { status: 412, ..Answer::default() };
        }
        let mut headers = vec![
            ("ETag".to_owned(), tag),
            ("Last-Modified".to_owned(), "Sun, 06 Nov 1994 08:49:37 GMT".to_owned()),
        ];
        let Some(range) = request.headers.get("range") else {
            headers.push(("Content-Length".to_owned(), bytes.len().to_string()));
            return Answer { status: 200, headers, body: bytes.to_vec() };
        };
        let (start, last) = range.strip_prefix("bytes=").unwrap().split_once('-').unwrap();
        let (start, end) = (start.parse::<usize>().unwrap(), last.parse::<usize>().unwrap() + 1);
        let end = end.min(bytes.len());
        if start >= end {
            return Answer { status: 416, ..Answer::default() };
        }
        let range = format!("bytes {start}-{}/{}", end - 1, bytes.len());
        headers.push(("Content-Range".to_owned(), range));
        Answer { status: 206, headers, body: bytes[start..end].to_vec() }
    }
}

// === impl Request ===

impl Request {
    fn read(reader: &mut impl BufRead) -> Option<Self> {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let mut words = line.split_whitespace();
        let (method, target) = (words.next()?.to_owned(), words.next()?.to_owned());
        let mut headers = HashMap::new();
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).ok()?;
            let Some((name, value)) = line.trim_end().split_once(':') else { break };
            headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
        }
        let length = headers.get("content-length").and_then(|text| text.parse().ok());
        std::io::copy(&mut reader.take(length.unwrap_or(0)), &mut std::io::sink()).ok()?;
        let (path, query) = target.split_once('?').unwrap_or((&target, ""));
        let pair = |pair: &str| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decoded(key), decoded(value))
        };
        let query = query.split('&').map(pair).collect();
        Some(Self { method, path: path.to_owned(), query, headers, port: 0 })
    }
}

pub(super) fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let hex: Vec<u8> = rest.by_ref().take(2).collect();
            bytes.push(u8::from_str_radix(std::str::from_utf8(&hex).unwrap(), 16).unwrap());
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).unwrap()
}
