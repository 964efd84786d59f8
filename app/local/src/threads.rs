//! Local services in threads of this process, shared by its loaders.

use std::process;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak, mpsc};
use std::thread;

use headwater_config::Config;
use headwater_core::Digest;
use tokio::runtime::{Builder, Runtime};

use crate::folder::RuntimeFolder;
use crate::messages::Ready;
use crate::token::Token;
use crate::watch::{LOOK, Watch};
use crate::{Embedded, LocalError};

/// Threads that move messages; the worker has those that render.
const RUNTIME_THREADS: usize = 2;

/// Those that run in this process. Who starts some holds the lock, so that they are started once.
static RUNNING: Mutex<Vec<(Digest, Weak<InThreads>)>> = Mutex::new(Vec::new());

/// A storage node and a worker. Dropping the last of their handles ends them.
#[derive(Debug)]
pub(crate) struct InThreads {
    ready: Ready,
    running: Mutex<Option<Running>>,
    made_in: u32,
}

/// In the order in which they are dropped.
#[derive(Debug)]
struct Running {
    tiers: Embedded,
    runtime: Runtime,
    token: Token,
}

// === impl InThreads ===

impl InThreads {
    /// Those of a key that run already, or new ones with `threads` rendering threads.
    pub(crate) fn get(
        key: Digest,
        config: &Config,
        threads: usize,
        watch: &Watch<'_>,
    ) -> Result<Arc<Self>, LocalError> {
        let mut running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
        running.retain(|(_, services)| services.strong_count() > 0);
        let known = running.iter().find(|(known, _)| *known == key);
        // In a forked process those of its parent are on the list, without their threads.
        let known = known.and_then(|(_, services)| services.upgrade());
        if let Some(services) = known.filter(|services| services.is_at_home()) {
            if let Some(Err(error)) = services.running().as_mut().map(|it| it.token.keep()) {
                tracing::warn!(%error, "a loader will not find the token");
            }
            return Ok(services);
        }
        let services = Arc::new(Self::start(config, threads, watch)?);
        running.push((key, Arc::downgrade(&services)));
        Ok(services)
    }

    fn start(config: &Config, threads: usize, watch: &Watch<'_>) -> Result<Self, LocalError> {
        let folder = RuntimeFolder::open()?;
        folder.sweep();
        let token = Token::make_unnamed(&folder)?;
        let mut config = config.clone();
        config.augment.threads = threads;
        token.guard(&mut config);
        let runtime = Builder::new_multi_thread()
            .worker_threads(RUNTIME_THREADS)
            .thread_name("hw-local")
            .enable_all()
            .build()
            .map_err(LocalError::Threads)?;
        let (tell, told) = mpsc::channel();
        let starting = runtime.spawn(async move {
            let mut tiers = Embedded::start(&config, move |done, of| {
                // Whoever wanted to hear of it may be gone.
                let _ = tell.send((done, of));
            })
            .await?;
            let worker = tiers.add_worker().await?;
            Ok::<_, LocalError>((tiers, worker))
        });
        while !starting.is_finished() {
            if let Err(cancelled) = watch.check() {
                // Making an index cannot be broken off, and needs the runtime until it ends.
                let ends = move || drop((runtime.block_on(starting), runtime, token));
                let _ = thread::Builder::new().name("hw-local-end".into()).spawn(ends);
                return Err(cancelled);
            }
            if let Ok((done, of)) = told.recv_timeout(LOOK) {
                (watch.tell)(done, of);
            }
        }
        let (tiers, worker) = runtime.block_on(starting).map_err(|_| LocalError::Panic)??;
        let (storage, fields) = (tiers.storage().to_owned(), tiers.fields().to_vec());
        let ready = Ready { storage, fields, worker, token_file: token.path().to_owned() };
        let running = Mutex::new(Some(Running { tiers, runtime, token }));
        Ok(Self { ready, running, made_in: process::id() })
    }

    pub(crate) fn ready(&self) -> &Ready {
        &self.ready
    }

    /// Whether they still run.
    pub(crate) fn check(&self) -> Result<(), LocalError> {
        self.running().as_mut().map_or(Ok(()), |running| running.tiers.check())
    }

    fn running(&self) -> MutexGuard<'_, Option<Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_at_home(&self) -> bool {
        process::id() == self.made_in
    }
}

impl Drop for InThreads {
    fn drop(&mut self) {
        let running = self.running.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if !self.is_at_home() {
            // Its threads, and the token, are another process's.
            std::mem::forget(running);
            return;
        }
        if let Some(Running { tiers, runtime, token }) = running {
            drop(tiers);
            runtime.shutdown_background();
            drop(token);
        }
    }
}
