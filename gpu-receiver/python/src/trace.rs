//! Traces that a training asks for while it runs.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use headwater_telemetry::Traced;
use headwater_trace::{Recording, TracePath, file_sink, start};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

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
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    recording: Option<Recording>,
    /// Why the last trace ended by itself.
    trouble: Option<String>,
}

// === impl Trace ===

impl Trace {
    pub(crate) fn new(shared: Arc<Shared>, path: &Path, bytes_max: u64) -> PyResult<Self> {
        let wrong = |error: headwater_trace::TraceError| ConfigError::new_err(error.to_string());
        let asked = TracePath::parse(&path.to_string_lossy()).map_err(wrong)?;
        let receiver = shared.receiver()?;
        let (rank, world_size) = (receiver.config().rank, receiver.config().world_size);
        let path = Traced::rank("receiver", rank, world_size).file(&asked).map_err(wrong)?;
        let state = Mutex::default();
        Ok(Self { shared, asked, path, rank, world_size, bytes_max, state })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(&self) -> PyResult<()> {
        // Not in a forked process, where this one's thread does not run.
        self.shared.receiver()?;
        let mut state = self.lock();
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
        let asked = self.shared.trace_services(Some((of_services.text(), self.bytes_max)));
        asked.map_err(|error| {
            state.recording = None;
            raised_local(error)
        })
    }

    fn end(&self) {
        let mut state = self.lock();
        let Some(recording) = state.recording.take() else { return };
        recording.stop();
        state.trouble = recording.trouble();
        if self.shared.is_at_home() {
            // Services that have ended have written all they had.
            let _ = self.shared.trace_services(None);
        }
    }
}

#[pymethods]
impl Trace {
    /// Begins the trace and replaces the file. Raises `ConfigError` if the file cannot be written,
    /// and `BusyError` if the trace has already begun. Later errors end only the trace: see
    /// `trouble`.
    fn start(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.begin())
    }

    /// Ends the trace: everything that was recorded is in the file. Does nothing if it has not
    /// begun.
    fn stop(&self, py: Python<'_>) {
        py.detach(|| self.end());
    }

    /// The file that this process writes: with several ranks the rank is in its name.
    #[getter]
    fn path(&self) -> PathBuf {
        self.path.clone()
    }

    /// Why the trace ended before it was stopped, for example because the disk is full; `None` if
    /// it did not.
    #[getter]
    fn trouble(&self) -> Option<String> {
        let state = self.lock();
        let now = state.recording.as_ref().and_then(Recording::trouble);
        now.or_else(|| state.trouble.clone())
    }

    fn __enter__(slf: PyRef<'_, Self>) -> PyResult<PyRef<'_, Self>> {
        slf.py().detach({
            let trace: &Self = &slf;
            move || trace.begin()
        })?;
        Ok(slf)
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyTuple>) {
        self.stop(py);
    }

    fn __repr__(&self) -> String {
        let on = self.lock().recording.as_ref().is_some_and(Recording::goes_on);
        let state = if on { "being written" } else { "not being written" };
        format!("<headwater.Trace {:?} {state}>", self.path.display().to_string())
    }
}
