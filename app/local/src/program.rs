//! Starting the program that runs local services.

use std::ffi::OsString;
use std::io::{self, BufRead as _, BufReader, Read, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Instant;

use headwater_config::{Config, Setting};

use crate::LocalError;
use crate::watch::{LOOK, Watch};

/// Names the program, in place of a search.
const VARIABLE: &str = "HEADWATER_PROGRAM";
const NAME: &str = "headwater";
/// What it prints when loaders may connect.
const LISTENING: &str = "listening on ";
/// Start of the line in which it says why it ends.
const LAST_WORDS: &str = "headwater: ";

/// The program as local services of this process find it.
///
/// # Errors
/// There is none.
pub fn program(scripts: &[PathBuf]) -> Result<PathBuf, LocalError> {
    find(scripts, |name| std::env::var_os(name))
}

/// The program: the one that the environment names, else in the `scripts` folders, in their order, else
/// on the path. `variable` looks a variable of the environment up.
///
/// # Errors
/// It is in none of these places.
pub(crate) fn find(
    scripts: &[PathBuf],
    variable: impl Fn(&str) -> Option<OsString>,
) -> Result<PathBuf, LocalError> {
    if let Some(named) = variable(VARIABLE).filter(|named| !named.is_empty()) {
        return Ok(named.into());
    }
    let path = variable("PATH").unwrap_or_default();
    let on_path = std::env::split_paths(&path).filter(|folder| folder.is_absolute());
    let found =
        scripts.iter().cloned().chain(on_path).map(|folder| folder.join(NAME)).find(|file| {
            rustix::fs::access(file, rustix::fs::Access::EXEC_OK).is_ok() && file.is_file()
        });
    found.ok_or_else(|| {
        let folders = scripts.iter().map(|folder| format!("`{}`", folder.display()));
        LocalError::NoProgram { looked_in: folders.chain(["PATH".to_owned()]).collect() }
    })
}

/// What the program is to do.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Verb {
    /// To serve datasets and workers.
    Local,
    /// To make batches for all trials of this host.
    Host,
}

/// Starts services that listen on `socket`, and waits until they do. They belong to nobody: signals of
/// the terminal do not reach them, and they end by themselves. Their log lines go to standard error. Whoever
/// calls this holds their lock: it does not wait without a limit.
pub(crate) fn start(
    program: &Path,
    verb: Verb,
    config: &Config,
    socket: &Path,
    watch: &Watch<'_>,
) -> Result<(), LocalError> {
    let fault = |reason: String| LocalError::Start { program: program.to_owned(), reason };
    let text = toml::to_string(config).map_err(|error| fault(error.to_string()))?;
    let mut command = Command::new(program);
    let own = std::process::id().to_string();
    let verb = match verb {
        Verb::Local => "local",
        Verb::Host => "host",
    };
    command.args(["--config", "-", verb, "--starter", &own, "--socket"]).arg(socket);
    for (variable, _) in std::env::vars_os() {
        if variable.to_str().is_some_and(Setting::is_variable) {
            // They are in the configuration already.
            command.env_remove(variable);
        }
    }
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    let mut child = command.spawn().map_err(|error| fault(error.to_string()))?;
    let pipes = child.stdin.take().zip(child.stdout.take()).zip(child.stderr.take());
    let Some(((input, output), errors)) = pipes else { return Err(fault("no pipes".into())) };
    let said = first_line(output).map_err(LocalError::Threads)?;
    let reason = reap(child, errors).map_err(LocalError::Threads)?;
    told(input, text).map_err(LocalError::Threads)?;
    let begun = Instant::now();
    loop {
        match said.recv_timeout(LOOK) {
            Ok(line) if line.starts_with(LISTENING) => return Ok(()),
            Ok(line) if !line.is_empty() => return Err(fault(format!("it says `{line}`"))),
            Ok(_) | Err(RecvTimeoutError::Disconnected) => {
                return Err(fault(reason.recv().unwrap_or_default()));
            }
            Err(RecvTimeoutError::Timeout) => watch.check_silence(socket, begun)?,
        }
    }
}

/// Tells a process its configuration, in a thread: one that is suspended takes no more than a pipe holds.
fn told(mut input: ChildStdin, text: String) -> io::Result<()> {
    thread::Builder::new().name("hw-local-in".into()).spawn(move || {
        // One that ended already has said why.
        let _ = input.write_all(text.as_bytes());
    })?;
    Ok(())
}

/// The first line of a stream, read by a thread.
fn first_line(stream: impl Read + Send + 'static) -> io::Result<Receiver<String>> {
    let (send, receive) = channel();
    thread::Builder::new().name("hw-local-out".into()).spawn(move || {
        let mut line = String::new();
        let _ = BufReader::new(stream).read_line(&mut line);
        let _ = send.send(line.trim_end().to_owned());
    })?;
    Ok(receive)
}

/// Passes the process's log lines on and waits for its end, in a thread; gives the reason of its end.
fn reap(mut child: Child, errors: ChildStderr) -> io::Result<Receiver<String>> {
    let (send, receive) = channel();
    thread::Builder::new().name("hw-local-log".into()).spawn(move || {
        let (mut last_words, mut first) = (None, None);
        for line in BufReader::new(errors).lines().map_while(Result::ok) {
            match line.strip_prefix(LAST_WORDS) {
                Some(words) => last_words = Some(words.to_owned()),
                None => {
                    // Standard error may be closed; there is nobody left to tell.
                    let _ = writeln!(io::stderr(), "{line}");
                    first.get_or_insert(line);
                }
            }
        }
        let end = child.wait().map_or_else(|error| error.to_string(), |end| end.to_string());
        let _ = send.send(last_words.or(first).unwrap_or(end));
    })?;
    Ok(receive)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    use rustix::process::{Pid, Signal, kill_process};

    use super::*;

    #[test]
    fn a_process_that_is_suspended_before_it_reads_is_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("program");
        fs::write(&program, "#!/bin/sh\necho $$ > \"$0.pid\"\nkill -STOP $$\n").unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o700)).unwrap();
        let socket = folder.path().join("socket");
        let (send, ended) = channel();
        let starts = program.clone();
        thread::spawn(move || {
            let mut config = Config::default();
            // More than a pipe holds.
            config.receiver.job = "long".repeat(50_000);
            let cancelled = AtomicBool::new(false);
            let watch = Watch { tell: &|_, _| (), cancelled: &cancelled };
            let started = thread::scope(|scope| {
                scope.spawn(|| {
                    thread::sleep(Duration::from_millis(500));
                    cancelled.store(true, Ordering::Relaxed);
                });
                start(&starts, Verb::Local, &config, &socket, &watch)
            });
            send.send(started).unwrap();
        });
        let ended = ended.recv_timeout(Duration::from_secs(20));
        let pid = fs::read_to_string(program.with_extension("pid")).unwrap();
        kill_process(Pid::from_raw(pid.trim().parse().unwrap()).unwrap(), Signal::KILL).unwrap();
        assert!(matches!(ended, Ok(Err(LocalError::Cancelled))), "{ended:?}");
    }
}
