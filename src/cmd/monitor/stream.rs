//! `headwater monitor --tensorcom`: shows a stream of batches, without a part in it.

use std::io::Write as _;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use crate::monitor::{Stream, Window};

/// Time between two reports, and that a single one is about.
const REPORT_EVERY: Duration = Duration::from_secs(1);

/// How a stream is shown.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terms<'a> {
    pub(super) url: &'a str,
    /// Reports once, after waiting for batches no longer than that.
    pub(super) once_within: Option<Duration>,
    pub(super) json: bool,
}

/// Watches until it is interrupted or, once, until there is a report.
pub(super) fn run(terms: Terms<'_>) -> Result<()> {
    let stream = Stream::open(terms.url)?;
    if stream.takes_away() {
        let url = stream.url();
        eprintln!(
            "{url}: every batch that is seen here is missing at the other clients of that address"
        );
    }
    let mut report = Report { json: terms.json, shapes: String::new() };
    if let Some(wait) = terms.once_within {
        return once(&stream, &mut report, wait);
    }
    let mut window = Window::new(Instant::now());
    loop {
        let left = REPORT_EVERY.saturating_sub(window.elapsed(Instant::now()));
        if !left.is_zero() {
            stream.look(left, &mut window)?;
            continue;
        }
        let now = Instant::now();
        report.write(&stream, &window, now)?;
        window.begin(now);
    }
}

/// The rate begins with the first batch, and there is none before the second.
fn once(stream: &Stream, report: &mut Report, wait: Duration) -> Result<()> {
    let begun = Instant::now();
    let mut window = Window::new(begun);
    let mut has_first = false;
    loop {
        let now = Instant::now();
        if has_first && window.batches() > 0 && window.elapsed(now) >= REPORT_EVERY {
            return report.write(stream, &window, now);
        }
        let left = wait.saturating_sub(begun.elapsed());
        if left.is_zero() {
            break;
        }
        let ahead = REPORT_EVERY.saturating_sub(window.elapsed(now));
        let until = if has_first && !ahead.is_zero() { left.min(ahead) } else { left };
        stream.look(until, &mut window)?;
        if !has_first && window.batches() > 0 {
            has_first = true;
            window.begin(Instant::now());
        }
    }
    if has_first {
        // One batch, and its shapes.
        return report.write(stream, &window, Instant::now());
    }
    let (url, seconds) = (stream.url(), wait.as_secs());
    match window.bad() {
        Some((bad, error)) => {
            bail!("{bad} messages from {url} were not in Tensorcom's format: {error}")
        }
        None => {
            bail!("no batch came from {url} within {seconds} s: does its sender run? see --wait")
        }
    }
}

/// Writes reports to standard output.
struct Report {
    json: bool,
    /// Written last.
    shapes: String,
}

// === impl Report ===

impl Report {
    fn write(&mut self, stream: &Stream, window: &Window, now: Instant) -> Result<()> {
        let mut out = std::io::stdout().lock();
        if self.json {
            writeln!(out, "{}", window.json(stream.url(), now))?;
            return Ok(out.flush()?);
        }
        if self.shapes != window.shapes() {
            window.shapes().clone_into(&mut self.shapes);
            writeln!(out, "{}", self.shapes)?;
        }
        writeln!(out, "{}", window.text(now))?;
        if let Some((bad, error)) = window.bad() {
            writeln!(out, "{bad} messages are not in Tensorcom's format: {error}")?;
        }
        Ok(out.flush()?)
    }
}
