//! One Python process, from its start to its end.

use std::fs::File;
use std::io::{self, BufRead, BufReader, IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::cmsg_space;
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, Signal, WaitOptions, kill_process_group, waitpid};

use crate::CallError;
use crate::settings::Settings;

/// The program that it runs.
const HOST: &str = include_str!("host.py");
/// Libraries that would start a thread per core in each of the processes.
const THREADS: [&str; 4] =
    ["OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS"];
/// Maximum bytes of an answer: the names of fields, or an error.
const ANSWER_BYTES_MAX: u64 = 1 << 20;
/// Maximum bytes that are kept of a line that functions print.
const LINE_BYTES_MAX: u64 = 4096;
/// Killed processes that have not ended, beyond which none is started.
const KILLED_MAX: usize = 16;
/// How long is waited for some of them to end. A process of much memory takes a moment.
const ENDING_LIMIT: Duration = Duration::from_secs(2);
const ENDING_PAUSE: Duration = Duration::from_millis(5);
/// How often is looked whether one of them has ended, if nobody waits for that.
const REAP_PAUSE: Duration = Duration::from_millis(100);

static KILLED: Killed = Killed(Mutex::new(Vec::new()));

/// Processes that were killed and are not waited for yet. In a file system that hangs, a process ends only when that
/// answers.
#[derive(Debug)]
struct Killed(Mutex<Vec<Pid>>);

/// A process that waits for requests. It is killed with its children when this is dropped, and by the system when the
/// process that holds this is gone.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    /// By its own count, of its first answer; that of `child` may be a program that started it.
    pid: Option<u64>,
    socket: BufReader<UnixStream>,
    memory: File,
    memory_bytes: u64,
    log: Option<JoinHandle<()>>,
    /// Nothing is written to it: its end is what the process hears. A signal at the parent's death would follow the
    /// thread that started the process.
    _lifeline: OwnedFd,
}

// === impl Killed ===

impl Killed {
    /// The first one starts a thread, which waits for all of them: a process that nobody waits for keeps its number.
    fn add(&'static self, pid: Pid) {
        let is_first = {
            let mut killed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            killed.retain(is_there);
            killed.push(pid);
            killed.len() == 1
        };
        let reap = move || {
            while self.count() > 0 {
                thread::sleep(REAP_PAUSE);
            }
        };
        if is_first {
            // Without a thread the next one that is started waits for them.
            let _ = thread::Builder::new().name("python-reap".into()).spawn(reap);
        }
    }

    /// How many there are.
    fn count(&self) -> usize {
        let mut killed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        killed.retain(is_there);
        killed.len()
    }

    /// Waits until few enough are left to start another one.
    ///
    /// # Errors
    /// There are too many after `limit`.
    fn settle(&self, limit: Duration) -> Result<(), CallError> {
        let begun = Instant::now();
        loop {
            let processes = self.count();
            if processes <= KILLED_MAX {
                return Ok(());
            }
            if begun.elapsed() >= limit {
                return Err(CallError::Unended { processes });
            }
            thread::sleep(ENDING_PAUSE);
        }
    }
}

/// Whether a child has not ended; waits for one that has.
fn is_there(pid: &Pid) -> bool {
    matches!(waitpid(Some(*pid), WaitOptions::NOHANG), Ok(None) | Err(Errno::INTR))
}

// === impl Process ===

impl Process {
    pub(crate) fn start(settings: &Settings) -> Result<Self, CallError> {
        KILLED.settle(ENDING_LIMIT)?;
        Self::start_now(settings).map_err(|source| CallError::Start {
            python: settings.python.clone(),
            key: settings.keys.python,
            source,
        })
    }

    fn start_now(settings: &Settings) -> io::Result<Self> {
        let memory = File::from(memfd_create("headwater-python", MemfdFlags::CLOEXEC)?);
        let (ours, theirs) = UnixStream::pair()?;
        let (theirs_end, lifeline) = pipe_with(PipeFlags::CLOEXEC)?;
        ours.set_read_timeout(Some(settings.timeout))?;
        ours.set_write_timeout(Some(settings.timeout))?;
        let told = serde_json::json!({
            "bad_sample_errors": settings.bad_sample_errors, "modules": settings.trusted.modules(),
        });
        let mut command = Command::new(&settings.python);
        command.args(["-u", "-c", &compiled(), &told.to_string()]).args(&settings.folders);
        command.env("PYTHONHASHSEED", "0").process_group(0);
        for name in THREADS {
            if std::env::var_os(name).is_none() {
                command.env(name, "1");
            }
        }
        command.stdin(Stdio::from(theirs_end)).stdout(Stdio::from(OwnedFd::from(theirs)));
        let mut child = command.stderr(Stdio::piped()).spawn()?;
        let errors = child.stderr.take();
        // From here on an error ends it and waits for it.
        let mut process = Self {
            child,
            pid: None,
            socket: BufReader::new(ours),
            memory,
            memory_bytes: 0,
            log: None,
            _lifeline: lifeline,
        };
        let log = errors.map(|errors| {
            thread::Builder::new().name("python-log".into()).spawn(move || pass_on(errors, logged))
        });
        process.log = log.transpose()?;
        hand_over(process.socket.get_ref(), &process.memory)?;
        Ok(process)
    }

    /// Whether an answer is this process's own, and not that of a child which a function forked.
    pub(crate) fn is(&mut self, pid: u64) -> bool {
        *self.pid.get_or_insert(pid) == pid
    }

    /// Puts bytes into the memory.
    pub(crate) fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.memory_bytes < bytes.len() as u64 {
            self.memory.set_len(bytes.len() as u64)?;
            self.memory_bytes = bytes.len() as u64;
        }
        self.memory.write_all_at(bytes, 0)
    }

    /// Reads bytes of the memory, from an offset on.
    pub(crate) fn get(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        self.memory.read_exact_at(bytes, offset)
    }

    /// Bytes of the memory, which the process may have let grow.
    pub(crate) fn memory_bytes(&self) -> io::Result<u64> {
        Ok(self.memory.metadata()?.len())
    }

    /// A request and its answer, a line each; an empty line where the process has ended.
    pub(crate) fn ask(&mut self, request: &[u8]) -> io::Result<Vec<u8>> {
        self.socket.get_mut().write_all(request)?;
        let mut answer = Vec::new();
        (&mut self.socket).take(ANSWER_BYTES_MAX).read_until(b'\n', &mut answer)?;
        Ok(answer)
    }

    /// Ends it, and says how it ended: by itself, if it had already.
    pub(crate) fn end(mut self) -> String {
        // One that closed its socket is about to end: its own status says more than ours.
        let own = (0..50).find_map(|_| {
            let ended = self.child.try_wait().ok().flatten();
            if ended.is_none() {
                thread::sleep(Duration::from_millis(2));
            }
            ended
        });
        let status = own.map_or_else(|| "it was killed".to_owned(), |status| status.to_string());
        drop(self);
        status
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The group has this number for sure only until its first process is waited for. Children that are left after
        // that end with the lifeline.
        if let Ok(None) = self.child.try_wait() {
            let pid = Pid::from_child(&self.child);
            let _ = kill_process_group(pid, Signal::KILL);
            KILLED.add(pid);
        }
        if let Some(log) = self.log.take()
            && log.is_finished()
        {
            let _ = log.join();
        }
    }
}

/// The program under a name that errors show no lines of.
fn compiled() -> String {
    let source = serde_json::to_string(HOST).unwrap_or_default();
    format!("exec(compile({source}, '<headwater>', 'exec'))")
}

/// Sends the memory's descriptor, with a byte.
fn hand_over(socket: &UnixStream, memory: &File) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let memory = [memory.as_fd()];
    control.push(SendAncillaryMessage::ScmRights(&memory));
    sendmsg(socket, &[IoSlice::new(b"m")], &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}

fn logged(line: &str) {
    tracing::info!(python = %line);
}

/// What functions print, by lines. Of a longer line the rest is left out.
fn pass_on(errors: impl Read, mut log: impl FnMut(&str)) {
    let (mut errors, mut line) = (BufReader::new(errors), Vec::new());
    while errors.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line).is_ok_and(|n| n > 0) {
        let text = String::from_utf8_lossy(&line);
        let left_out = if line.ends_with(b"\n") { Ok(0) } else { errors.skip_until(b'\n') };
        match left_out {
            Ok(0) => log(text.trim_end()),
            _ => log(&format!("{text}... (the line is longer than {LINE_BYTES_MAX} bytes)")),
        }
        line.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Those of the test are not killed at first: no process can be made here that outlives that.
    #[test]
    fn nothing_is_started_while_many_killed_processes_have_not_ended() {
        let killed: &Killed = Box::leak(Box::new(Killed(Mutex::default())));
        let start = || Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let mut children: Vec<Child> = (0..=KILLED_MAX).map(|_| start()).collect();
        let (last, others) = children.split_last_mut().unwrap();
        others.iter().for_each(|child| killed.add(Pid::from_child(child)));
        killed.settle(Duration::ZERO).unwrap();
        killed.add(Pid::from_child(last));
        let said = killed.settle(Duration::ZERO).unwrap_err().to_string();
        assert!(said.starts_with("17 Python processes were killed and have not ended"), "{said}");
        last.kill().unwrap();
        killed.settle(Duration::from_secs(60)).unwrap();
        assert_eq!(killed.count(), KILLED_MAX);
        others.iter_mut().for_each(|child| child.kill().unwrap());
        while killed.count() > 0 {
            thread::sleep(ENDING_PAUSE);
        }
    }

    #[test]
    #[expect(clippy::zombie_processes, reason = "`killed` waits for them")]
    fn a_killed_process_leaves_no_zombie() {
        let killed: &Killed = Box::leak(Box::new(Killed(Mutex::default())));
        for _ in 0..2 {
            let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
            killed.add(Pid::from_child(&child));
            child.kill().unwrap();
            let (process, begun) = (format!("/proc/{}", child.id()), Instant::now());
            while std::path::Path::new(&process).exists() {
                assert!(begun.elapsed() < Duration::from_secs(60), "nobody waits for it");
                thread::sleep(ENDING_PAUSE);
            }
        }
    }

    /// Gives `bytes` bytes without a newline, and counts them.
    fn printed(bytes: u64) -> impl Read {
        io::repeat(b'x').take(bytes).chain(&b"\nshort\nlast"[..])
    }

    #[test]
    fn of_a_line_without_an_end_a_bounded_part_is_kept() {
        let mut lines = Vec::new();
        pass_on(printed(1 << 26), |line| lines.push(line.to_owned()));
        assert_eq!(lines[1..], ["short", "last"]);
        assert!(lines[0].len() < 5000 && lines[0].contains("longer than 4096 bytes"));
        lines.clear();
        pass_on(printed(LINE_BYTES_MAX - 1), |line| lines.push(line.to_owned()));
        assert_eq!(lines[0].len() as u64, LINE_BYTES_MAX - 1);
    }
}
