//! Local services as a loader has them.

use std::path::{Path, PathBuf};
use std::process;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use headwater_receiver::ReceiverConfig;

use crate::connection::Connection;
use crate::folder::RuntimeFolder;
use crate::messages::{Ask, Hello, Ready};
use crate::program::{self, Verb};
use crate::threads::InThreads;
use crate::watch::Watch;
use crate::{LocalError, LocalErrorKind, Wanted};

/// Times that services may end just as they are come upon.
const TRIES: usize = 8;

/// A storage node and a worker for this process. Dropping this leaves them; they end with the last
/// who has them. In a process that was forked it does nothing.
#[derive(Debug)]
pub struct Services {
    ready: Ready,
    run: Run,
    /// Why they have ended, once that is known.
    ended: Mutex<Option<(LocalErrorKind, String)>>,
    made_in: u32,
}

/// Where services run.
#[derive(Debug)]
enum Run {
    Process(Mutex<Connection>),
    Threads(Arc<InThreads>),
}

/// How long is waited for whoever else starts the same services: less than for a worker.
pub(crate) fn lock_limit(receiver: &ReceiverConfig) -> Duration {
    Duration::from_millis(u64::from(receiver.leases.worker_wait_ms) / 2)
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
        let key = wanted.key(&config);
        let socket = folder.socket(key);
        let hello = wanted.hello(&config);
        let found = || program::program(scripts);
        for _ in 0..TRIES {
            watch.check()?;
            let there = Connection::open(&socket)?;
            if let Some(services) = Self::join(there, &socket, &hello, watch)? {
                return Ok(services);
            }
            let limit = lock_limit(&wanted.config.receiver);
            let lock = folder.lock(&key.to_string(), limit, || watch.check())?;
            let mut there = Connection::open(&socket)?;
            if there.is_none() {
                folder.sweep();
                let _ = std::fs::remove_file(&socket);
                program::start(&found()?, Verb::Local, &config, &socket, watch)?;
                // Under the lock, so that they do not end for want of loaders meanwhile.
                there = Connection::open(&socket)?;
            }
            drop(lock);
            if let Some(services) = Self::join(there, &socket, &hello, watch)? {
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
        let threads = wanted.threads_of_one(&config);
        let threads = InThreads::get(wanted.key(&config), &config, threads, watch)?;
        Ok(Self::new(threads.ready().clone(), Run::Threads(threads)))
    }

    fn new(ready: Ready, run: Run) -> Self {
        Self { ready, run, ended: Mutex::default(), made_in: process::id() }
    }

    /// Those at the other end of a connection, unless there is none or they end just then.
    fn join(
        connection: Option<Connection>,
        socket: &Path,
        hello: &Hello,
        watch: &Watch<'_>,
    ) -> Result<Option<Self>, LocalError> {
        let Some(mut connection) = connection else { return Ok(None) };
        let ready = connection.ready(socket, hello, watch)?;
        Ok(ready.map(|ready| Self::new(ready, Run::Process(Mutex::new(connection)))))
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
        let mut ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        if ended.is_none() {
            let checked = match &self.run {
                Run::Process(connection) => {
                    connection.lock().unwrap_or_else(PoisonError::into_inner).check()
                }
                Run::Threads(threads) => threads.check(),
            };
            *ended = checked.err().map(|error| (error.kind(), error.to_string()));
        }
        let told = |(kind, text): &(LocalErrorKind, String)| {
            Err(LocalError::Told { kind: *kind, text: text.clone() })
        };
        ended.as_ref().map_or(Ok(()), told)
    }
}

impl Services {
    /// Has the services of a process of their own write a trace to `(path, bytes)`, in whose name `%h` stands
    /// for the host, or end it. Those of threads are in this process's trace.
    ///
    /// # Errors
    /// The file cannot be written, or the services have ended.
    pub fn trace(&self, to: Option<(&str, u64)>) -> Result<(), LocalError> {
        let Run::Process(connection) = &self.run else { return Ok(()) };
        let ask = match to {
            Some((path, bytes_max)) => Ask::Trace { path: path.to_owned(), bytes_max },
            None => Ask::EndTrace,
        };
        connection.lock().unwrap_or_else(PoisonError::into_inner).ask(&ask)
    }
}

impl Drop for Services {
    fn drop(&mut self) {
        if process::id() != self.made_in {
            return;
        }
        if let Run::Process(connection) = &mut self.run {
            connection.get_mut().unwrap_or_else(PoisonError::into_inner).leave();
        }
    }
}
