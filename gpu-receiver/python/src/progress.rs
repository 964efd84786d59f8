//! How far the services of a loader are with their indices, for whoever waits for them.

use std::io::{self, IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

use headwater_telemetry::local_rank;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors::ConfigError;

/// A shorter wait shows no progress.
const PATIENCE: Duration = Duration::from_millis(500);
/// Goes back to the start of the line and clears it.
const CLEAR: &str = "\r\x1b[K";

/// Progress of indexing. It goes to the caller's function, or else, on a terminal, to a line of
/// the host's first rank.
pub(crate) struct Progress {
    function: Option<Py<PyAny>>,
    started: Instant,
    told: Option<(usize, usize)>,
    /// The text on the terminal.
    shown: String,
}

// === impl Progress ===

impl Progress {
    /// Takes the keyword `progress` out of the others.
    pub(crate) fn take(options: &Bound<'_, PyDict>) -> PyResult<Self> {
        let function = options.get_item("progress")?.filter(|function| !function.is_none());
        if let Some(function) = &function {
            if !function.is_callable() {
                let kind = function.get_type().name()?;
                return Err(ConfigError::new_err(format!(
                    "`progress` is a {kind}: give a function of two numbers, indexed shards and all shards"
                )));
            }
            options.del_item("progress")?;
        }
        let function = function.map(Bound::unbind);
        Ok(Self { function, started: Instant::now(), told: None, shown: String::new() })
    }

    /// Number of indexed shards, and of all shards.
    pub(crate) fn tell(&mut self, py: Python<'_>, done: usize, of: usize) -> PyResult<()> {
        if let Some(function) = &self.function {
            function.call1(py, (done, of))?;
        }
        self.told = Some((done, of));
        Ok(())
    }

    /// Shows the last numbers on a terminal, once the wait is long enough.
    pub(crate) fn show(&mut self) {
        let is_first = || local_rank(|name| std::env::var(name).ok()).unwrap_or(0) == 0;
        let is_shown = self.function.is_none() && self.started.elapsed() > PATIENCE;
        if !(is_shown && io::stderr().is_terminal() && is_first()) {
            return;
        }
        let text = match self.told {
            Some((done, of)) => format!("headwater: {done} of {of} shards are indexed"),
            None => "headwater: the data is being indexed".to_owned(),
        };
        if text != self.shown {
            // Whoever closed it does not read it.
            let _ = write!(io::stderr(), "{CLEAR}{text}");
            self.shown = text;
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if !self.shown.is_empty() {
            let _ = write!(io::stderr(), "{CLEAR}");
        }
    }
}
