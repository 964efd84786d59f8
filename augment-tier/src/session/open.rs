//! From a hello to a session that can take leases.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use headwater_core::{Digest, Layout};
use headwater_proto::WIRE_VERSION;
use headwater_proto::augment::{Heartbeat, SessionHello, SessionWelcome, StreamNews};
use headwater_render::part::{PartPlan, SampleFields};
use headwater_trace::Context;
use headwater_transport::Exchange;
use headwater_transport::WorkerLink;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio_util::sync::CancellationToken;

use super::link;
use super::read::SessionDataset;
use super::source::Source;
use crate::error::SessionError;
use crate::metrics::SessionGauge;
use crate::share::Member;
use crate::worker::Worker;

/// What a session's memory for parts is counted in.
const MEMORY_UNIT_BYTES: u64 = 64 << 10;

/// What all leases of a session share.
pub(crate) struct Session {
    pub(crate) worker: Arc<Worker>,
    /// Number of the session in this process.
    pub(crate) id: u64,
    pub(crate) receiver: String,
    pub(crate) source: Arc<Source>,
    /// What it wants parts of, as others do perhaps.
    pub(crate) stream: Digest,
    member: Member,
    /// Between the receiver's signs of life.
    heartbeat: Duration,
    pub(crate) link: Arc<dyn WorkerLink>,
    /// Parts that may hold memory.
    pub(crate) parts: Semaphore,
    /// What they may hold together, in units of [`MEMORY_UNIT_BYTES`].
    memory: Semaphore,
    memory_units: u32,
    /// Cancelled when the session ends, and with it every lease.
    pub(crate) ending: CancellationToken,
    /// The last batch size of each bucket: it changes at the end of an epoch, if ever.
    layouts: Mutex<Vec<Option<Arc<Layout>>>>,
    _gauge: SessionGauge,
}

// === impl Session ===

impl Session {
    /// Checks the datasets, connects the link. Nothing is left behind where it fails.
    pub(crate) async fn open(
        worker: Arc<Worker>,
        id: u64,
        hello: Box<SessionHello>,
        exchange: &dyn Exchange,
    ) -> Result<(Self, SessionWelcome), SessionError> {
        let fields = SampleFields::parse(&hello.image_field, &hello.label_field)?;
        let fields = fields.with_extra_fields(&hello.recipe.extra_fields())?;
        let plans = plans(&worker, &hello).await?;
        let datasets = open_datasets(&worker, &hello).await?;
        let link::Chosen { link, refused } = link::connect(&worker, &hello, exchange).await?;
        let welcome = SessionWelcome {
            wire_version: WIRE_VERSION,
            worker: worker.name.clone(),
            link: link.kind().name().to_owned(),
            refused_links: refused,
            credits: worker.config.credits(),
            backend: worker.backend.name(),
            shares: worker.config.leases.share_bytes > 0,
        };
        let memory_units = units_of(worker.config.session_part_bytes());
        let (scope, layouts) = (hello.part_scope(), Mutex::new(vec![None; plans.len()]));
        let source = Source {
            worker: Arc::clone(&worker),
            seed: hello.seed,
            on_bad_sample: hello.on_bad_sample,
            plans,
            datasets,
            fields,
            scope,
        };
        let session = Self {
            id,
            receiver: hello.receiver,
            source: Arc::new(source),
            stream: hello.stream,
            member: worker.share.enter(hello.stream, id),
            heartbeat: Duration::from_millis(hello.heartbeat_ms.into()),
            parts: Semaphore::new(worker.config.parts() as usize),
            memory: Semaphore::new(memory_units as usize),
            memory_units,
            ending: CancellationToken::new(),
            layouts,
            _gauge: SessionGauge::new(link.kind()),
            link,
            worker,
        };
        Ok((session, welcome))
    }

    /// Takes a sign of life, and says how far others of the stream are.
    pub(crate) fn heard(&self, beat: Heartbeat) -> StreamNews {
        self.member.heard((beat.step, beat.width), self.heartbeat)
    }

    /// What all tiers know a lease's spans by.
    pub(crate) fn lease_context(&self, lease: u64) -> Context {
        Context::of_lease(&self.receiver, &self.stream.to_bytes(), lease)
    }

    /// Waits until the session's parts leave room for one of `part_bytes` bytes.
    pub(crate) async fn memory_for(&self, part_bytes: u64) -> Option<SemaphorePermit<'_>> {
        let units = units_of(part_bytes).min(self.memory_units);
        self.memory.acquire_many(units).await.ok()
    }

    /// The plan of the parts of a bucket, where the recipe has it.
    pub(crate) fn plan(&self, bucket: u32) -> Option<&Arc<PartPlan>> {
        self.source.plans.get(bucket as usize)
    }

    /// The layout of a batch of `samples` samples of a bucket, whose plan is `plan`.
    pub(crate) fn layout(&self, plan: &PartPlan, samples: u32, bucket: u32) -> Arc<Layout> {
        let mut layouts = self.layouts.lock().unwrap_or_else(PoisonError::into_inner);
        let last = &mut layouts[bucket as usize];
        match last {
            Some(layout) if layout.samples() == samples => Arc::clone(layout),
            _ => Arc::clone(last.insert(Arc::new(Layout::new(plan.recipe(), samples)))),
        }
    }
}

/// So many bytes in units of a session's memory, one at least.
fn units_of(bytes: u64) -> u32 {
    u32::try_from(bytes.div_ceil(MEMORY_UNIT_BYTES)).unwrap_or(u32::MAX).max(1)
}

/// The recipe of each bucket, checked. A GPU or a Python process may have to be asked, which takes a while the first
/// time.
async fn plans(worker: &Worker, hello: &SessionHello) -> Result<Vec<Arc<PartPlan>>, SessionError> {
    let (asked, most) =
        (hello.recipe.decode_limits.pixels_max, worker.config.decoding.image_pixels_max);
    if asked > most {
        // Refused, not rendered with another bound: that would change which samples are bad.
        let reason = format!(
            "recipe.decode_pixels_max is {asked}, and augment.image_pixels_max {most} there: raise the \
             worker's, which takes memory, or lower the recipe's, which makes larger images bad samples"
        );
        return Err(SessionError::Recipe { reason });
    }
    let (backend, recipe) = (Arc::clone(&worker.backend), hello.recipe.clone());
    let tokenizers = worker.tokenizers.clone();
    let check = move || {
        backend.check(&recipe)?;
        let plan = |bucket| PartPlan::new(Arc::new(bucket)).tokenizing(&tokenizers).map(Arc::new);
        recipe.each_bucket().map(plan).collect::<Result<Vec<_>, String>>()
    };
    let checked = tokio::task::spawn_blocking(check).await;
    let checked = checked.map_err(|error| SessionError::Internal { reason: error.to_string() })?;
    checked.map_err(|reason| SessionError::Recipe { reason })
}

async fn open_datasets(
    worker: &Worker,
    hello: &SessionHello,
) -> Result<Vec<SessionDataset>, SessionError> {
    let mut datasets = Vec::with_capacity(hello.datasets.len());
    for dataset in &hello.datasets {
        let name = || dataset.name.clone();
        let manifest = worker
            .manifest(dataset)
            .await
            .map_err(|source| SessionError::Storage { dataset: name(), source })?;
        if manifest.digest() != dataset.manifest {
            let (theirs, ours) = (dataset.manifest, manifest.digest());
            return Err(SessionError::Manifest { dataset: name(), theirs, ours });
        }
        let reader = worker.storage.dataset(Arc::clone(&manifest));
        datasets.push(SessionDataset { reader, manifest });
    }
    Ok(datasets)
}
