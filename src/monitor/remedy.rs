//! What to do about a stage that holds the training up.

use super::report::{Rank, Stage, Worker};
use super::seen::{Seen, Wait, percent};
use crate::scrape::busiest_tenth;
use crate::sizing::workers_for;

/// Up to this share, samples that come over gRPC in place of a file's are those of a shard that is fetched.
const OVER_GRPC_MIN: f64 = 0.1;

/// After what to do where ranks have no worker.
const WHY_NOT: &str = "Logs of ranks say why a worker that answers is not taken.";

/// The beginning of the verdict's line.
pub(crate) fn title(stage: Stage, wait: &Wait<'_>) -> &'static str {
    match stage {
        Stage::Nobody if is_mostly(wait, "retry") => "lost processes",
        Stage::Nobody => "no worker",
        _ => stage.name(),
    }
}

/// The end of the verdict's line.
pub(crate) fn short(stage: Stage, seen: &Seen<'_>, wait: &Wait<'_>) -> String {
    let waits = format!("ranks wait for {} of their time", percent(wait.share));
    match stage {
        Stage::Augment => match augment(seen) {
            Augment::More { workers, .. } => match workers {
                1 => "1 more worker of this size".to_owned(),
                more => format!("{more} more workers of this size"),
            },
            Augment::Uneven { busy, busiest } => format!(
                "the busiest workers work for {} of their time, all of them for {}",
                percent(busiest),
                percent(busy)
            ),
            Augment::TimeLeft { busy } => format!("workers are busy for only {}", percent(busy)),
            Augment::Unseen { times } => format!("{times:.1} times as many workers"),
        },
        Stage::Trainer if is_mostly(wait, "pace") => "a slower rank sets the pace".to_owned(),
        Stage::Trainer => "it holds every slot".to_owned(),
        Stage::Nobody if is_mostly(wait, "retry") => {
            "workers or storage nodes were lost".to_owned()
        }
        Stage::Nobody => match lonely(seen).as_slice() {
            [] => "ranks have had none".to_owned(),
            [one] => format!("{} has none", one.name),
            some => format!("{} ranks have none", some.len()),
        },
        Stage::Storage => match over_grpc(seen) {
            Some((share, _)) => {
                format!("{} of samples come over grpc to hosts that have them", percent(share))
            }
            None => waits,
        },
        Stage::Link | Stage::Device | Stage::Host | Stage::None => waits,
    }
}

/// What to do, in a sentence or two.
pub(crate) fn remedy(stage: Stage, seen: &Seen<'_>, wait: &Wait<'_>) -> String {
    match stage {
        Stage::Storage => storage(seen, wait),
        Stage::Augment => of_augment(seen),
        Stage::Link => link(seen),
        Stage::Device => "The copy to the GPU is slow: see `headwater doctor` for pinned memory and the GPU's bus, \
                          or deliver a smaller dtype with recipe.dtype."
            .to_owned(),
        Stage::Trainer if is_mostly(wait, "pace") => {
            "Find the rank that is slower than the others in the table of ranks.".to_owned()
        }
        Stage::Trainer => "Let go of batches earlier, or raise receiver.window_batches.".to_owned(),
        Stage::Nobody => nobody(seen),
        Stage::Host => "The service that the trials of this host share is slower than they are: give it more cores, \
                        or run fewer trials on this host."
            .to_owned(),
        Stage::None => String::new(),
    }
}

/// Whether a cause is more than half of the wait.
fn is_mostly(wait: &Wait<'_>, cause: &str) -> bool {
    wait.causes.get(cause).is_some_and(|share| *share > 0.5)
}

fn storage(seen: &Seen<'_>, wait: &Wait<'_>) -> String {
    let up = || seen.storage.iter().filter(|node| node.up);
    if is_mostly(wait, "fetch") {
        let has_cache = up().any(|node| !node.caches.is_empty());
        return match has_cache {
            true => "A distant source is slow: give storage.cache more room, or raise storage.shard_prefetch_window.",
            false => "A distant source is slow: keep what was fetched in a storage.cache, or raise \
                      storage.shard_prefetch_window.",
        }
        .to_owned();
    }
    if let Some((share, worker)) = over_grpc(seen) {
        return format!(
            "Workers on a host with the shards read {} of their samples over gRPC: the log of {} says why it does not \
             read the files.",
            percent(share),
            worker.name
        );
    }
    let waiting: u64 = up().filter_map(|node| node.reads_waiting).sum();
    match (waiting, up().count()) {
        (0, 0) => "Reads are slow, and no storage node shows its metrics here: add nodes or faster disks.".to_owned(),
        (0, _) => "Reads are slow: add storage nodes or faster disks, or put the shards nearer to the workers.".to_owned(),
        (reads, _) => format!(
            "{reads} reads wait in line: add storage nodes, or raise storage.max_concurrent_reads if their disks have \
             time left."
        ),
    }
}

/// The share of samples that come over gRPC, of workers that read files too or tried to; and the worker that reads
/// most of them so.
fn over_grpc<'a>(seen: &Seen<'a>) -> Option<(f64, &'a Worker)> {
    let rate =
        |worker: &Worker, way: &str| worker.reads_per_s_by_way.get(way).copied().unwrap_or(0.0);
    let has_files =
        |worker: &&Worker| rate(worker, "file") > 0.0 || worker.not_local.is_some_and(|n| n > 0);
    let beside = || seen.workers.iter().filter(|worker| worker.up).filter(has_files);
    let grpc: f64 = beside().map(|worker| rate(worker, "grpc")).sum();
    let all: f64 = grpc + beside().map(|worker| rate(worker, "file")).sum::<f64>();
    let share = grpc / all;
    let most = beside().max_by(|a, b| rate(a, "grpc").total_cmp(&rate(b, "grpc")));
    most.filter(|_| share > OVER_GRPC_MIN).map(|worker| (share, worker))
}

fn link(seen: &Seen<'_>) -> String {
    let mut used: Vec<&str> = seen
        .ranks
        .iter()
        .flat_map(|rank| &rank.bytes_per_s_by_link)
        .filter(|(_, rate)| **rate > 0.0)
        .map(|(link, _)| link.as_str())
        .collect();
    used.sort_unstable();
    used.dedup();
    let used = match used.as_slice() {
        [] => "The link".to_owned(),
        links => format!("The link `{}`", links.join("`, `")),
    };
    format!(
        "{used} is slow. `headwater doctor` says which links are possible here: `shm` within a host, `rdma` between \
         hosts. A smaller recipe.dtype moves fewer bytes."
    )
}

fn nobody(seen: &Seen<'_>) -> String {
    let mut text = match seen.configured_workers {
        [] => format!("Start workers, and check receiver.workers of the ranks. {WHY_NOT}"),
        some => format!(
            "Start workers, and check receiver.workers, which is {} here. {WHY_NOT}",
            list(some)
        ),
    };
    let down: Vec<String> =
        seen.workers.iter().filter(|worker| !worker.up).map(|w| w.address.clone()).collect();
    if !down.is_empty() {
        text.push_str(&format!(" Workers that do not answer: {}.", list(&down)));
    } else if !seen.troubles.is_empty() {
        text.push_str(&format!(" Not reached: {}.", list(seen.troubles)));
    }
    text
}

/// The first few of many.
fn list(names: &[String]) -> String {
    const SHOWN: usize = 4;
    let shown = names.iter().take(SHOWN).cloned().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// Ranks that have no worker now.
fn lonely<'a>(seen: &Seen<'a>) -> Vec<&'a Rank> {
    seen.ranks.iter().filter(|rank| rank.up && rank.workers == Some(0)).collect()
}

/// The effect of more workers.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Augment {
    /// The number of additional ones, and the present number.
    More { workers: u64, there_are: u64, times: f64 },
    /// Some have none left, and the others do.
    Uneven { busy: f64, busiest: f64 },
    /// Those there are have time left.
    TimeLeft { busy: f64 },
    /// None shows its metrics.
    Unseen { times: f64 },
}

/// The ranks take `r / (1 - w)` samples each second when they never wait, if they take `r` while they wait
/// for the share `w` of their time.
fn augment(seen: &Seen<'_>) -> Augment {
    /// A rank that only waits would take any number of samples.
    const WAIT_MAX: f64 = 0.95;
    const NO_TIME_LEFT: f64 = 0.9;
    let rates = seen.ranks.iter().filter_map(|rank| Some((rank.samples_per_s?, rank.wait_share?)));
    let (taken, wanted) = rates.fold((0.0, 0.0), |(taken, wanted), (rate, wait)| {
        (taken + rate, wanted + rate / (1.0 - wait.min(WAIT_MAX)))
    });
    let times = if taken > 0.0 { wanted / taken } else { 1.0 };
    let serving: Vec<_> = seen.workers.iter().filter(|worker| worker.up).collect();
    let threads: u64 = serving.iter().filter_map(|worker| worker.threads).sum();
    let busy: f64 = serving
        .iter()
        .filter_map(|worker| Some(worker.busy_share? * worker.threads? as f64))
        .sum::<f64>()
        / threads.max(1) as f64;
    if serving.is_empty() || busy <= 0.0 {
        return Augment::Unseen { times };
    }
    let busiest = busiest_tenth(serving.iter().filter_map(|worker| worker.busy_share).collect());
    if let Some(busiest) = busiest.filter(|share| busy < seen.busy_low && *share >= NO_TIME_LEFT) {
        return Augment::Uneven { busy, busiest };
    }
    if busy < seen.busy_low {
        return Augment::TimeLeft { busy };
    }
    let there_are = serving.len() as u64;
    let needed = workers_for(times, there_are as f64 * busy);
    Augment::More { workers: needed.saturating_sub(there_are).max(1), there_are, times }
}

fn of_augment(seen: &Seen<'_>) -> String {
    match augment(seen) {
        Augment::More { workers, there_are, times } => {
            let are = match there_are {
                1 => "1 worker is".to_owned(),
                some => format!("{some} workers are"),
            };
            format!(
                "{are} busy, and the trainer could take {times:.1} times as many samples: start {workers} more, or make \
                 the recipe cheaper."
            )
        }
        Augment::Uneven { .. } => {
            "Each rank uses a part of the workers, and takes more of them while it waits. If this stays, raise \
             receiver.workers_max, or set it to 0: all workers."
                .to_owned()
        }
        Augment::TimeLeft { .. } => {
            "More workers would not help: raise receiver.window_batches, so that more parts are made at a time."
                .to_owned()
        }
        Augment::Unseen { .. } => {
            "No worker shows its metrics here: add the workers' addresses to see how many more are needed.".to_owned()
        }
    }
}
