//! What the two processes say over the worker's standard input and output, a line each.
//!
//! While it connects, the worker asks for what its links need and says which links it cannot
//! have; then it is ready for orders.

use std::io::{self, BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout};
use std::sync::Arc;

use async_trait::async_trait;
use headwater_core::hex;
use headwater_transport::{Exchange, LinkError, LinkKind, ReceiverLink};

use super::orders::{Order, Spent, unhex};
use super::ways::Route;

const ASK: &str = "ask";
const WITHOUT: &str = "without";
const READY: &str = "ready";

/// The receiver's side of it; the other process is killed when dropped.
pub(super) struct ReceiverTalk {
    child: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
}

/// The worker's side of it.
pub(super) struct WorkerTalk;

// === impl ReceiverTalk ===

impl ReceiverTalk {
    pub(super) fn new(mut child: Child) -> io::Result<Self> {
        let pipes = child.stdin.take().zip(child.stdout.take());
        let Some((orders, answers)) = pipes else {
            return Err(io::Error::other("the bench worker's input and output are not piped"));
        };
        Ok(Self { child, orders, answers: BufReader::new(answers) })
    }

    /// Answers the worker until it has connected all links that it can. Returns a sentence for each link that it cannot connect.
    pub(super) fn until_ready(
        &mut self,
        links: &[Arc<dyn ReceiverLink>],
    ) -> io::Result<Vec<(Route, String)>> {
        let mut without = Vec::new();
        loop {
            let line = self.line()?;
            let words: Vec<&str> = line.split_whitespace().collect();
            match words[..] {
                [READY] => return Ok(without),
                [ASK, kind, request] => {
                    let link = links.iter().find(|link| link.kind().name() == kind);
                    let link = link.and_then(|link| link.answers_requests());
                    let (link, request) = link.zip(unhex(request)).ok_or_else(|| unknown(&line))?;
                    let answer = link.answer(&request);
                    writeln!(self.orders, "{}", hex(&answer))?;
                }
                [WITHOUT, route, reason] => {
                    let known = Route::from_name(route).zip(unhex(reason));
                    let (route, reason) = known.ok_or_else(|| unknown(&line))?;
                    without.push((route, String::from_utf8_lossy(&reason).into_owned()));
                }
                _ => return Err(unknown(&line)),
            }
        }
    }

    pub(super) fn order(&mut self, order: Order) -> io::Result<()> {
        writeln!(self.orders, "{}", order.encode())
    }

    pub(super) fn spent(&mut self) -> io::Result<Spent> {
        Spent::decode(&self.line()?)
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        Ok(line)
    }
}

impl Drop for ReceiverTalk {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

fn unknown(line: &str) -> io::Error {
    io::Error::other(format!("the bench worker says: {}", line.trim()))
}

// === impl WorkerTalk ===

impl WorkerTalk {
    pub(super) fn without(&self, route: Route, error: &LinkError) -> io::Result<()> {
        let reason = hex(error.to_string().as_bytes());
        writeln!(io::stdout(), "{WITHOUT} {} {reason}", route.name())
    }

    pub(super) fn ready(&self) -> io::Result<()> {
        writeln!(io::stdout(), "{READY}")
    }

    /// The next order; `None` when there are no more.
    pub(super) fn next(&self) -> io::Result<Option<Order>> {
        let mut line = String::new();
        if io::stdin().lock().read_line(&mut line)? == 0 {
            return Ok(None);
        }
        Order::decode(&line).map(Some).ok_or_else(|| io::Error::other("not an order"))
    }

    pub(super) fn spent(&self, spent: Spent) -> io::Result<()> {
        writeln!(io::stdout(), "{}", spent.encode())
    }
}

#[async_trait]
impl Exchange for WorkerTalk {
    async fn exchange(&self, kind: LinkKind, request: Vec<u8>) -> Result<Vec<u8>, LinkError> {
        let asked = || {
            writeln!(io::stdout(), "{ASK} {kind} {}", hex(&request))?;
            let mut line = String::new();
            io::stdin().lock().read_line(&mut line)?;
            unhex(line.trim()).ok_or_else(|| io::Error::other("no answer"))
        };
        asked().map_err(|error| LinkError::Closed { kind, reason: error.to_string() })
    }
}
