//! Modelled storage nodes: each shard belongs to one by the real rule, and to the next of its
//! order while that one is away.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use headwater_core::Digest;
use headwater_core::rendezvous::{owner, rendezvous};

/// Time of a read of one part.
const READ: Duration = Duration::from_millis(8);
/// Time after which a node that says nothing is passed over.
const SILENCE: Duration = Duration::from_millis(400);

#[derive(Debug)]
pub(super) struct Storage {
    names: Vec<String>,
    away: Vec<AtomicBool>,
}

// === impl Storage ===

impl Storage {
    pub(super) fn new(nodes: usize) -> Self {
        let names = (0..nodes).map(|node| format!("storage-{node}:7401")).collect();
        Self { names, away: (0..nodes).map(|_| AtomicBool::new(false)).collect() }
    }

    pub(super) fn set_away(&self, node: usize, away: bool) {
        self.away[node].store(away, Ordering::Relaxed);
    }

    /// Reads from the shard's first node that is there; `false` where none is.
    pub(super) async fn read(&self, shard: u32) -> bool {
        let key = Digest::of(&shard.to_le_bytes());
        let is_there = |node: usize| !self.away[node].load(Ordering::Relaxed);
        let first = owner(key, &self.names).filter(|node| is_there(*node));
        // Hardly ever are all of a thousand nodes put in order.
        for node in first.map_or_else(|| rendezvous(key, &self.names), |node| vec![node]) {
            if is_there(node) {
                tokio::time::sleep(READ).await;
                return true;
            }
            tokio::time::sleep(SILENCE).await;
        }
        false
    }
}
