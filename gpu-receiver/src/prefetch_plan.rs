//! Tells the storage tier which shards the sampler will come to, ahead of the leases.

use std::sync::Arc;
use std::time::Duration;

use headwater_storage_client::Dataset;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::position::Position;
use crate::sample_order::SampleOrder;

/// Shards told at a time, per dataset.
const SHARDS_AHEAD: usize = 32;
/// A plan that stays the same is sent again after this time, while batches go on: nodes come and
/// go, and forget a receiver that is silent for five minutes.
const REPEAT: Duration = Duration::from_secs(60);

/// The last plan for a dataset that the nodes got.
#[derive(Clone, Default)]
struct Told(Option<(Vec<u32>, Instant)>);

/// Follows the place up to which batches are ordered and tells the nodes what comes behind it, in
/// place of what they heard before: another place or other weights make another plan. Ends with the
/// sender, and takes the plans back then. Advice only: whether anybody hears it changes no batch.
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
            if told.is_news(&shards, Instant::now()) {
                tell(dataset, &shards).await;
                told.remember(shards, Instant::now());
            }
        }
    }
    for (dataset, _) in
        datasets.iter().zip(&told).filter(|(_, told)| told.is_news(&[], Instant::now()))
    {
        tell(dataset, &[]).await;
    }
}

async fn tell(dataset: &Dataset, shards: &[u32]) {
    for error in dataset.prefetch(shards).await {
        tracing::debug!(%error, "a storage node did not hear which shards come");
    }
}

// === impl Told ===

impl Told {
    fn is_news(&self, shards: &[u32], now: Instant) -> bool {
        match &self.0 {
            None => !shards.is_empty(),
            Some((before, _)) if before != shards => true,
            Some((_, at)) => !shards.is_empty() && now >= *at + REPEAT,
        }
    }

    fn remember(&mut self, shards: Vec<u32>, now: Instant) {
        self.0 = Some((shards, now));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_is_told_when_it_changes_and_again_after_a_while() {
        let (mut told, now) = (Told::default(), Instant::now());
        assert!(!told.is_news(&[], now), "there is nothing to take back");
        assert!(told.is_news(&[4, 1], now));
        told.remember(vec![4, 1], now);
        assert!(!told.is_news(&[4, 1], now + REPEAT / 2));
        assert!(told.is_news(&[4, 1], now + REPEAT));
        assert!(told.is_news(&[1, 4], now), "in another order");
        assert!(told.is_news(&[], now), "taken back");
        told.remember(Vec::new(), now);
        assert!(!told.is_news(&[], now + REPEAT));
    }
}
