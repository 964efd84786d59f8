//! Traces that a training asks for while it runs.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use headwater_telemetry::Traced;
use headwater_trace::{Recording, TracePath, file_sink, start};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::detached::{Detached, DropDetached, Lock, detached};
use crate::errors::{BusyError, ConfigError, raised_local};
use crate::shared::Shared;

/// A trace of what the loader's threads and services do, between `start` and `stop`.
///
/// Open a `.json` file at https://ui.perfetto.dev, and a `.pfw.gz` file with DFTracer's tools.
#[pyclass(frozen, module = "headwater")]
pub(crate) struct Trace {
    shared: Arc<Shared>,
    /// As it was given.
    asked: TracePath,
    path: PathBuf,
    rank: u32,
    world_size: u32,
    bytes_max: u64,
    state: DropDetached<Lock<State>>,
}

#[derive(Default)]
struct State {
    recording: Option<Recording>,
    /// Why the last trace ended by itself.
    trouble: Option<String>,
}

// === impl Trace ===

impl Trace {
    /// `(rank, world_size)`: place of the loader's process.
    pub(crate) fn new(
        shared: Arc<Shared>,
        (rank, world_size): (u32, u32),
        path: &Path,
        bytes_max: u64,
    ) -> PyResult<Self> {
        let wrong = |error: headwater_trace::TraceError| ConfigError::new_err(error.to_string());
        let asked = TracePath::parse(&path.to_string_lossy()).map_err(wrong)?;
        let path = Traced::rank("receiver", rank, world_size).file(&asked).map_err(wrong)?;
        let state = DropDetached::new(Lock::default());
        Ok(Self { shared, asked, path, rank, world_size, bytes_max, state })
    }

    fn begin(&self, detached: &Detached) -> PyResult<()> {
        // Not in a forked process, where this one's thread does not run.
        self.shared.receiver(detached)?;
        let mut state = self.state.lock(detached);
        if state.recording.as_ref().is_some_and(Recording::goes_on) {
            let path = self.path.display();
            return Err(BusyError::new_err(format!("trace `{path}` is being written already")));
        }
        let process = Traced::rank("receiver", self.rank, self.world_size).process();
        let sink = file_sink(&self.path, self.bytes_max, &process);
        let recording =
            sink.and_then(start).map_err(|error| ConfigError::new_err(error.to_string()));
        *state = State { recording: Some(recording?), trouble: None };
        let of_services = self.asked.tagged("local-%h");
        let asked =
            self.shared.trace_services(detached, Some((of_services.text(), self.bytes_max)));
        asked.map_err(|error| {
            state.recording = None;
            raised_local(error)
        })
    }

    fn end(&self, detached: &Detached) {
        let mut state = self.state.lock(detached);
        let Some(recording) = state.recording.take() else { return };
        recording.stop();
        state.trouble = recording.trouble();
        if self.shared.is_at_home() {
            // Services that have ended have written all they had.
            let _ = self.shared.trace_services(detached, None);
        }
    }
}

#[pymethods]
impl Trace {
    /// Begins the trace and replaces the file. Raises `ConfigError` if the file cannot be written,
    /// and `BusyError` if the trace has already begun. Later errors end only the trace: see
    /// `trouble`.
    fn start(&self, py: Python<'_>) -> PyResult<()> {
        detached(py, |detached| self.begin(detached))
    }

    /// Ends the trace: everything that was recorded is in the file. Does nothing if it has not
    /// begun.
    fn stop(&self, py: Python<'_>) {
        detached(py, |detached| self.end(detached));
    }

    /// The file that this process writes: with several ranks the rank is in its name.
    #[getter]
    fn path(&self) -> PathBuf {
        self.path.clone()
    }

    /// Why the trace ended before it was stopped, for example because the disk is full; `None` if
    /// it did not.
    #[getter]
    fn trouble(&self, py: Python<'_>) -> Option<String> {
        detached(py, |detached| {
            let state = self.state.lock(detached);
            let now = state.recording.as_ref().and_then(Recording::trouble);
            now.or_else(|| state.trouble.clone())
        })
    }

    fn __enter__(slf: PyRef<'_, Self>) -> PyResult<PyRef<'_, Self>> {
        let trace: &Self = &slf;
        detached(slf.py(), |detached| trace.begin(detached))?;
        Ok(slf)
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyTuple>) {
        self.stop(py);
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        let on = detached(py, |detached| {
            let state = self.state.lock(detached);
            state.recording.as_ref().is_some_and(Recording::goes_on)
        });
        let state = if on { "being written" } else { "not being written" };
        format!("<headwater.Trace {:?} {state}>", self.path.display().to_string())
    }
}
