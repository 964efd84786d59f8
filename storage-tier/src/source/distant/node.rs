//! What all distant sources of a node share: its runtime, its limits, how long it tries again.

use std::future::Future;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use headwater_core::Digester;
use headwater_core::backoff::Backoff;
use headwater_storage_client::ObjectError;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::Semaphore;

use super::ahead::Ahead;
use super::refusal::Refusal;
use crate::config::SourceConfig;

const BACKOFF: Backoff =
    Backoff { first: Duration::from_millis(100), longest: Duration::from_secs(5) };
/// A listing has as much time as this number of single requests.
const LISTING_REQUESTS: u32 = 20;

/// What all distant sources of a node share.
#[derive(Debug)]
pub(crate) struct Node {
    /// Where requests are made; calls of sources come from threads that may wait.
    runtime: Option<Handle>,
    /// The same for programs without a runtime.
    own_runtime: OnceLock<Runtime>,
    /// One permit for each request in flight.
    requests: Semaphore,
    requests_max: usize,
    /// Time for one request, its body included.
    timeout: Duration,
    /// Time in which what may pass is tried again.
    retry: Duration,
    /// Bytes that were read ahead.
    pub(super) ahead: Ahead,
    /// Tells one pause from another.
    pauses: AtomicU64,
}

#[derive(Debug, thiserror::Error)]
#[error("no answer within {} ms (`storage.source_timeout_ms`)", .0.as_millis())]
struct TooSlow(Duration);

// === impl Node ===

impl Node {
    /// Requests are made by the runtime that this is called in, else by one of its own.
    pub(crate) fn new(config: &SourceConfig) -> Self {
        Self {
            runtime: Handle::try_current().ok(),
            own_runtime: OnceLock::new(),
            requests: Semaphore::new(config.source_requests_max),
            requests_max: config.source_requests_max,
            timeout: Duration::from_millis(config.source_timeout_ms),
            retry: Duration::from_millis(config.source_retry_ms),
            ahead: Ahead::default(),
            pauses: AtomicU64::new(0),
        }
    }

    /// Waits for a future of this module's. Not for async threads.
    pub(crate) fn wait<T>(&self, future: impl Future<Output = T>) -> T {
        let own = || {
            let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build();
            // As `thread::spawn`: a process that cannot have another thread cannot go on.
            runtime.expect("a thread for requests")
        };
        match &self.runtime {
            Some(runtime) => runtime.block_on(future),
            None => self.own_runtime.get_or_init(own).block_on(future),
        }
    }

    /// Makes a request until it succeeds, is refused for good, or the time for tries is over.
    pub(crate) async fn persist<T, F>(
        &self,
        name: &str,
        attempt: impl Fn() -> F,
    ) -> Result<T, ObjectError>
    where
        F: Future<Output = Result<T, Refusal>>,
    {
        self.persist_for(name, self.timeout, attempt).await
    }

    /// The same for a listing, which is several requests, one after the other.
    pub(crate) async fn persist_listing<T, F>(
        &self,
        name: &str,
        attempt: impl Fn() -> F,
    ) -> Result<T, ObjectError>
    where
        F: Future<Output = Result<T, Refusal>>,
    {
        self.persist_for(name, self.timeout * LISTING_REQUESTS, attempt).await
    }

    async fn persist_for<T, F>(
        &self,
        name: &str,
        timeout: Duration,
        attempt: impl Fn() -> F,
    ) -> Result<T, ObjectError>
    where
        F: Future<Output = Result<T, Refusal>>,
    {
        let started = Instant::now();
        let mut tries = 0;
        loop {
            tries += 1;
            let refusal = match self.once(&attempt, timeout).await {
                Ok(answer) => return Ok(answer),
                Err(refusal) => refusal,
            };
            let pause = self.pause(tries);
            let Refusal::Passing(error) = &refusal else {
                return Err(refusal.of(name, tries, started.elapsed()));
            };
            if started.elapsed() + pause > self.retry {
                return Err(refusal.of(name, tries, started.elapsed()));
            }
            tracing::debug!(object = name, tries, %error, "a request to a source is made again");
            crate::metrics::source_retried();
            tokio::time::sleep(pause).await;
        }
    }

    async fn once<T, F>(&self, attempt: &impl Fn() -> F, timeout: Duration) -> Result<T, Refusal>
    where
        F: Future<Output = Result<T, Refusal>>,
    {
        // Never closed; a permit is waited for outside the request's own time.
        let _permit = self.requests.acquire().await;
        let report = || {
            let free = self.requests.available_permits();
            crate::metrics::source_requests(self.requests_max.saturating_sub(free));
        };
        report();
        let timed = tokio::time::timeout(timeout, attempt()).await;
        report();
        timed.unwrap_or_else(|_| Err(Refusal::Passing(Box::new(TooSlow(timeout)))))
    }

    fn pause(&self, failures: u32) -> Duration {
        let number = self.pauses.fetch_add(1, Ordering::Relaxed);
        let digester = Digester::new("headwater source pause 1");
        let host = headwater_storage_client::host_id();
        let process = u64::from(std::process::id());
        let draw = { digester }.bytes(host.as_bytes()).number(process).number(number).finish();
        BACKOFF.pause(failures, draw)
    }
}
