//! Local services as a loader has them.

use std::fmt;
use std::io::{ErrorKind, Write as _};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use headwater_augment::BackendChoice;
use headwater_config::{Config, FROM_DEFAULT, Loaded};
use headwater_core::Digest;

use crate::folder::RuntimeFolder;
use crate::key::key;
use crate::lines::Lines;
use crate::threads::InThreads;
use crate::words::{self, Answer, Hello, Ready};
use crate::{Cores, LocalError, job, program, threads_for};

/// How long is waited between two looks whether anybody still wants the services.
pub(crate) const LOOK: Duration = Duration::from_millis(100);
/// Times that services may end just as they are come upon.
const TRIES: usize = 8;

/// What a loader wants served.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// Datasets with their shards, and what is configured of both tiers. Addresses, `[security]` and
    /// metrics do not count.
    pub config: Config,
    /// How many ranks of the job are on this host.
    pub local_ranks: u32,
}

/// Who waits for services.
#[derive(Clone, Copy)]
pub struct Watch<'a> {
    /// Hears how many shards are indexed, of how many.
    pub tell: &'a dyn Fn(usize, usize),
    /// Set when they are not wanted any more.
    pub cancelled: &'a AtomicBool,
}

/// A storage node and a worker for this process. Dropping this leaves them; they end with the last
/// who has them. In a process that was forked it does nothing.
#[derive(Debug)]
pub struct Services {
    ready: Ready,
    from: From,
    made_in: u32,
}

#[derive(Debug)]
enum From {
    Process(Mutex<Connection>),
    Threads(Arc<InThreads>),
}

/// A connection to the process of the services.
#[derive(Debug)]
struct Connection {
    stream: UnixStream,
    lines: Lines,
}

// === impl Watch ===

impl Watch<'_> {
    /// Whether the services are still wanted.
    pub(crate) fn check(&self) -> Result<(), LocalError> {
        if self.cancelled.load(Ordering::Relaxed) { Err(LocalError::Cancelled) } else { Ok(()) }
    }
}

impl fmt::Debug for Watch<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").field("cancelled", self.cancelled).finish_non_exhaustive()
    }
}

// === impl Services ===

impl Services {
    /// Those of this job on this host, in a process that its ranks share. The first to come starts the
    /// program `headwater`, which is looked for in the `scripts` folders.
    ///
    /// # Errors
    /// What the services say when they cannot start; no program, or no folder for their socket.
    pub fn shared(
        wanted: &Wanted,
        scripts: &[PathBuf],
        watch: &Watch<'_>,
    ) -> Result<Self, LocalError> {
        let config = wanted.settled()?;
        let folder = RuntimeFolder::open()?;
        let socket = folder.socket(wanted.key(&config));
        let hello = wanted.hello(&config)?;
        let found = || program::find(scripts, |name| std::env::var_os(name));
        for _ in 0..TRIES {
            watch.check()?;
            if let Some(services) = Self::join(&socket, &hello, watch)? {
                return Ok(services);
            }
            let lock = folder.lock()?;
            let there = connect(&socket)?;
            if there.is_none() {
                folder.sweep(&lock);
                let _ = std::fs::remove_file(&socket);
                program::start(&found()?, &config, &socket, watch)?;
            }
            // Connected under the lock, so that they do not end for want of loaders meanwhile.
            let stream = there.map_or_else(|| connect(&socket), |stream| Ok(Some(stream)))?;
            drop(lock);
            if let Some(stream) = stream
                && let Some(services) = Connection::new(stream)?.served(&hello, watch)?
            {
                return Ok(services);
            }
        }
        Err(LocalError::Lost)
    }

    /// Those of threads of this process, which its loaders share.
    ///
    /// # Errors
    /// What the services say when they cannot start; no folder for their token.
    pub fn embedded(wanted: &Wanted, watch: &Watch<'_>) -> Result<Self, LocalError> {
        let config = wanted.settled()?;
        let ranks = wanted.local_ranks.max(1) as usize;
        let threads = match config.augment.threads {
            // Each rank has a worker of its own: they share the cores.
            0 => (wanted.hello(&config)?.threads / ranks).max(1),
            threads => threads,
        };
        let threads = InThreads::get(wanted.key(&config), &config, threads, watch)?;
        Ok(Self::new(threads.ready().clone(), From::Threads(threads)))
    }

    fn new(ready: Ready, from: From) -> Self {
        Self { ready, from, made_in: process::id() }
    }

    fn join(socket: &Path, hello: &Hello, watch: &Watch<'_>) -> Result<Option<Self>, LocalError> {
        match connect(socket)? {
            Some(stream) => Connection::new(stream)?.served(hello, watch),
            None => Ok(None),
        }
    }

    /// Address of the storage node.
    #[must_use]
    pub fn storage(&self) -> &str {
        &self.ready.storage
    }

    /// Names of the fields that the datasets' samples have.
    #[must_use]
    pub fn fields(&self) -> &[String] {
        &self.ready.fields
    }

    /// Address of the worker.
    #[must_use]
    pub fn worker(&self) -> &str {
        &self.ready.worker
    }

    /// File of the token that both want to be shown.
    #[must_use]
    pub fn token_file(&self) -> &Path {
        &self.ready.token_file
    }

    /// Whether they still run. Does not wait.
    ///
    /// # Errors
    /// Why they have ended.
    pub fn check(&self) -> Result<(), LocalError> {
        match &self.from {
            From::Process(connection) => {
                connection.lock().unwrap_or_else(PoisonError::into_inner).check()
            }
            From::Threads(threads) => threads.check(),
        }
    }
}

impl Drop for Services {
    fn drop(&mut self) {
        if process::id() != self.made_in {
            return;
        }
        if let From::Process(connection) = &mut self.from {
            let connection = connection.get_mut().unwrap_or_else(PoisonError::into_inner);
            // Closing would do, but for a process that was forked meanwhile and has the descriptor too.
            let _ = connection.stream.shutdown(Shutdown::Both);
        }
    }
}

// === impl Wanted ===

impl Wanted {
    /// What a configuration says, for so many ranks on this host. Unless it names a back end, that is the
    /// processor: GPUs of a host with ranks are busy.
    #[must_use]
    pub fn new(loaded: &Loaded, local_ranks: u32) -> Self {
        let mut config = loaded.config.clone();
        if loaded.origin("augment.backend") == FROM_DEFAULT {
            config.augment.backend = BackendChoice::Cpu;
        }
        Self { config, local_ranks }
    }

    /// The configuration as services of one host have it.
    fn settled(&self) -> Result<Config, LocalError> {
        let Config { dataset, storage, augment, mut telemetry, .. } = self.config.clone();
        // Each rank shows its own.
        telemetry.metrics_listen.clear();
        let config = Config { dataset, storage, augment, telemetry, ..Config::default() };
        config.storage_tier()?;
        config.augment_tier()?;
        Ok(config)
    }

    fn key(&self, config: &Config) -> Digest {
        key(config, &job::identity(|name| std::env::var(name).ok()))
    }

    fn hello(&self, config: &Config) -> Result<Hello, LocalError> {
        let cores = Cores::of_this_thread().map_err(LocalError::Threads)?;
        let threads = match config.augment.threads {
            0 => threads_for(&cores, self.local_ranks),
            threads => threads,
        };
        Ok(Hello { cores, threads })
    }
}

// === impl Connection ===

/// A connection to services, if there are any at this socket.
fn connect(socket: &Path) -> Result<Option<UnixStream>, LocalError> {
    match UnixStream::connect(socket) {
        Ok(stream) => Ok(Some(stream)),
        Err(error)
            if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused) =>
        {
            Ok(None)
        }
        Err(error) => {
            Err(LocalError::Folder { path: socket.to_owned(), reason: error.to_string() })
        }
    }
}

impl Connection {
    fn new(stream: UnixStream) -> Result<Self, LocalError> {
        stream.set_read_timeout(Some(LOOK)).map_err(|_| LocalError::Lost)?;
        Ok(Self { stream, lines: Lines::default() })
    }

    /// Says hello and waits for the services; `None` where they end before they say a word.
    fn served(mut self, hello: &Hello, watch: &Watch<'_>) -> Result<Option<Services>, LocalError> {
        let mut is_welcome = false;
        loop {
            match self.next(watch) {
                Ok(Answer::Welcome) => {
                    is_welcome = true;
                    // What is lost is noticed by the next read.
                    let _ = (&self.stream).write_all(&words::line(hello));
                }
                Ok(Answer::Indexing { done, of }) => (watch.tell)(done, of),
                Ok(Answer::Ready(ready)) => {
                    self.stream.set_nonblocking(true).map_err(|_| LocalError::Lost)?;
                    return Ok(Some(Services::new(ready, From::Process(Mutex::new(self)))));
                }
                Ok(Answer::Failed { kind, text }) => return Err(LocalError::Told { kind, text }),
                Err(LocalError::Lost) if !is_welcome => return Ok(None),
                Err(error) => return Err(error),
            }
        }
    }

    /// The next answer, as soon as there is one.
    fn next(&mut self, watch: &Watch<'_>) -> Result<Answer, LocalError> {
        loop {
            if let Some(line) = self.lines.take() {
                return words::read(&line).ok_or(LocalError::Lost);
            }
            match self.lines.read_from(&self.stream) {
                Ok(0) => return Err(LocalError::Lost),
                Ok(_) => {}
                Err(error) => match error.kind() {
                    ErrorKind::WouldBlock | ErrorKind::Interrupted => watch.check()?,
                    _ => return Err(LocalError::Lost),
                },
            }
        }
    }

    /// Whether the services still run.
    fn check(&mut self) -> Result<(), LocalError> {
        loop {
            while let Some(line) = self.lines.take() {
                if let Some(Answer::Failed { kind, text }) = words::read(&line) {
                    return Err(LocalError::Told { kind, text });
                }
            }
            match self.lines.read_from(&self.stream) {
                Ok(0) => return Err(LocalError::Lost),
                Ok(_) => {}
                Err(error) => match error.kind() {
                    ErrorKind::WouldBlock => return Ok(()),
                    ErrorKind::Interrupted => {}
                    _ => return Err(LocalError::Lost),
                },
            }
        }
    }
}
