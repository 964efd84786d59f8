//! Configuration of logs and metrics: `[telemetry]` in `headwater.toml`.

use std::path::PathBuf;

use headwater_config_derive::Keys;
use headwater_trace::TracePath;
use serde::{Deserialize, Serialize};

use crate::TelemetryError;

/// Where launchers say the local rank, best first: torchrun and its like, SLURM.
const LOCAL_RANK_ENVS: [&str; 5] = [
    "LOCAL_RANK",
    "OMPI_COMM_WORLD_LOCAL_RANK",
    "MV2_COMM_WORLD_LOCAL_RANK",
    "MPI_LOCALRANKID",
    "SLURM_LOCALID",
];

/// What a process logs, and where it shows its metrics.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Keys)]
#[serde(deny_unknown_fields, default)]
pub struct TelemetryConfig {
    /// Which log lines are written: `warn`, `info`, `headwater_receiver=debug,info`. The
    /// environment variable `HEADWATER_LOG` overrides it.
    pub log: String,
    /// Form of a log line: `text` or `json`.
    pub log_format: LogFormat,
    /// Address of `/metrics`, `/healthz` and `/readyz`, `host:port`, or `:port` for this host only;
    /// port 0: any free port. Empty: off. A training rank adds its local rank to the port, so that the ranks of a host do not
    /// collide.
    pub metrics_listen: String,
    /// Directory in which a process with metrics leaves a file with its address, in the form of
    /// Prometheus' `file_sd`. Empty: `/dev/shm/headwater-UID/targets` of this host. On a cluster,
    /// use a directory that hosts share.
    pub targets_dir: PathBuf,
    /// Whether a training rank shows batches at `/batch.json` and `/batch.png` of that address:
    /// keys, draws and a picture of the first 16 samples. With `security.token_file` callers need
    /// the token; otherwise everybody may see them.
    pub show_batches: bool,
    /// File of a trace of this process: trace events for Perfetto if it ends in `.json`, DFTracer's
    /// if in `.pfw.gz`. `%t` means the tier, `%r` the rank, `%h` the host, `%p` the process. With
    /// several ranks and neither `%r` nor `%p`, each adds its rank to the name. Empty: off.
    pub trace: String,
    /// Bytes at which a trace's file ends; the process continues.
    #[key(unit = "bytes")]
    pub trace_bytes_max: u64,
    /// OpenTelemetry collector to which spans are sent by OTLP over gRPC, such as
    /// `http://127.0.0.1:4317`. Empty: off.
    pub otlp_endpoint: String,
}

/// Form of a log line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

// === impl TelemetryConfig ===

impl TelemetryConfig {
    /// The same for services of a host that the process has: a trace of theirs is a file beside its own, with
    /// `word` and the host in its name.
    #[must_use]
    pub fn of_service(self, word: &str) -> Self {
        let trace = match TracePath::parse(&self.trace) {
            Ok(path) => path.tagged(&format!("{word}-%h")).text().to_owned(),
            Err(_) => self.trace.clone(),
        };
        Self { trace, ..self }
    }

    /// The same for one of several ranks on a host: its local rank is added to the port of
    /// `metrics_listen`. Port 0 stays 0.
    ///
    /// # Errors
    /// `metrics_listen` has no port, or there is no port so high.
    pub fn of_local_rank(self, local_rank: u32) -> Result<Self, TelemetryError> {
        if self.metrics_listen.is_empty() || local_rank == 0 {
            return Ok(self);
        }
        let wrong = |reason: String| TelemetryError::Port {
            address: self.metrics_listen.clone(),
            local_rank,
            reason,
        };
        let (host, port) = self
            .metrics_listen
            .rsplit_once(':')
            .ok_or_else(|| wrong("it has no port".to_owned()))?;
        let port: u16 = port.parse().map_err(|error| wrong(format!("port `{port}`: {error}")))?;
        let rank_port = match port {
            0 => 0,
            port => u32::from(port) + local_rank,
        };
        let rank_port = u16::try_from(rank_port)
            .map_err(|_| wrong(format!("{rank_port} is beyond the last port, {}", u16::MAX)))?;
        Ok(Self { metrics_listen: format!("{host}:{rank_port}"), ..self })
    }
}

/// Number of this rank among those on its host, as its launcher says it; 0 where none does. An empty
/// variable is not set. `variable` looks a variable of the environment up.
///
/// # Errors
/// The variable is not a number.
pub fn local_rank(variable: impl Fn(&str) -> Option<String>) -> Result<u32, TelemetryError> {
    for name in LOCAL_RANK_ENVS {
        if let Some(text) = variable(name).filter(|text| !text.trim().is_empty()) {
            return text.trim().parse().map_err(|error: std::num::ParseIntError| {
                TelemetryError::LocalRank { name, text, reason: error.to_string() }
            });
        }
    }
    Ok(0)
}

impl Default for TelemetryConfig {
    fn default() -> Self {
        Self {
            log: "info".to_owned(),
            log_format: LogFormat::Text,
            metrics_listen: String::new(),
            targets_dir: PathBuf::new(),
            show_batches: false,
            trace: String::new(),
            trace_bytes_max: 1 << 30,
            otlp_endpoint: String::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(address: &str, local_rank: u32) -> Result<String, String> {
        let config = TelemetryConfig { metrics_listen: address.to_owned(), ..Default::default() };
        let config = config.of_local_rank(local_rank).map_err(|error| error.to_string())?;
        Ok(config.metrics_listen)
    }

    #[test]
    fn each_rank_of_a_host_has_a_port_of_its_own() {
        assert_eq!(of("0.0.0.0:9400", 0).unwrap(), "0.0.0.0:9400");
        assert_eq!(of("0.0.0.0:9400", 7).unwrap(), "0.0.0.0:9407");
        assert_eq!(of("[::]:9400", 1).unwrap(), "[::]:9401");
        assert_eq!(of("node:0", 3).unwrap(), "node:0", "any port is any port");
        assert_eq!(of("", 3).unwrap(), "", "off is off");
    }

    #[test]
    fn a_port_that_there_is_not_is_named() {
        let error = of("node:65530", 6).unwrap_err();
        assert!(error.contains("node:65530") && error.contains("local rank 6"), "{error}");
        assert!(error.contains("65536") && error.contains("telemetry.metrics_listen"), "{error}");
        assert!(of("node", 1).unwrap_err().contains("no port"));
    }

    #[test]
    fn launchers_say_the_local_rank() {
        let said = |pairs: &[(&str, &str)]| {
            local_rank(|name| {
                let found = pairs.iter().find(|(known, _)| *known == name)?;
                Some(found.1.to_owned())
            })
            .map_err(|error| error.to_string())
        };
        assert_eq!(said(&[]).unwrap(), 0);
        assert_eq!(said(&[("SLURM_LOCALID", "3")]).unwrap(), 3);
        assert_eq!(said(&[("SLURM_LOCALID", "3"), ("LOCAL_RANK", "1")]).unwrap(), 1);
        assert_eq!(said(&[("LOCAL_RANK", "")]).unwrap(), 0, "an empty variable is not set");
        assert_eq!(said(&[("SLURM_LOCALID", "3"), ("LOCAL_RANK", " ")]).unwrap(), 3);
        let error = said(&[("LOCAL_RANK", "first")]).unwrap_err();
        assert!(error.contains("$LOCAL_RANK is `first`"), "{error}");
    }
}
