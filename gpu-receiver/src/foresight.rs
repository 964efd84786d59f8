//! Tells the storage tier which shards the sampler will come to, ahead of the leases.

use std::collections::VecDeque;
use std::sync::Arc;

use headwater_storage_client::Dataset;
use tokio::sync::watch;

use crate::position::Position;
use crate::sample_order::SampleOrder;

/// Shards told at a time, per dataset.
const SHARDS_AHEAD: usize = 32;
/// Shards remembered as told, per dataset, so that each is told once while it is near.
const REMEMBERED: usize = 4 * SHARDS_AHEAD;

/// Shards that storage nodes were told of and fetch, oldest first.
#[derive(Clone, Default)]
struct Told(VecDeque<u32>);

/// Follows the place up to which batches are ordered and tells what comes behind it. Ends with
/// the sender. Advice only: shards that no node takes up are told again at the next step.
pub(crate) async fn tell_storage(
    order: Arc<SampleOrder>,
    datasets: Vec<Dataset>,
    mut ordered: watch::Receiver<Position>,
) {
    let mut told = vec![Told::default(); datasets.len()];
    while ordered.changed().await.is_ok() {
        let at = *ordered.borrow_and_update();
        let order = Arc::clone(&order);
        let drawn = tokio::task::spawn_blocking(move || order.shards_ahead(at, SHARDS_AHEAD)).await;
        let Ok(Ok(ahead)) = drawn else { continue };
        for ((dataset, shards), told) in datasets.iter().zip(ahead).zip(&mut told) {
            let news = told.news(shards);
            if news.is_empty() {
                continue;
            }
            let heard = dataset.prefetch(&news).await;
            told.remember(heard.shards);
            for error in heard.failures {
                tracing::debug!(%error, "a storage node did not hear which shards come");
            }
        }
    }
}

// === impl Told ===

impl Told {
    /// Those of them that are not taken up yet.
    fn news(&self, mut shards: Vec<u32>) -> Vec<u32> {
        shards.retain(|shard| !self.0.contains(shard));
        shards
    }

    fn remember(&mut self, shards: Vec<u32>) {
        self.0.extend(shards);
        let surplus = self.0.len().saturating_sub(REMEMBERED);
        self.0.drain(..surplus);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_that_no_node_takes_up_are_told_again() {
        let mut told = Told::default();
        assert_eq!(told.news(vec![4, 1, 3, 2]), [4, 1, 3, 2]);
        // Two nodes: one takes up the second and the fourth of them, one has no room.
        told.remember(vec![1, 2]);
        assert_eq!(told.news(vec![1, 3, 2, 5, 4]), [3, 5, 4]);
    }

    #[test]
    fn what_was_told_long_ago_is_told_again() {
        let mut told = Told::default();
        told.remember((0..REMEMBERED as u32 + 2).collect());
        assert_eq!(told.news(vec![0, 1, 2]), [0, 1]);
    }
}
