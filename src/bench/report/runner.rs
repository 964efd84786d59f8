//! A bench as a process of this program.

use std::ffi::OsString;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Output, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};
use headwater_config::{Config, Setting};
use tempfile::NamedTempFile;
use tokio::process::Command;
use tokio::time::timeout;

use super::figures::{Measured, Outcome};
use super::pieces::Piece;
use crate::run::LAST_WORDS;
use crate::shutdown::Shutdown;

/// Longest run of one bench.
const LIMIT: Duration = Duration::from_secs(1800);

/// Runs benches by one configuration.
pub(crate) struct Runner {
    program: PathBuf,
    /// Before the bench's own arguments.
    arguments: Vec<OsString>,
    /// Keeps the configuration's file while benches run.
    _config: NamedTempFile,
}

// === impl Runner ===

impl Runner {
    /// Benches of this program by a configuration.
    ///
    /// # Errors
    /// The configuration cannot be written.
    pub(crate) fn new(config: &Config) -> Result<Self> {
        // A file, because the bench of links starts itself again and needs its standard input then.
        let named = tempfile::Builder::new().prefix("headwater-bench-").suffix(".toml").tempfile();
        let mut file = named.context("cannot make a file for the configuration")?;
        file.write_all(toml::to_string(config)?.as_bytes())
            .with_context(|| format!("cannot write `{}`", file.path().display()))?;
        let own = std::process::id().to_string();
        let arguments = ["--config".into(), file.path().into(), "--die-with".into(), own.into()];
        let program = std::env::current_exe().context("cannot find this program")?;
        Ok(Self { program, arguments: arguments.into(), _config: file })
    }

    /// Runs one bench to its end. An error becomes its outcome.
    ///
    /// # Errors
    /// This process is asked to end.
    pub(crate) async fn run(&self, piece: &Piece, shutdown: Shutdown) -> Result<Outcome> {
        let output = tokio::select! {
            output = timeout(LIMIT, self.output(piece)) => output,
            interrupted = shutdown.asked() => return Err(interrupted.into()),
        };
        let Ok(output) = output else {
            let minutes = LIMIT.as_secs() / 60;
            return Ok(Outcome::NotMeasured(format!("it took longer than {minutes} minutes")));
        };
        Ok(match output {
            Ok(output) => outcome(piece, &output),
            Err(error) => Outcome::NotMeasured(format!("it cannot be started: {error}")),
        })
    }

    async fn output(&self, piece: &Piece) -> std::io::Result<Output> {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).args(&piece.arguments);
        // They are in the configuration already.
        for (variable, _) in std::env::vars_os() {
            if variable.to_str().is_some_and(Setting::is_variable) {
                command.env_remove(variable);
            }
        }
        command.stdin(Stdio::null()).kill_on_drop(true).output().await
    }
}

fn outcome(piece: &Piece, output: &Output) -> Outcome {
    let errors = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        let lines = || errors.lines().rev().filter(|line| !line.trim().is_empty());
        let said = lines().find_map(|line| line.strip_prefix(LAST_WORDS)).or(lines().next());
        let reason = said.map_or_else(|| format!("it ended with {}", output.status), str::to_owned);
        return Outcome::NotMeasured(reason);
    }
    match Measured::read(piece.kind, &String::from_utf8_lossy(&output.stdout)) {
        Ok(measured) => Outcome::Measured(measured),
        Err(error) => Outcome::NotMeasured(format!("its figures cannot be read: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::ExitStatus;

    use super::*;
    use crate::bench::report::Kind;

    fn of(status: i32, stdout: &str, stderr: &str) -> Outcome {
        let piece = Piece { kind: Kind::Storage, what: String::new(), arguments: Vec::new() };
        let (stdout, stderr) = (stdout.into(), stderr.into());
        outcome(&piece, &Output { status: ExitStatus::from_raw(status), stdout, stderr })
    }

    fn reason(outcome: Outcome) -> String {
        match outcome {
            Outcome::NotMeasured(reason) => reason,
            Outcome::Measured(measured) => panic!("{measured:?}"),
        }
    }

    #[test]
    fn a_bench_that_fails_leaves_what_it_said_last() {
        let errors = "a line of its log\nheadwater: there is no GPU\n\n";
        assert_eq!(reason(of(256, "", errors)), "there is no GPU");
        assert_eq!(reason(of(256, "", "Illegal instruction\n")), "Illegal instruction");
        assert!(reason(of(9, "", "")).contains("signal: 9"));
    }

    #[test]
    fn figures_that_are_none_are_a_reason_too() {
        let printed = r#"{"samples": 1, "bytes": 2, "rounds": 1, "rows": []}"#;
        assert!(matches!(of(0, printed, ""), Outcome::Measured(Measured::Storage(_))));
        let null = r#"{"samples": null, "bytes": 2, "rounds": 1, "rows": []}"#;
        assert!(reason(of(0, null, "")).contains("cannot be read: invalid type: null"));
    }
}
