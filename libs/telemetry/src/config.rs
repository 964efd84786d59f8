//! Configuration of logs and metrics: `[telemetry]` in `headwater.toml`.

use serde::{Deserialize, Serialize};

/// What a process logs, and where it shows its metrics.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TelemetryConfig {
    /// Which log lines are written: `warn`, `info`, `headwater_receiver=debug,info`. The
    /// environment variable `HEADWATER_LOG` goes before it.
    pub log: String,
    /// Form of a log line: `text` or `json`.
    pub log_format: LogFormat,
    /// Address of `/metrics` and `/healthz`, `host:port`; port 0: any. Empty: off.
    pub metrics_listen: String,
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

impl Default for TelemetryConfig {
    fn default() -> Self {
        Self { log: "info".to_owned(), log_format: LogFormat::Text, metrics_listen: String::new() }
    }
}
