//! Traces, as the configuration wants them.

use headwater_trace::{Names, Process, Recording, TraceError, TracePath, file_sink, start};

use crate::TelemetryConfig;

/// Whose traces they are.
#[derive(Clone, Debug)]
pub struct Traced<'a> {
    /// The tier, in a word: `storage`, `augment`, `receiver`, `publish`, `run`, `local`, `host`.
    pub tier: &'a str,
    /// Rank; 0 for those that have none.
    pub rank: u32,
    /// Ranks of the job; 1 for those that have none.
    pub world_size: u32,
}

/// The traces of a process. They end when this is dropped.
#[derive(Debug, Default)]
pub struct Traces {
    recordings: Vec<Recording>,
}

/// Starts what `telemetry.trace` and `telemetry.otlp_endpoint` ask for. What cannot be started is a line of
/// the log: no training ends for want of its trace.
#[must_use]
pub fn start_traces(config: &TelemetryConfig, traced: &Traced<'_>) -> Traces {
    let mut recordings = Vec::new();
    let process = traced.process();
    if !config.trace.is_empty() {
        match start_file(config, traced, &process) {
            Ok(recording) => recordings.push(recording),
            Err(error) => tracing::warn!("no trace is written: {error}"),
        }
    }
    if !config.otlp_endpoint.is_empty() {
        match start_sending(config, traced, &process) {
            Ok(recording) => recordings.push(recording),
            Err(reason) => tracing::warn!("no spans are sent by OTLP: {reason}"),
        }
    }
    Traces { recordings }
}

fn start_file(
    config: &TelemetryConfig,
    traced: &Traced<'_>,
    process: &Process,
) -> Result<Recording, TraceError> {
    let path = traced.file(&TracePath::parse(&config.trace)?)?;
    let sink = file_sink(&path, config.trace_bytes_max, process)?;
    tracing::info!(path = %path.display(), "writing a trace");
    start(sink)
}

#[cfg(feature = "otlp")]
fn start_sending(
    config: &TelemetryConfig,
    traced: &Traced<'_>,
    process: &Process,
) -> Result<Recording, String> {
    let sink = crate::otlp::sink(&config.otlp_endpoint, traced.tier, process)?;
    start(sink).map_err(|error| error.to_string())
}

#[cfg(not(feature = "otlp"))]
fn start_sending(_: &TelemetryConfig, _: &Traced<'_>, _: &Process) -> Result<Recording, String> {
    Err("this program was built without the feature `otlp`: use that of `make build`".into())
}

// === impl Traced ===

impl<'a> Traced<'a> {
    /// A process that is no rank's.
    #[must_use]
    pub fn tier(tier: &'a str) -> Self {
        Self::rank(tier, 0, 1)
    }

    /// A rank's.
    #[must_use]
    pub fn rank(tier: &'a str, rank: u32, world_size: u32) -> Self {
        Self { tier, rank, world_size }
    }

    /// What people call the process.
    #[must_use]
    pub fn process(&self) -> Process {
        let Self { tier, rank, world_size } = self;
        let name = match world_size {
            0 | 1 => (*tier).to_owned(),
            _ => format!("{tier} rank {rank}"),
        };
        let place = match *tier {
            "storage" => 0,
            "augment" => 1,
            "local" | "host" => 2,
            _ => 3 + rank,
        };
        Process { name, place }
    }

    /// The file of this process.
    ///
    /// # Errors
    /// A placeholder that there is not.
    pub fn file(&self, path: &TracePath) -> Result<std::path::PathBuf, TraceError> {
        let Self { tier, rank, world_size } = *self;
        path.of_process(&Names { tier, rank, world_size })
    }
}

// === impl Traces ===

impl Traces {
    /// Ends them: what was recorded is written and sent.
    pub fn stop(&mut self) {
        self.recordings.clear();
    }
}
