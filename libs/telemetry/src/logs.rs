//! Log lines: which are written, how and where.

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

use crate::escaping::Escaping;
use crate::{LogFormat, TelemetryConfig, TelemetryError};

/// Starts logging. `from` names who set the filter of lines; `writer` is where lines go (standard
/// error, or something that moves a progress bar out of the way first).
///
/// # Errors
/// A filter that cannot be parsed, or a second call in one process.
pub fn start_logs<W>(config: &TelemetryConfig, from: &str, writer: W) -> Result<(), TelemetryError>
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let filter = parse(&config.log, from)?;
    let lines = tracing_subscriber::fmt().with_env_filter(filter);
    let started = match config.log_format {
        // Colours end up as noise in files and in journals, so there are none.
        LogFormat::Text => lines.with_ansi(false).with_writer(Escaping(writer)).try_init(),
        // Has escapes of its own.
        LogFormat::Json => lines.with_writer(writer).json().flatten_event(true).try_init(),
    };
    started.map_err(|_| TelemetryError::Twice { what: "logs" })
}

fn parse(filter: &str, from: &str) -> Result<EnvFilter, TelemetryError> {
    EnvFilter::builder().parse(filter).map_err(|error| TelemetryError::Filter {
        filter: filter.to_owned(),
        from: from.to_owned(),
        reason: error.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_is_refused_with_its_text_and_origin() {
        assert!(parse("headwater_receiver=debug,info", "telemetry.log").is_ok());
        let error = parse("headwater=loud", "HEADWATER_LOG").unwrap_err().to_string();
        assert!(error.contains("`headwater=loud`") && error.contains("HEADWATER_LOG"), "{error}");
    }
}
