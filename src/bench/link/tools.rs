//! The programs by which networks are measured, as yardsticks. Which ones and how, the links say.

use std::io::{self, Read};
use std::net::TcpListener;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use headwater_transport::links::{Moved, Reference, ReferenceRun, Workload};

/// Time for the serving half to listen.
const START_LIMIT: Duration = Duration::from_secs(20);
/// Maximum time for a program to measure. `ib_write_bw` measures for 5 s.
const RUN_LIMIT: Duration = Duration::from_secs(120);
/// Time between two looks whether a program has got on.
const LOOK: Duration = Duration::from_millis(5);
/// Clock ticks of a second in /proc: the same on all of Linux that this runs on.
const TICKS_PER_S: f64 = 100.0;

/// What a program measured.
#[derive(Clone, Copy, Debug)]
pub(super) struct Yard {
    pub(super) moved: Moved,
    /// Of both its halves, with their start.
    pub(super) cpu: Duration,
}

/// Runs both halves of a program for this work.
pub(super) fn measure(reference: &Reference, work: Workload<'_>) -> io::Result<Yard> {
    let tcp_port = free_port()?;
    let run = (reference.run)(&Workload { tcp_port, ..work }).map_err(io::Error::other)?;
    let (said, cpu) = both(reference, &run, tcp_port, RUN_LIMIT)?;
    let not_understood = || {
        let program = reference.program;
        io::Error::other(format!(
            "{program} prints no figures that are understood: {}",
            said.trim()
        ))
    };
    Ok(Yard { moved: (run.figures)(&said).ok_or_else(not_understood)?, cpu })
}

/// Starts both halves, and returns the output of the calling one.
fn both(
    reference: &Reference,
    run: &ReferenceRun,
    tcp_port: u16,
    run_limit: Duration,
) -> io::Result<(String, Duration)> {
    let before = children_cpu()?;
    let Reference { program: name, package, .. } = reference;
    let missing = |error: io::Error| {
        io::Error::other(format!("{name} does not start ({error}): apt-get install {package}"))
    };
    let half = || {
        let mut command = Command::new(name);
        command.args(&run.arguments);
        command
    };
    let (quiet, silent) = (Stdio::null(), Stdio::null());
    let mut server = Killed(half().stdout(quiet).stderr(silent).spawn().map_err(missing)?);
    let limit = Instant::now() + START_LIMIT;
    while !listens(tcp_port)? {
        let ended = server.0.try_wait()?;
        if ended.is_some() || Instant::now() > limit {
            return Err(io::Error::other(format!("{name} does not listen")));
        }
        thread::sleep(LOOK);
    }
    let mut calling = half();
    calling.args(&run.calling).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut caller = Killed(calling.spawn()?);
    let (said, errors) = (read(caller.0.stdout.take()), read(caller.0.stderr.take()));
    let limit = Instant::now() + run_limit;
    if !ended(name, &mut caller, limit)?.success() {
        return Err(io::Error::other(format!("{name} fails: {}", text(errors).trim())));
    }
    ended(name, &mut server, limit)?;
    Ok((text(said), children_cpu()?.saturating_sub(before)))
}

/// How a program has ended.
fn ended(name: &str, program: &mut Killed, limit: Instant) -> io::Result<ExitStatus> {
    loop {
        match program.0.try_wait()? {
            Some(status) => return Ok(status),
            None if Instant::now() > limit => {
                return Err(io::Error::other(format!("{name} does not end: it was killed")));
            }
            None => thread::sleep(LOOK),
        }
    }
}

/// Reads a program's pipe to its end, beside what waits for the program.
fn read(pipe: Option<impl Read + Send + 'static>) -> JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        pipe.map(|mut pipe| pipe.read_to_end(&mut bytes));
        bytes
    })
}

fn text(bytes: JoinHandle<Vec<u8>>) -> String {
    String::from_utf8_lossy(&bytes.join().unwrap_or_default()).into_owned()
}

/// A port that was free a moment ago: both programs need its number.
fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}

/// Looks it up in the kernel's table: a trial connection would be taken for the caller's.
fn listens(port: u16) -> io::Result<bool> {
    let own = format!(":{port:04X}");
    for table in ["/proc/net/tcp", "/proc/net/tcp6"] {
        let text = std::fs::read_to_string(table).unwrap_or_default();
        let mut rows = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        if rows.any(|row| row.len() > 3 && row[1].ends_with(&own) && row[3] == "0A") {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Processor time of children that have ended and were waited for.
fn children_cpu() -> io::Result<Duration> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    // The name before the last parenthesis may hold anything.
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
    let ticks = fields.split_whitespace().skip(13).take(2).filter_map(|t| t.parse::<f64>().ok());
    Ok(Duration::from_secs_f64(ticks.sum::<f64>() / TICKS_PER_S))
}

/// Killed when dropped, if it still runs.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listening_port_is_seen_without_calling_it() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let port = listener.local_addr().expect("an address").port();
        assert!(listens(port).expect("the kernel's table"));
    }

    #[test]
    fn a_program_that_does_not_end_is_killed() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let reference = Reference {
            name: "sleep",
            program: "sleep",
            package: "coreutils",
            counts_cpu: true,
            run: |_| Err(String::new()),
        };
        // Both halves, or only the serving one.
        for calling in [&["0"][..], &["--version"]] {
            let run = ReferenceRun {
                arguments: vec!["600".to_owned()],
                calling: calling.iter().map(|&word| word.to_owned()).collect(),
                about: None,
                figures: Box::new(|_| None),
            };
            let begun = Instant::now();
            let ended = both(&reference, &run, port, Duration::from_millis(100));
            let error = ended.expect_err("it goes on").to_string();
            assert_eq!(error, "sleep does not end: it was killed");
            assert!(begun.elapsed() < START_LIMIT);
        }
    }
}
