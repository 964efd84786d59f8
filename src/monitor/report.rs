//! What the monitor reports: one JSON object, which the screen and the page show as well.
//!
//! `docs/monitor.md` describes each field. A number that is not known is `None`, in JSON `null`.

use std::collections::BTreeMap;

use serde::Serialize;

/// One look at a service of batches.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Report {
    /// When the report was made, in milliseconds since 1970.
    pub(crate) at_unix_ms: u64,
    /// Rates are means over this time, in seconds. Shorter at the beginning.
    pub(crate) window_s: f64,
    /// The job that is shown; none if all are.
    pub(crate) job: Option<String>,
    pub(crate) summary: Summary,
    /// Most waited for first.
    pub(crate) wait_by_cause: Vec<CauseShare>,
    pub(crate) tiers: Tiers,
    pub(crate) ranks: Vec<Rank>,
    pub(crate) workers: Vec<Worker>,
    pub(crate) storage: Vec<StorageNode>,
    pub(crate) links: Vec<Link>,
    /// A sentence each: who cannot be reached and why, and what else is wrong.
    pub(crate) troubles: Vec<String>,
    pub(crate) history: History,
}

/// The whole service in a few numbers.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Summary {
    /// Samples of the batches that were ready, over all ranks.
    pub(crate) samples_per_s: Option<f64>,
    pub(crate) batches_per_s: Option<f64>,
    /// Share of their time for which ranks waited for batches: the mean of the ranks, 0 to 1.
    pub(crate) wait_share: Option<f64>,
    pub(crate) verdict: Verdict,
}

/// Which stage holds the training up, and what to do.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Verdict {
    pub(crate) stage: Stage,
    /// Share of the wait that is this stage's, 0 to 1.
    pub(crate) share: Option<f64>,
    /// One line.
    pub(crate) text: String,
    /// What to do, in a sentence or two; empty if there is nothing to do.
    pub(crate) remedy: String,
}

/// Where the time goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Stage {
    Storage,
    Augment,
    Link,
    Device,
    /// The trainer is the slower side: nothing holds it up.
    Trainer,
    /// Nobody works for a rank.
    Nobody,
    /// The service that trials of a host share.
    Host,
    /// Nothing is known yet.
    #[default]
    None,
}

/// A cause of waiting.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct CauseShare {
    /// The label of `headwater_receiver_waited_by_cause_seconds`.
    pub(crate) cause: String,
    /// Share of the ranks' time, 0 to 1.
    pub(crate) share_of_time: f64,
    /// Share of the time waited, 0 to 1.
    pub(crate) share_of_wait: f64,
}

/// Sums over each tier.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Tiers {
    pub(crate) storage: StorageTier,
    pub(crate) augment: AugmentTier,
    pub(crate) receiver: ReceiverTier,
}

/// All storage nodes.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct StorageTier {
    /// Nodes that answer.
    pub(crate) nodes: u64,
    pub(crate) samples_per_s: Option<f64>,
    pub(crate) bytes_per_s: Option<f64>,
}

/// All augment workers.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct AugmentTier {
    /// Workers that answer.
    pub(crate) workers: u64,
    pub(crate) threads: Option<u64>,
    /// Share of their threads' time for which workers rendered, 0 to 1.
    pub(crate) busy_share: Option<f64>,
    pub(crate) samples_per_s: Option<f64>,
    /// Parts queued or under way.
    pub(crate) queue_parts: Option<u64>,
}

/// All training ranks.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct ReceiverTier {
    /// Ranks that answer.
    pub(crate) ranks: u64,
    pub(crate) samples_per_s: Option<f64>,
    /// Batches that are ready and not taken.
    pub(crate) ready_batches: Option<u64>,
    pub(crate) slots: Option<u64>,
}

/// One training rank.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Rank {
    pub(crate) address: String,
    /// Another user may have named the address: the page does not show it the token's hash.
    #[serde(skip)]
    pub(crate) is_foreign: bool,
    /// For people: `JOB rank 0`.
    pub(crate) name: String,
    pub(crate) rank: Option<u64>,
    /// Whether it answered last time.
    pub(crate) up: bool,
    pub(crate) samples_per_s: Option<f64>,
    pub(crate) batches_per_s: Option<f64>,
    /// Share of its time for which it waited for batches, 0 to 1.
    pub(crate) wait_share: Option<f64>,
    /// The same by cause; causes without any are absent.
    pub(crate) wait_by_cause: BTreeMap<String, f64>,
    pub(crate) ready_batches: Option<u64>,
    pub(crate) slots: Option<u64>,
    /// Workers with a session.
    pub(crate) workers: Option<u64>,
    pub(crate) epoch: Option<u64>,
    /// The batch that the trainer takes next.
    pub(crate) step: Option<u64>,
    /// Weights of datasets in force.
    pub(crate) weights: BTreeMap<String, f64>,
    pub(crate) bytes_per_s_by_link: BTreeMap<String, f64>,
    /// Samples that stand in for broken ones, since the process began.
    pub(crate) bad_samples: Option<u64>,
    /// Leases given to a further worker, since the process began.
    pub(crate) hedges: Option<u64>,
    /// Parts that came twice, since the process began.
    pub(crate) duplicates: Option<u64>,
    /// Parts that workers had made for another rank, since the process began.
    pub(crate) parts_shared: Option<u64>,
}

/// One augment worker.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Worker {
    pub(crate) address: String,
    pub(crate) name: String,
    /// Whether it answered last time.
    pub(crate) up: bool,
    pub(crate) backend: Option<String>,
    pub(crate) threads: Option<u64>,
    /// Share of its threads' time for which it rendered, 0 to 1.
    pub(crate) busy_share: Option<f64>,
    pub(crate) samples_per_s: Option<f64>,
    /// Parts queued or under way.
    pub(crate) queue_parts: Option<u64>,
    /// Ranks that are served.
    pub(crate) sessions: Option<u64>,
    /// Samples that it reads from files of its host (`file`) and from nodes (`grpc`).
    pub(crate) reads_per_s_by_way: BTreeMap<String, f64>,
    /// Shards of its host that could not be read as files, since the process began.
    pub(crate) not_local: Option<u64>,
    pub(crate) part_ms: PartTimes,
    /// Bytes kept for other ranks.
    pub(crate) share_bytes: Option<u64>,
    /// Parts kept for other ranks.
    pub(crate) share_parts: Option<u64>,
    /// Caches of distant shards in the worker's own process.
    pub(crate) caches: Vec<CacheLevel>,
    /// Leases whose part was there already, since the process began.
    pub(crate) parts_shared: Option<u64>,
    /// Samples that stand in for broken ones, since the process began.
    pub(crate) bad_samples: Option<u64>,
}

/// Mean times of a part at a worker, in milliseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct PartTimes {
    /// From the request to the last sample read.
    pub(crate) read: Option<f64>,
    /// Thread time of decoding and augmenting.
    pub(crate) render: Option<f64>,
    /// The thread time of decoding in it.
    pub(crate) decode: Option<f64>,
    /// Handing the part to its link.
    pub(crate) deliver: Option<f64>,
}

/// One storage node.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct StorageNode {
    pub(crate) address: String,
    pub(crate) name: String,
    /// Whether it answered last time.
    pub(crate) up: bool,
    pub(crate) samples_per_s: Option<f64>,
    pub(crate) bytes_per_s: Option<f64>,
    pub(crate) reads_in_flight: Option<u64>,
    /// Reads that wait for a permit.
    pub(crate) reads_waiting: Option<u64>,
    /// Bytes read from distant sources.
    pub(crate) source_bytes_per_s: Option<f64>,
    pub(crate) caches: Vec<CacheLevel>,
}

/// One level of a cache.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct CacheLevel {
    pub(crate) level: String,
    pub(crate) bytes: Option<u64>,
    pub(crate) limit: Option<u64>,
    /// Share of all lookups of the cache that this level answered, 0 to 1.
    pub(crate) hit_share: Option<f64>,
}

/// One kind of link, over all ranks.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Link {
    pub(crate) link: String,
    pub(crate) bytes_per_s: Option<f64>,
    pub(crate) parts_per_s: Option<f64>,
    /// Parts dropped, since the processes began.
    pub(crate) dropped: Option<u64>,
}

/// The last minutes, oldest first. All lists are equally long.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct History {
    pub(crate) every_s: f64,
    pub(crate) samples_per_s: Vec<Option<f64>>,
    pub(crate) wait_share: Vec<Option<f64>>,
    /// Shares of the ranks' time, by cause.
    pub(crate) wait_by_cause: BTreeMap<String, Vec<Option<f64>>>,
}
