//! Fetching `/metrics` of one process or of many.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs as _};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};

use super::Metrics;

/// Time for one process to answer, from its name to its last byte.
const LIMIT: Duration = Duration::from_secs(2);
/// Longest answer, and most lines of it: each takes some 100 bytes for as long as the process is watched.
const ANSWER_BYTES_MAX: usize = 4 << 20;
const ANSWER_LINES_MAX: usize = 1 << 16;
/// Requests under way at once.
const AT_ONCE: usize = 32;

/// The answer of one of several processes, and its time.
pub(crate) type Answer = (Instant, Result<Metrics>);

/// The metrics of one process. Blocks for two seconds at most, plus the time to resolve its name.
///
/// # Errors
/// There is no answer, or it has no metrics.
fn fetch(address: &str) -> Result<Metrics> {
    let places: Vec<SocketAddr> =
        address.to_socket_addrs().context("the name cannot be resolved")?.collect();
    let end = Instant::now() + LIMIT;
    let mut stream = connect(&places, end)?;
    // A server may cut an answer to HTTP/1.1 into chunks.
    let request = format!("GET /metrics HTTP/1.0\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    stream.set_write_timeout(Some(left(end)?))?;
    stream.write_all(request.as_bytes()).map_err(plain)?;
    let answer = read(&mut stream, end)?;
    let answer = String::from_utf8(answer).context("the answer is no text")?;
    let (head, body) = answer.split_once("\r\n\r\n").context("the answer is not HTTP")?;
    let status = head.split_whitespace().nth(1).unwrap_or_default();
    ensure!(status == "200", "GET /metrics is answered by status {status}");
    let is_short = body.lines().nth(ANSWER_LINES_MAX).is_none();
    ensure!(is_short, "the answer has more than {ANSWER_LINES_MAX} lines");
    let metrics = Metrics::of(body);
    ensure!(!metrics.is_empty() || body.trim().is_empty(), "the answer has no metrics");
    Ok(metrics)
}

/// What each process answers, in the order of `addresses`. Blocks as [`fetch`] does, for each 32 of
/// them.
pub(crate) fn fetch_all(addresses: &[String]) -> Vec<Answer> {
    let next = AtomicUsize::new(0);
    let (send, answers) = mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..AT_ONCE.min(addresses.len()) {
            let (next, send) = (&next, send.clone());
            scope.spawn(move || {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(address) = addresses.get(at) else { return };
                    let answer = fetch(address);
                    // The receiver lives as long as the scope.
                    let _ = send.send((at, (Instant::now(), answer)));
                }
            });
        }
    });
    drop(send);
    let mut answers: Vec<(usize, Answer)> = answers.iter().collect();
    answers.sort_unstable_by_key(|(at, _)| *at);
    answers.into_iter().map(|(_, answer)| answer).collect()
}

/// Adds up the metrics of several processes. One that is gone has taken its own with it.
pub(crate) fn scrape(addresses: &[SocketAddr]) -> Metrics {
    let addresses: Vec<String> = addresses.iter().map(ToString::to_string).collect();
    let mut sum = Metrics::default();
    for (address, (_, answer)) in addresses.iter().zip(fetch_all(&addresses)) {
        match answer {
            Ok(metrics) => sum.add(&metrics),
            Err(error) => tracing::debug!(%address, %error, "no metrics"),
        }
    }
    sum
}

/// The first of a name's addresses that takes the connection.
fn connect(places: &[SocketAddr], end: Instant) -> Result<TcpStream> {
    let mut refused = None;
    for place in places {
        match TcpStream::connect_timeout(place, left(end)?) {
            Ok(stream) => return Ok(stream),
            Err(error) => refused = Some(plain(error)),
        }
    }
    Err(refused.context("the name has no address")?)
}

fn read(stream: &mut TcpStream, end: Instant) -> Result<Vec<u8>> {
    let mut answer = Vec::new();
    let mut piece = vec![0; 64 << 10];
    loop {
        stream.set_read_timeout(Some(left(end)?))?;
        match stream.read(&mut piece) {
            Ok(0) => return Ok(answer),
            Ok(count) => answer.extend_from_slice(&piece[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(plain(error)),
        }
        if answer.len() > ANSWER_BYTES_MAX {
            bail!("the answer is longer than {ANSWER_BYTES_MAX} bytes");
        }
    }
}

fn left(end: Instant) -> Result<Duration> {
    let left = end.saturating_duration_since(Instant::now());
    ensure!(!left.is_zero(), "no answer within {} s", LIMIT.as_secs());
    Ok(left)
}

/// The error without its number.
fn plain(error: io::Error) -> anyhow::Error {
    use io::ErrorKind::{TimedOut, WouldBlock};
    match error.kind() {
        TimedOut | WouldBlock => anyhow::anyhow!("no answer within {} s", LIMIT.as_secs()),
        kind if error.raw_os_error().is_some() => anyhow::anyhow!("{kind}"),
        _ => error.into(),
    }
}

#[cfg(test)]
mod tests {
    use std::io::BufRead as _;
    use std::net::TcpListener;

    use super::*;

    /// Answers one caller.
    fn serving(answer: &str) -> String {
        let answer = answer.to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let request = io::BufReader::new(stream.try_clone().unwrap());
            request.lines().take_while(|line| line.as_ref().is_ok_and(|l| !l.is_empty())).count();
            stream.write_all(answer.as_bytes()).unwrap();
        });
        address
    }

    #[test]
    fn an_answer_that_would_take_much_memory_is_refused() {
        let lines = |count: usize| {
            let lines: String = (0..count).map(|number| format!("a{number} 1\n")).collect();
            format!("HTTP/1.0 200 OK\r\n\r\n{lines}")
        };
        let (most, more) = (lines(ANSWER_LINES_MAX), lines(ANSWER_LINES_MAX + 1));
        let long = format!("HTTP/1.0 200 OK\r\n\r\na{} 1\n", "a".repeat(ANSWER_BYTES_MAX));
        let addresses = [serving(&most), serving(&more), serving(&long)];
        let refused = |(_, answer): Answer| answer.err().map(|error| format!("{error:#}"));
        let answers: Vec<_> = fetch_all(&addresses).into_iter().map(refused).collect();
        let refusals =
            ["the answer has more than 65536 lines", "the answer is longer than 4194304 bytes"];
        assert_eq!(answers, [None, Some(refusals[0].to_owned()), Some(refusals[1].to_owned())]);
    }

    #[test]
    fn many_are_asked_and_each_answer_stands_at_its_place() {
        let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
        let addresses = [
            serving("HTTP/1.0 200 OK\r\n\r\na_total 1\n"),
            closed,
            serving("HTTP/1.0 503 Busy\r\n\r\na_total 1\n"),
            serving("HTTP/1.0 200 OK\r\n\r\n<html>"),
            serving("HTTP/1.0 200 OK\r\n\r\n"),
        ];
        let said = |(_, answer): Answer| match answer {
            Ok(metrics) => metrics.get("a_total").to_string(),
            Err(error) => format!("{error:#}"),
        };
        let answers: Vec<String> = fetch_all(&addresses).into_iter().map(said).collect();
        let status = "GET /metrics is answered by status 503";
        let expected = ["1", "connection refused", status, "the answer has no metrics", "0"];
        assert_eq!(answers, expected);
    }
}
