//! What all sessions of a worker share.

mod bad_samples;
mod roster;
mod staging;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use headwater_access::{Access, ConnectionAuth};
use headwater_core::Manifest;
use headwater_lobby::{Lobby, Place};
use headwater_proto::augment::{DatasetRef, SessionHello};
use headwater_render::backend::Backend;
use headwater_render::tokenizers::Tokenizers;
use headwater_storage_client::{StorageClient, StorageClientError};
use headwater_transport::DeviceImports;
use tokio_util::sync::CancellationToken;

use crate::config::AugmentConfig;
use crate::error::SessionError;
use crate::pool::{Pool, Started};
use crate::share::Share;
pub(crate) use bad_samples::BadSample;
use bad_samples::BadSampleLog;
use roster::Roster;
pub(crate) use roster::RosterSeat;
use staging::Staging;
pub(crate) use staging::StagingRoom;

/// Manifests that are kept; beyond that they are fetched anew by the next session.
const MANIFESTS_KEPT: usize = 64;

pub(crate) struct Worker {
    pub(crate) config: AugmentConfig,
    pub(crate) access: Access,
    /// How receivers know it.
    pub(crate) name: String,
    pub(crate) backend: Arc<dyn Backend>,
    /// What takes memory of receivers' GPUs, where this worker renders on one.
    pub(crate) imports: Option<Arc<dyn DeviceImports>>,
    pub(crate) storage: StorageClient,
    pub(crate) pool: Pool,
    pub(crate) tokenizers: Tokenizers,
    pub(crate) bad_samples: BadSampleLog,
    /// No more leases: finish what is open.
    pub(crate) drain: CancellationToken,
    /// Not even that.
    pub(crate) stop: CancellationToken,
    /// Why the device is gone that a recipe needs; cancels `device_lost`.
    lost: OnceLock<String>,
    device_lost: CancellationToken,
    /// Receivers that have not said hello yet.
    pub(crate) strangers: Lobby,
    roster: Arc<Roster>,
    sessions_begun: AtomicU64,
    /// Encoded bytes read ahead.
    pub(crate) staging: Arc<Staging>,
    pub(crate) share: Arc<Share>,
    manifests: Mutex<HashMap<String, Arc<Manifest>>>,
}

/// A receiver that has not said hello yet.
pub(crate) struct UnauthenticatedPeer {
    pub(crate) place: Place,
    pub(crate) standing: Option<ConnectionAuth>,
}

// === impl Worker ===

impl Worker {
    pub(crate) fn new(
        config: AugmentConfig,
        access: Access,
        Started { backend, pool, imports }: Started,
        storage: StorageClient,
        tokenizers: Tokenizers,
    ) -> Self {
        Self {
            name: config.advertise.clone(),
            access,
            backend,
            imports,
            storage,
            pool,
            tokenizers,
            bad_samples: BadSampleLog::default(),
            drain: CancellationToken::new(),
            stop: CancellationToken::new(),
            lost: OnceLock::new(),
            device_lost: CancellationToken::new(),
            strangers: Lobby::new("sessions", config.security.strangers_max as usize),
            roster: Roster::new(config.sessions.sessions_max),
            sessions_begun: AtomicU64::new(0),
            staging: Staging::new(config.leases.staging_bytes),
            share: Share::new(config.leases.share_bytes),
            manifests: Mutex::default(),
            config,
        }
    }

    /// Notes that this worker's device is gone and that no other one here can do its work.
    pub(crate) fn lose_device(&self, reason: &str) {
        if self.lost.set(reason.to_owned()).is_ok() {
            self.device_lost.cancel();
        }
    }

    /// Resolves, with the reason, when the device is gone.
    pub(crate) async fn device_lost(&self) -> String {
        self.device_lost.cancelled().await;
        self.lost.get().cloned().unwrap_or_default()
    }

    /// The number of one more session, unique in this process.
    pub(crate) fn number_session(&self) -> u64 {
        self.sessions_begun.fetch_add(1, Ordering::Relaxed)
    }

    /// A seat for the session `id` whose receiver has said hello, over a connection that stays from now on.
    ///
    /// # Errors
    /// There are as many as may be.
    pub(crate) fn admit(
        &self,
        id: u64,
        hello: &SessionHello,
        standing: Option<&ConnectionAuth>,
    ) -> Result<RosterSeat, SessionError> {
        let max = self.config.sessions.sessions_max;
        let seat = self.roster.enter(id, &hello.receiver, hello.sessions_held);
        let seat = seat.map_err(|is_kept| SessionError::Full { max, is_kept })?;
        match standing.is_none_or(ConnectionAuth::let_in) {
            true => Ok(seat),
            false => Err(SessionError::Full { max, is_kept: false }),
        }
    }

    /// The manifest of a dataset: the one meant if it is known here, else what the storage tier
    /// has now. Its digest may differ.
    pub(crate) async fn manifest(
        &self,
        dataset: &DatasetRef,
    ) -> Result<Arc<Manifest>, StorageClientError> {
        let lock = || self.manifests.lock().unwrap_or_else(PoisonError::into_inner);
        let known = lock().get(&dataset.name).cloned();
        if let Some(known) = known.filter(|known| known.digest() == dataset.manifest) {
            return Ok(known);
        }
        let manifest = Arc::new(self.storage.manifest(&dataset.name).await?);
        let mut kept = lock();
        if kept.len() >= MANIFESTS_KEPT {
            kept.clear();
        }
        kept.insert(dataset.name.clone(), Arc::clone(&manifest));
        Ok(manifest)
    }
}
