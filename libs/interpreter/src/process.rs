//! One Python process, from its start to its end.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::fs::{MemfdFlags, memfd_create};

/// The program that it runs.
const HOST: &str = include_str!("host.py");
/// Libraries that would start a thread per core in each of the processes.
const THREADS: [&str; 4] =
    ["OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS"];
/// Maximum bytes of an answer: the names of fields, or an error.
const ANSWER_BYTES_MAX: u64 = 1 << 20;

/// A process that waits for requests. Killed when it is dropped.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    socket: BufReader<UnixStream>,
    memory: File,
    memory_bytes: u64,
    log: Option<JoinHandle<()>>,
}

// === impl Process ===

impl Process {
    pub(crate) fn start(python: &Path, folders: &[PathBuf], limit: Duration) -> io::Result<Self> {
        let memory = File::from(memfd_create("headwater-python", MemfdFlags::CLOEXEC)?);
        let (ours, theirs) = UnixStream::pair()?;
        ours.set_read_timeout(Some(limit))?;
        ours.set_write_timeout(Some(limit))?;
        let mut command = Command::new(python);
        command.args(["-u", "-c", &compiled()]).args(folders).env("PYTHONHASHSEED", "0");
        for name in THREADS {
            if std::env::var_os(name).is_none() {
                command.env(name, "1");
            }
        }
        command.stdin(Stdio::from(memory.try_clone()?)).stdout(Stdio::from(OwnedFd::from(theirs)));
        let mut child = command.stderr(Stdio::piped()).spawn()?;
        let log = child.stderr.take().map(|errors| {
            thread::Builder::new().name("python-log".into()).spawn(move || pass_on(errors))
        });
        let log = log.transpose()?;
        Ok(Self { child, socket: BufReader::new(ours), memory, memory_bytes: 0, log })
    }

    /// Puts bytes into the memory.
    pub(crate) fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.memory_bytes < bytes.len() as u64 {
            self.memory.set_len(bytes.len() as u64)?;
            self.memory_bytes = bytes.len() as u64;
        }
        self.memory.write_all_at(bytes, 0)
    }

    /// Reads bytes of the memory.
    pub(crate) fn get(&self, bytes: &mut [u8]) -> io::Result<()> {
        self.memory.read_exact_at(bytes, 0)
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

    pub(crate) fn kill(self) {
        drop(self);
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
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

/// What functions print is logged.
fn pass_on(errors: impl Read) {
    for line in BufReader::new(errors).split(b'\n').map_while(Result::ok) {
        tracing::info!(python = %String::from_utf8_lossy(&line).trim_end());
    }
}
