//! What surrounds every modelled process.

use tokio::time::Instant;

use super::network::Network;
use super::shares::Shares;
use super::storage::Storage;

/// The network, the storage nodes, and the seed that everything left to chance follows from.
pub(super) struct Scene {
    pub(super) seed: u64,
    pub(super) network: Network,
    pub(super) storage: Storage,
    pub(super) started: Instant,
    /// What workers keep, where receivers want the same parts.
    pub(super) shares: Option<Shares>,
}
