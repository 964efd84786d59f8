//! Standard error as several things write to it: log lines, progress, notes.

use std::io::{self, IsTerminal as _, Write as _};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use headwater_core::escape_control;
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use tracing_subscriber::fmt::MakeWriter;

/// Where there is no terminal, progress is a line every so often.
const LINE_EVERY: Duration = Duration::from_secs(5);
const BAR: &str = "{msg:>10} [{bar:40}] {pos}/{len} {per_sec} {eta}";
const SPINNER: &str = "{spinner} {msg} {elapsed}";

/// Standard error. Clones are the same screen.
#[derive(Clone, Debug, Default)]
pub(crate) struct Screen {
    bars: MultiProgress,
}

/// How far something is.
pub(crate) struct Progress {
    screen: Screen,
    bar: ProgressBar,
    what: &'static str,
    total: u64,
    started: Instant,
    said: Mutex<Instant>,
}

/// Work of unknown length; it is shown until this value is dropped.
pub(crate) struct Busy {
    spinner: ProgressBar,
}

/// Writes one log line at a time, with the bars out of the way.
pub(crate) struct LogLine<'a> {
    screen: &'a Screen,
}

// === impl Screen ===

impl Screen {
    /// Writes a line. Names from files may hold anything: a terminal gets text.
    pub(crate) fn line(&self, text: &str) {
        self.write(format!("{}\n", escape_control(text)).as_bytes());
    }

    /// Writes a line of the result to standard output, with the bars out of the way; as text too.
    pub(crate) fn print(&self, text: &str) {
        self.bars.suspend(|| println!("{}", escape_control(text)));
    }

    /// Writes several lines as [`Screen::print`] does one.
    pub(crate) fn print_lines(&self, lines: &str) {
        lines.lines().for_each(|line| self.print(line));
    }

    /// Shows the progress over `total` pieces, as a bar if there is a terminal.
    pub(crate) fn progress(&self, what: &'static str, total: u64) -> Progress {
        let bar = if io::stderr().is_terminal() {
            let style = ProgressStyle::with_template(BAR)
                .unwrap_or_else(|_| ProgressStyle::default_bar())
                .progress_chars("=> ");
            let bar = self.bars.add(ProgressBar::new(total).with_style(style).with_message(what));
            bar.enable_steady_tick(Duration::from_millis(200));
            bar
        } else {
            ProgressBar::hidden()
        };
        let now = Instant::now();
        Progress { screen: self.clone(), bar, what, total, started: now, said: Mutex::new(now) }
    }

    /// Shows that work is going on, if there is a terminal.
    pub(crate) fn busy(&self, what: &'static str) -> Busy {
        if !io::stderr().is_terminal() {
            return Busy { spinner: ProgressBar::hidden() };
        }
        let style = ProgressStyle::with_template(SPINNER)
            .unwrap_or_else(|_| ProgressStyle::default_spinner());
        let spinner = ProgressBar::new_spinner().with_style(style).with_message(what);
        let spinner = self.bars.add(spinner);
        spinner.enable_steady_tick(Duration::from_millis(200));
        Busy { spinner }
    }

    fn write(&self, bytes: &[u8]) {
        // Standard error may be closed; there is nobody left to tell.
        let _ = self.bars.suspend(|| io::stderr().lock().write_all(bytes));
    }
}

impl<'a> MakeWriter<'a> for Screen {
    type Writer = LogLine<'a>;

    fn make_writer(&'a self) -> LogLine<'a> {
        LogLine { screen: self }
    }
}

// === impl LogLine ===

impl io::Write for LogLine<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.screen.write(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

// === impl Progress ===

impl Progress {
    /// So many pieces are done.
    pub(crate) fn set(&self, done: u64) {
        self.bar.set_position(done);
        let Ok(mut said) = self.said.lock() else { return };
        if self.bar.is_hidden() && (said.elapsed() >= LINE_EVERY || done == self.total) {
            *said = Instant::now();
            let (what, total) = (self.what, self.total);
            let seconds = self.started.elapsed().as_secs_f64().max(1e-3);
            let per_second = done as f64 / seconds;
            self.screen.line(&format!("{what}: {done}/{total} ({per_second:.1}/s)"));
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish();
    }
}

// === impl Busy ===

impl Drop for Busy {
    fn drop(&mut self) {
        self.spinner.finish_and_clear();
    }
}
