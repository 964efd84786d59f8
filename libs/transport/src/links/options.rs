//! What both ends of a link are made with, whichever link it is.

use std::sync::Arc;
use std::time::Duration;

use crate::memory::window::DeviceImports;

use super::config::LinksConfig;
use super::facts::Demand;
use super::tcp::{ConnectTls, ListenTls};

/// Parts that a worker holds for one receiver where nobody says otherwise.
const STAGING_BUFFERS: usize = 6;

/// What a receiver's end is made with.
#[derive(Clone, Debug, Default)]
pub struct ListenOptions {
    /// `[links]`.
    pub config: LinksConfig,
    /// How much the link is wanted.
    pub demand: Demand,
    /// What leaves the host must be encrypted: kinds that cannot are refused.
    pub encrypted_only: bool,
    /// How connections are encrypted; `None`: they are not.
    pub tls: Option<ListenTls>,
    /// Bytes of all slots that will be added: the limit of locked memory is compared with it.
    pub slots_bytes: u64,
    /// Names of RDMA cards in the order in which they are tried if `config` names none: those near the batches'
    /// memory.
    pub near_cards: Vec<String>,
}

/// What a worker's end is made with.
#[derive(Clone, Debug)]
pub struct ConnectOptions {
    /// `[links]`.
    pub config: LinksConfig,
    /// How much the link is wanted.
    pub demand: Demand,
    /// What leaves the host must be encrypted: offers that are not are refused.
    pub encrypted_only: bool,
    /// How connections are encrypted where the receiver encrypts.
    pub tls: Option<ConnectTls>,
    /// Time for the receiver to answer; `None`: as long as the link usually takes.
    pub timeout: Option<Duration>,
    /// Buffers: `begin` waits when all are in use.
    pub staging_buffers: usize,
    /// Bytes that one buffer is thought to need: the limit of locked memory is compared with it.
    pub part_bytes: u64,
    /// What takes memory of receivers' GPUs; `None`: the worker has no GPU.
    pub imports: Option<Arc<dyn DeviceImports>>,
}

// === impl ConnectOptions ===

impl Default for ConnectOptions {
    fn default() -> Self {
        Self {
            config: LinksConfig::default(),
            demand: Demand::default(),
            encrypted_only: false,
            tls: None,
            timeout: None,
            staging_buffers: STAGING_BUFFERS,
            part_bytes: 0,
            imports: None,
        }
    }
}
