//! Tells the storage tier which shards the sampler will come to, ahead of the leases.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use headwater_core::sampler::Sampler;
use headwater_storage_client::Dataset;
use tokio::sync::watch;

use crate::driver::lock;
use crate::mailbox::Position;

/// Shards told at a time, over all datasets.
const SHARDS_AHEAD: usize = 32;
/// Shards remembered as told, per dataset, so that each is told once while it is near.
const REMEMBERED: usize = 4 * SHARDS_AHEAD;

/// Follows the place up to which batches are ordered and tells what comes behind it. Ends with
/// the sender. Advice only: a storage node that does not answer is told again at the next step.
pub(crate) async fn tell_storage(
    sampler: Arc<Mutex<Sampler>>,
    datasets: Vec<Dataset>,
    mut ordered: watch::Receiver<Position>,
) {
    let mut told: Vec<VecDeque<u32>> = vec![VecDeque::new(); datasets.len()];
    while ordered.changed().await.is_ok() {
        let Position { epoch, step } = *ordered.borrow_and_update();
        let Ok(ahead) = lock(&sampler).shards_ahead(epoch, step, SHARDS_AHEAD) else { continue };
        for ((dataset, shards), told) in datasets.iter().zip(ahead).zip(&mut told) {
            let news: Vec<u32> = shards.into_iter().filter(|s| !told.contains(s)).collect();
            if news.is_empty() {
                continue;
            }
            match dataset.prefetch(&news).await {
                Ok(accepted) => {
                    told.extend(news.into_iter().take(accepted as usize));
                    let surplus = told.len().saturating_sub(REMEMBERED);
                    told.drain(..surplus);
                }
                Err(error) => tracing::debug!(%error, "storage did not hear which shards come"),
            }
        }
    }
}
