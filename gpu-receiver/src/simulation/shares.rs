//! Parts that modelled workers keep for all trials, and who made which of them how often.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use headwater_core::SampleRef;

/// A part at one worker: held by the one that makes it; `true` when it is there.
pub(super) type Making = Arc<tokio::sync::Mutex<bool>>;

/// What all workers keep. Nothing is evicted: the window is larger than trials are apart.
#[derive(Default)]
pub(super) struct Shares {
    parts: Mutex<BTreeMap<Vec<SampleRef>, Part>>,
}

#[derive(Default)]
struct Part {
    /// By the number of the worker.
    at: BTreeMap<usize, Making>,
    makings: u32,
    /// It was made although another worker had it, or was making it.
    moved: bool,
}

/// How often parts were made.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct MadeParts {
    pub(super) parts: u64,
    /// More than once.
    pub(super) again: u64,
    /// Of them, those that another worker had. The rest had gone with its worker: whatever the rule is by
    /// which trials choose workers, such a part is made again.
    pub(super) moved: u64,
}

// === impl Shares ===

impl Shares {
    /// The part at this worker.
    pub(super) fn making(&self, worker: usize, samples: &[SampleRef]) -> Making {
        let mut parts = self.lock();
        let part = parts.entry(samples.to_vec()).or_default();
        Arc::clone(part.at.entry(worker).or_default())
    }

    /// The worker begins to make it.
    pub(super) fn begin(&self, worker: usize, samples: &[SampleRef]) {
        let mut parts = self.lock();
        let part = parts.entry(samples.to_vec()).or_default();
        let has = |making: &Making| making.try_lock().map_or(true, |made| *made);
        let elsewhere = part.at.iter().any(|(other, making)| *other != worker && has(making));
        part.moved |= part.makings > 0 && elsewhere;
        part.makings += 1;
    }

    /// The worker is gone, with all that it kept.
    pub(super) fn forget(&self, worker: usize) {
        self.lock().values_mut().for_each(|part| drop(part.at.remove(&worker)));
    }

    pub(super) fn made(&self) -> MadeParts {
        let mut made = MadeParts::default();
        for part in self.lock().values().filter(|part| part.makings > 0) {
            made.parts += 1;
            made.again += u64::from(part.makings > 1);
            made.moved += u64::from(part.moved);
        }
        made
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Vec<SampleRef>, Part>> {
        self.parts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
