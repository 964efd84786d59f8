//! What ranks and workers did since the last look, from their metrics.

use std::collections::HashMap;
use std::thread;
use std::time::Instant;

use headwater_discovery::Places;

use crate::run::{Counters, fetch};

/// Requests under way at once.
const AT_ONCE: usize = 16;
const WAITED: &str = "headwater_receiver_waited_seconds";
const BUSY: &str = "headwater_augment_pool_busy_seconds";
const THREADS: &str = "headwater_augment_pool_threads";

/// Shares since the last look.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Seen {
    /// Workers that answered.
    pub(super) serving: u32,
    /// Mean over ranks.
    pub(super) stall: Option<f64>,
    /// Over the threads of all workers.
    pub(super) busy: Option<f64>,
}

/// Looks again and again.
pub(super) struct Looking {
    receivers: Places,
    workers: Places,
    before: HashMap<String, (Instant, Counters)>,
}

// === impl Looking ===

impl Looking {
    pub(super) fn new([receivers, workers]: [Places; 2]) -> Self {
        Self { receivers, workers, before: HashMap::new() }
    }

    /// Looks. Blocks for as long as the slowest takes to answer, two seconds at most.
    pub(super) fn look(&mut self, more_workers: Vec<String>) -> Seen {
        let ranks = addresses(&mut self.receivers, Vec::new());
        let workers = addresses(&mut self.workers, more_workers);
        let all: Vec<String> = ranks.iter().chain(&workers).cloned().collect();
        let now: HashMap<String, (Instant, Counters)> = fetch_all(&all);
        let known = |address: &String| Some((self.before.get(address)?, now.get(address)?));
        let mut stalls = Vec::new();
        for ((then, old), (at, new)) in ranks.iter().filter_map(known) {
            stalls.extend(stall(old, new, at.duration_since(*then).as_secs_f64()));
        }
        let (mut busy, mut able) = (0.0, 0.0);
        for ((then, old), (at, new)) in workers.iter().filter_map(known) {
            if let (Some(old), Some(new), Some(threads)) =
                (old.value(BUSY), new.value(BUSY), new.value(THREADS))
            {
                // One that was started again counts from nothing.
                busy += if new >= old { new - old } else { new };
                able += threads * at.duration_since(*then).as_secs_f64();
            }
        }
        let serving = workers.iter().filter(|address| now.contains_key(*address)).count();
        self.before = now;
        let mean = stalls.iter().sum::<f64>() / stalls.len().max(1) as f64;
        Seen {
            serving: serving as u32,
            stall: (!stalls.is_empty()).then_some(mean),
            busy: (able > 0.0).then(|| (busy / able).min(1.0)),
        }
    }
}

/// Share of the time for which one rank waited, a wait that goes on included. `None`: it is no rank.
fn stall(old: &Counters, new: &Counters, seconds: f64) -> Option<f64> {
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

fn fetch_all(addresses: &[String]) -> HashMap<String, (Instant, Counters)> {
    let mut found = HashMap::new();
    for some in addresses.chunks(AT_ONCE) {
        let answers: Vec<_> = thread::scope(|scope| {
            let asked: Vec<_> =
                some.iter().map(|place| scope.spawn(move || fetch(place))).collect();
            asked.into_iter().map(|thread| (thread.join(), Instant::now())).collect()
        });
        for (address, (answer, at)) in some.iter().zip(answers) {
            match answer {
                Ok(Ok(counters)) => {
                    found.insert(address.clone(), (at, counters));
                }
                Ok(Err(error)) => tracing::debug!(%address, %error, "no metrics"),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waited(seconds: f64) -> Counters {
        Counters::of(&format!("{WAITED} {seconds}\n"))
    }

    #[test]
    fn the_share_waited_is_of_the_time_between_two_looks() {
        let before = waited(1.0);
        assert_eq!(stall(&before, &waited(11.0), 10.0), Some(1.0));
        assert_eq!(stall(&before, &waited(1.0), 10.0), Some(0.0));
        assert_eq!(stall(&before, &waited(3.0), 10.0), Some(0.2));
        assert_eq!(stall(&waited(0.0), &waited(12.0), 10.0), Some(1.0), "two loaders of a rank");
        assert_eq!(stall(&before, &waited(0.5), 10.0), Some(0.05), "started again");
        assert_eq!(stall(&before, &Counters::of("other 1\n"), 10.0), None, "no rank");
    }
}
