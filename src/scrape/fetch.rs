//! Fetching `/metrics` of one process or of many.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, ensure};
use futures::StreamExt as _;
use headwater_http_client::{Limits, block_on};
use http_body_util::Empty;
use hyper::{Request, StatusCode};

use super::Metrics;

/// Time for one process to answer, and its longest answer: each line takes some 100 bytes for as long as the process
/// is watched.
const LIMITS: Limits = Limits { time: Duration::from_secs(2), body_bytes: 4 << 20 };
const ANSWER_LINES_MAX: usize = 1 << 16;
/// Requests under way at once.
const AT_ONCE: usize = 32;

/// The answer of one of several processes, and its time.
pub(crate) type Answer = (Instant, Result<Metrics>);

/// The metrics of one process.
///
/// # Errors
/// There is no answer, or it has no metrics.
async fn fetch(address: &str) -> Result<Metrics> {
    let request = Request::get("/metrics").header("host", address).body(Empty::new())?;
    let answer = LIMITS.fetch(address, request).await?;
    let status = answer.status();
    ensure!(status == StatusCode::OK, "GET /metrics is answered by status {}", status.as_u16());
    let body = std::str::from_utf8(answer.body()).context("the answer is no text")?;
    let is_short = body.lines().nth(ANSWER_LINES_MAX).is_none();
    ensure!(is_short, "the answer has more than {ANSWER_LINES_MAX} lines");
    let metrics = Metrics::of(body);
    ensure!(!metrics.is_empty() || body.trim().is_empty(), "the answer has no metrics");
    Ok(metrics)
}

/// What each process answers, in the order of `addresses`. Blocks for two seconds at most for each 32 of them.
pub(crate) fn fetch_all(addresses: &[String]) -> Vec<Answer> {
    let fetch_all = || {
        let fetched = addresses.iter().enumerate().map(async |(number, address)| {
            let answer = fetch(address).await;
            (number, (Instant::now(), answer))
        });
        // Who is slow keeps none waiting but itself.
        let fetched = futures::stream::iter(fetched).buffer_unordered(AT_ONCE);
        block_on(fetched.collect::<BTreeMap<_, _>>())
    };
    // A thread of its own: the caller may be one of a runtime's.
    match thread::scope(|scope| scope.spawn(fetch_all).join().expect("no fetch panics")) {
        Ok(answers) => answers.into_values().collect(),
        Err(error) => {
            let nothing = |_| (Instant::now(), Err(anyhow!("nothing can be fetched: {error}")));
            addresses.iter().map(nothing).collect()
        }
    }
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

#[cfg(test)]
mod tests {
    use std::io::{self, BufRead as _, Write as _};
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
        let long = format!("HTTP/1.0 200 OK\r\n\r\na{} 1\n", "a".repeat(LIMITS.body_bytes));
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
