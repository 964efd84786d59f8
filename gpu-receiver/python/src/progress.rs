//! How far the services of a loader are with their indices, for whoever waits for them.

use std::io::{self, IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

use headwater_telemetry::local_rank;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// A wait that is shorter is not spoken of.
const PATIENCE: Duration = Duration::from_millis(500);
/// Back to the start of the line, and removes what is there.
const CLEAR: &str = "\r\x1b[K";

/// Told to a function of the caller's; without one, on a terminal, as a line of the first rank of the host.
pub(crate) struct Progress {
    function: Option<Py<PyAny>>,
    started: Instant,
    is_shown: bool,
}

// === impl Progress ===

impl Progress {
    /// Takes the keyword `progress` out of the others.
    pub(crate) fn take(options: &Bound<'_, PyDict>) -> PyResult<Self> {
        let function = options.get_item("progress")?.filter(|function| !function.is_none());
        if function.is_some() {
            options.del_item("progress")?;
        }
        let function = function.map(Bound::unbind);
        Ok(Self { function, started: Instant::now(), is_shown: false })
    }

    /// So many shards are indexed, of so many.
    pub(crate) fn tell(&mut self, py: Python<'_>, done: usize, of: usize) -> PyResult<()> {
        if let Some(function) = &self.function {
            function.call1(py, (done, of))?;
            return Ok(());
        }
        let is_first = || local_rank(|name| std::env::var(name).ok()).unwrap_or(0) == 0;
        if self.started.elapsed() > PATIENCE && io::stderr().is_terminal() && is_first() {
            self.is_shown = true;
            // Whoever closed it does not read it.
            let _ = write!(io::stderr(), "{CLEAR}headwater: {done} of {of} shards are indexed");
        }
        Ok(())
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.is_shown {
            let _ = write!(io::stderr(), "{CLEAR}");
        }
    }
}
