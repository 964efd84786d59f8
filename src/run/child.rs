//! A tier as a child process: started with its configuration on standard input, known by the
//! addresses it prints, ended whatever happens.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::SocketAddr;
use std::process::{Child as Process, ChildStderr, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use headwater_config::{Config, Setting};
use rustix::process::{Pid, Signal, kill_process};

use crate::screen::Screen;
use crate::shutdown::Shutdown;

/// How long a child may take to end when it is asked to.
const END_LIMIT: Duration = Duration::from_secs(5);
/// How often it is looked at.
const LOOK: Duration = Duration::from_millis(10);
/// Start of the line that says why a process ends.
pub(crate) const LAST_WORDS: &str = "headwater: ";

/// A running child. Dropping it ends it and waits for its end.
pub(crate) struct Child {
    name: String,
    process: Process,
    lines: Receiver<String>,
    /// Whether it was already asked to end. A second signal would stop it at once.
    is_asked: bool,
    /// Ends with the child's standard error; gives the reason it stated for its end.
    listener: Option<JoinHandle<Option<String>>>,
}

// === impl Child ===

impl Child {
    /// Starts this executable with a verb. The child dies with the calling thread, so call it on a
    /// thread that lives as long as the child.
    pub(crate) fn start(name: &str, verb: &str, config: &Config, screen: &Screen) -> Result<Self> {
        let what = || format!("cannot start {name}");
        let program = std::env::current_exe().with_context(what)?;
        let text = toml::to_string(config).with_context(what)?;
        let mut command = Command::new(program);
        let own = std::process::id().to_string();
        command.args(["--config", "-", "--die-with", &own, verb]);
        // They are in the configuration already.
        for (variable, _) in std::env::vars_os() {
            if variable.to_str().is_some_and(Setting::is_variable) {
                command.env_remove(variable);
            }
        }
        let pipes = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = pipes.spawn().with_context(what)?;
        let (input, output, errors) =
            (process.stdin.take(), process.stdout.take(), process.stderr.take());
        let (send, lines) = channel();
        let mut child =
            Self { name: name.to_owned(), process, lines, is_asked: false, listener: None };
        let pipes = input.zip(output).zip(errors).with_context(what)?;
        child.connect(pipes, text, send, screen)?;
        Ok(child)
    }

    fn connect(
        &mut self,
        pipes: ((ChildStdin, ChildStdout), ChildStderr),
        config: String,
        send: Sender<String>,
        screen: &Screen,
    ) -> Result<()> {
        let ((mut input, output), errors) = pipes;
        thread::Builder::new().name(format!("{}-out", self.name)).spawn(move || {
            // The pipe is read to its end in any case, so that the child never blocks on it.
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                let _ = send.send(line);
            }
        })?;
        let (name, screen) = (self.name.clone(), screen.clone());
        self.listener =
            Some(thread::Builder::new().name(format!("{name}-err")).spawn(move || {
                let mut reason = None;
                for line in BufReader::new(errors).lines().map_while(Result::ok) {
                    match line.strip_prefix(LAST_WORDS) {
                        Some(words) => reason = Some(words.to_owned()),
                        None => screen.line(&format!("{name}: {line}")),
                    }
                }
                reason
            })?);
        // One that is suspended takes no more than a pipe holds.
        thread::Builder::new().name(format!("{}-in", self.name)).spawn(move || {
            // A child that ended already has said why on its standard error.
            let _ = input.write_all(config.as_bytes());
        })?;
        Ok(())
    }

    /// Name of the tier and its number.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Its number among the system's processes.
    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    /// Waits for a line `what ADDRESS`.
    pub(crate) fn address(
        &mut self,
        what: &str,
        limit: Duration,
        shutdown: &Shutdown,
    ) -> Result<SocketAddr> {
        let started = Instant::now();
        let line = loop {
            match self.lines.recv_timeout(LOOK) {
                Ok(line) => break line,
                Err(RecvTimeoutError::Disconnected) => return Err(self.end()),
                Err(RecvTimeoutError::Timeout) => shutdown.check()?,
            }
            if started.elapsed() > limit {
                bail!("{} does not serve within {} s", self.name, limit.as_secs());
            }
        };
        let address = line.strip_prefix(what).and_then(|text| text.trim().parse().ok());
        address.with_context(|| format!("{} says `{line}` instead of `{what} ..`", self.name))
    }

    /// Whether it still runs.
    pub(crate) fn runs(&mut self) -> bool {
        matches!(self.process.try_wait(), Ok(None))
    }

    /// Why it ended; waits for its end.
    pub(crate) fn end(&mut self) -> anyhow::Error {
        let status = self.process.wait();
        match (self.listener.take().and_then(|listener| listener.join().ok().flatten()), status) {
            (Some(reason), _) => anyhow!("{reason}").context(self.name.clone()),
            (None, Ok(status)) => anyhow!("{} ended: {status}", self.name),
            (None, Err(error)) => anyhow!(error).context(self.name.clone()),
        }
    }

    /// Asks it to end, once.
    pub(crate) fn ask(&mut self) {
        if !std::mem::replace(&mut self.is_asked, true) && self.runs() {
            self.signal(Signal::TERM);
        }
    }

    fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.process.id()).ok().and_then(Pid::from_raw);
        if let Some(pid) = pid {
            // It may have ended meanwhile; it is not reaped, so the number is still its own.
            let _ = kill_process(pid, signal);
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.ask();
        let asked = Instant::now();
        while self.runs() && asked.elapsed() < END_LIMIT {
            thread::sleep(LOOK);
        }
        if self.runs() {
            tracing::warn!(child = self.name, "does not end: killed");
            self.signal(Signal::KILL);
        }
        let _ = self.process.wait();
    }
}
