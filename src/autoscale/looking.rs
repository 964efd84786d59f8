//! What ranks and workers did since the last look, from their metrics.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use headwater_discovery::Places;

use crate::scrape::{Metrics, busiest_tenth, fetch_all};

const WAITED: &str = "headwater_receiver_waited_seconds";
const BUSY: &str = "headwater_augment_pool_busy_seconds";
const THREADS: &str = "headwater_augment_pool_threads";

/// Shares since the last look.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Seen {
    /// Workers that have an address.
    pub(super) known: u32,
    /// Those of them that have not answered for so long that they are not expected to.
    pub(super) lost: u32,
    /// Those of them that answered.
    pub(super) serving: u32,
    /// Mean over ranks.
    pub(super) stall: Option<f64>,
    /// Over the threads of all workers.
    pub(super) busy: Option<f64>,
    /// Over the threads of the busiest tenth of the workers.
    pub(super) busiest: Option<f64>,
}

/// Looks again and again.
pub(super) struct Looking {
    receivers: Places,
    workers: Places,
    before: HashMap<String, (Instant, Metrics)>,
    /// Workers that do not answer, and since when.
    silent: HashMap<String, Instant>,
    /// From then on nobody waits for them any more.
    patience: Duration,
}

// === impl Looking ===

impl Looking {
    /// `patience`: time that a worker takes to start.
    pub(super) fn new([receivers, workers]: [Places; 2], patience: Duration) -> Self {
        let (before, silent) = (HashMap::new(), HashMap::new());
        Self { receivers, workers, before, silent, patience }
    }

    /// Looks. Blocks for as long as the slowest takes to answer, two seconds at most.
    pub(super) fn look(&mut self, more_workers: Vec<String>) -> Seen {
        let ranks = addresses(&mut self.receivers, Vec::new());
        let mut workers = addresses(&mut self.workers, more_workers);
        workers.sort();
        workers.dedup();
        let all: Vec<String> = ranks.iter().chain(&workers).cloned().collect();
        let now: HashMap<String, (Instant, Metrics)> = answers(&all);
        let known = |address: &String| Some((self.before.get(address)?, now.get(address)?));
        let mut stalls = Vec::new();
        for ((then, old), (at, new)) in ranks.iter().filter_map(known) {
            stalls.extend(stall(old, new, at.duration_since(*then).as_secs_f64()));
        }
        let (mut busy, mut able) = (0.0, 0.0);
        let mut shares = Vec::new();
        for ((then, old), (at, new)) in workers.iter().filter_map(known) {
            if let (Some(old), Some(new), Some(threads)) =
                (old.value(BUSY), new.value(BUSY), new.value(THREADS))
            {
                // One that was started again counts from nothing.
                let worked = if new >= old { new - old } else { new };
                let could = threads * at.duration_since(*then).as_secs_f64();
                shares.push((worked / could.max(1e-3)).min(1.0));
                busy += worked;
                able += could;
            }
        }
        let serving = workers.iter().filter(|address| now.contains_key(*address)).count();
        let mut silent = std::mem::take(&mut self.silent);
        self.silent = workers
            .iter()
            .filter(|address| !now.contains_key(*address))
            .map(|address| {
                silent.remove_entry(address).unwrap_or((address.clone(), Instant::now()))
            })
            .collect();
        self.before = now;
        let mean = stalls.iter().sum::<f64>() / stalls.len().max(1) as f64;
        Seen {
            known: workers.len() as u32,
            lost: self.lost().count() as u32,
            serving: serving as u32,
            stall: (!stalls.is_empty()).then_some(mean),
            busy: (able > 0.0).then(|| (busy / able).min(1.0)),
            busiest: busiest_tenth(shares),
        }
    }

    /// Workers that have not answered for so long that they are not expected to.
    pub(super) fn lost(&self) -> impl Iterator<Item = &String> {
        let silent = self.silent.iter();
        silent.filter(|(_, since)| since.elapsed() >= self.patience).map(|(address, _)| address)
    }

    /// Whether it answered at the last look.
    pub(super) fn answered(&self, address: &str) -> bool {
        self.before.contains_key(address)
    }
}

/// Share of the time for which one rank waited, a wait that goes on included. `None`: it is no rank.
fn stall(old: &Metrics, new: &Metrics, seconds: f64) -> Option<f64> {
    let (old, new) = (old.value(WAITED).unwrap_or(0.0), new.value(WAITED)?);
    // One that was started again counts from nothing.
    let waited = if new >= old { new - old } else { new };
    Some((waited / seconds.max(1e-3)).clamp(0.0, 1.0))
}

fn addresses(places: &mut Places, more: Vec<String>) -> Vec<String> {
    let sight = places.look();
    for trouble in &sight.troubles {
        tracing::debug!(%trouble, "nobody is found");
    }
    sight.addresses.into_iter().chain(more).collect()
}

/// Those who answer, and when they did.
fn answers(addresses: &[String]) -> HashMap<String, (Instant, Metrics)> {
    let mut found = HashMap::new();
    for (address, (at, answer)) in addresses.iter().zip(fetch_all(addresses)) {
        match answer {
            Ok(metrics) => {
                found.insert(address.clone(), (at, metrics));
            }
            Err(error) => tracing::debug!(%address, %error, "no metrics"),
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waited(seconds: f64) -> Metrics {
        Metrics::of(&format!("{WAITED} {seconds}\n"))
    }

    #[test]
    fn the_share_waited_is_of_the_time_between_two_looks() {
        let before = waited(1.0);
        assert_eq!(stall(&before, &waited(11.0), 10.0), Some(1.0));
        assert_eq!(stall(&before, &waited(1.0), 10.0), Some(0.0));
        assert_eq!(stall(&before, &waited(3.0), 10.0), Some(0.2));
        assert_eq!(stall(&waited(0.0), &waited(12.0), 10.0), Some(1.0), "two loaders of a rank");
        assert_eq!(stall(&before, &waited(0.5), 10.0), Some(0.05), "started again");
        assert_eq!(stall(&before, &Metrics::of("other 1\n"), 10.0), None, "no rank");
    }
}
