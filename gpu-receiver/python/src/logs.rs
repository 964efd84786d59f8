//! Log lines of the receiver's own threads, to standard error.

use std::sync::Once;

use headwater_telemetry::{LOG_ENV, TelemetryConfig, start_logs};

use crate::errors::ConfigError;

/// What is logged unless told otherwise: a library in somebody else's program is quiet.
const LOG_DEFAULT: &str = "warn";

/// Starts logging with the first loader. A later loader's filter changes nothing.
///
/// # Errors
/// A filter that cannot be parsed.
pub(crate) fn start(config: Option<TelemetryConfig>) -> pyo3::PyResult<()> {
    static STARTED: Once = Once::new();
    let mut answer = Ok(());
    STARTED.call_once(|| {
        let config = config.unwrap_or_else(|| TelemetryConfig {
            log: LOG_DEFAULT.to_owned(),
            ..Default::default()
        });
        let from_env = std::env::var(LOG_ENV).ok();
        answer = start_logs(&config, from_env.as_deref(), std::io::stderr);
    });
    answer.map_err(|error| ConfigError::new_err(error.to_string()))
}
