//! Logs, metrics, /metrics and /healthz.
