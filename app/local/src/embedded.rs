//! A storage node and augment workers inside this process: the same gRPC and the same links as between
//! processes, over loopback, on ports the system chooses.

use std::collections::BTreeSet;
use std::thread;

use headwater_augment::{Augment, AugmentError};
use headwater_config::Config;
use headwater_inventory::Cores;
use headwater_storage::{Storage, StorageError};
use tokio::runtime::{Builder, Handle};
use tokio::sync::{oneshot, watch};
use tokio::task::{JoinError, JoinSet};

use crate::LocalError;

/// Where services of one host listen: on this machine only, at a free port.
pub const ANY_PORT: &str = "127.0.0.1:0";
/// Threads of the runtime of a worker that has cores of its own. They move messages; the pool renders.
const WORKER_RUNTIME_THREADS: usize = 2;

/// The tiers' tasks. Dropping this ends them; outside of async code, it waits for their end.
#[derive(Debug)]
pub struct Embedded {
    handle: Handle,
    config: Config,
    storage: String,
    fields: Vec<String>,
    tasks: JoinSet<Result<(), LocalError>>,
    stop: watch::Sender<bool>,
}

// === impl Embedded ===

impl Embedded {
    /// Starts a storage node. `tell` hears how many shards are indexed, of how many.
    ///
    /// # Errors
    /// What the storage tier says: no such path, a broken shard, a bad value.
    pub async fn start(
        config: &Config,
        tell: impl FnMut(usize, usize) + Send + 'static,
    ) -> Result<Self, LocalError> {
        let listener = headwater_storage::listen(ANY_PORT).await?;
        let storage = Storage::open_telling(config.storage_tier()?, tell).await?;
        let address = listener
            .local_addr()
            .map_err(|source| StorageError::Listen { address: ANY_PORT.to_owned(), source })?;
        let of_datasets =
            storage.manifests().flat_map(|manifest| manifest.fields().iter().cloned());
        let fields = of_datasets.collect::<BTreeSet<_>>().into_iter().collect();
        let (stop, stopped) = watch::channel(false);
        let mut tasks = JoinSet::new();
        tasks.spawn(async move { Ok(storage.serve_on(listener, until(stopped)).await?) });
        let mut config = config.clone();
        config.augment.storage = vec![address.to_string()];
        config.augment.listen = ANY_PORT.to_owned();
        let (handle, storage) = (Handle::current(), address.to_string());
        Ok(Self { handle, config, storage, fields, tasks, stop })
    }

    /// Address of the storage node.
    #[must_use]
    pub fn storage(&self) -> &str {
        &self.storage
    }

    /// Names of the fields that the datasets' samples have.
    #[must_use]
    pub fn fields(&self) -> &[String] {
        &self.fields
    }

    /// Starts a worker on the threads of the current runtime, or on its own where `augment.cpus` names cores for
    /// it; its address.
    ///
    /// # Errors
    /// What the augment tier says.
    pub async fn add_worker(&mut self) -> Result<String, LocalError> {
        if !self.config.augment.cpus.is_empty() {
            return self.add_worker_on(Cores::default(), self.config.augment.threads).await;
        }
        let (told, address) = oneshot::channel();
        let serving = serve_worker(self.config.clone(), told, self.stop.subscribe());
        self.tasks.spawn(serving);
        self.started(address).await
    }

    /// Starts a worker with `threads` rendering threads, on these cores only; returns its address. Where the
    /// system does not allow the cores, it runs on those of this process, and says so in the log. `augment.cpus`
    /// leaves it fewer of them, and one rendering thread for each at most if the configuration does not number
    /// them.
    ///
    /// # Errors
    /// What the augment tier says.
    pub(crate) async fn add_worker_on(
        &mut self,
        cores: Cores,
        threads: usize,
    ) -> Result<String, LocalError> {
        let mut config = self.config.clone();
        let counted = config.augment.threads != 0;
        config.augment.threads = threads;
        let (told, address) = oneshot::channel();
        let (end, ended) = oneshot::channel();
        let stopped = self.stop.subscribe();
        let work = move || {
            // All threads that come from this one have its cores.
            if let Err(error) = cores.bind_this_thread() {
                tracing::warn!(%cores, %error, "a worker cannot have its cores");
            }
            let _ = end.send(serve_on_this_thread(config, counted, told, stopped));
        };
        let started = thread::Builder::new().name("hw-worker".to_owned()).spawn(work);
        started.map_err(LocalError::Threads)?;
        self.tasks.spawn(async { ended.await.unwrap_or(Err(LocalError::Panic)) });
        self.started(address).await
    }

    /// The address of a worker that is being started, or why there is none.
    async fn started(&mut self, address: oneshot::Receiver<String>) -> Result<String, LocalError> {
        match address.await {
            Ok(address) => Ok(address),
            // It has ended instead, which its task says.
            Err(_) => Err(self.ended().await),
        }
    }

    /// Whether all tiers go on.
    ///
    /// # Errors
    /// Why one of them has ended.
    pub fn check(&mut self) -> Result<(), LocalError> {
        self.tasks.try_join_next().map_or(Ok(()), |end| Err(why(end)))
    }

    /// Waits for the end of a tier that was not asked to end, and says why it did.
    pub(crate) async fn ended(&mut self) -> LocalError {
        match self.tasks.join_next().await {
            Some(end) => why(end),
            None => LocalError::Panic,
        }
    }
}

impl Drop for Embedded {
    fn drop(&mut self) {
        let _ = self.stop.send(true);
        // Async code cannot wait here, as where a worker does not start: then the tasks are broken off.
        if Handle::try_current().is_err() {
            // They bound their drain themselves.
            self.handle.block_on(async { while self.tasks.join_next().await.is_some() {} });
        }
    }
}

/// Serves on a runtime of this thread's cores; `counted`: the configuration says how many threads render.
fn serve_on_this_thread(
    mut config: Config,
    counted: bool,
    told: oneshot::Sender<String>,
    stopped: watch::Receiver<bool>,
) -> Result<(), LocalError> {
    let kept = config.augment_tier()?.keep_to_cpus()?;
    if let Some(cores) = kept.filter(|_| !counted) {
        config.augment.threads = config.augment.threads.min(cores.len());
    }
    let runtime = Builder::new_multi_thread()
        .worker_threads(WORKER_RUNTIME_THREADS)
        .thread_name("hw-worker")
        .enable_all()
        .build();
    let runtime = runtime.map_err(LocalError::Threads)?;
    runtime.block_on(serve_worker(config, told, stopped))
}

async fn serve_worker(
    config: Config,
    told: oneshot::Sender<String>,
    stopped: watch::Receiver<bool>,
) -> Result<(), LocalError> {
    let listener = headwater_augment::bind(&config.augment).await?;
    let worker = Augment::open(config.augment_tier()?).await?;
    let address = listener
        .local_addr()
        .map_err(|source| AugmentError::Bind { address: ANY_PORT.to_owned(), source })?;
    // Whoever asked for it may be gone.
    let _ = told.send(address.to_string());
    Ok(worker.serve_on(listener, until(stopped)).await?)
}

async fn until(mut stopped: watch::Receiver<bool>) {
    // A sender that is gone asks for the same.
    let _ = stopped.wait_for(|stopped| *stopped).await;
}

fn why(end: Result<Result<(), LocalError>, JoinError>) -> LocalError {
    match end {
        Ok(Ok(())) => LocalError::Ended,
        Ok(Err(error)) => error,
        Err(_) => LocalError::Panic,
    }
}
