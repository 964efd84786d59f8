//! A worker under test.

use std::net::SocketAddr;
use std::sync::Arc;

use headwater_augment::{
    Augment, AugmentConfig, AugmentError, BackendChoice, ReadConfig, SessionConfig, bind,
};
use headwater_render::backend::Backend;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::SOON;
use super::storage::TestStorage;

pub(crate) struct TestWorker {
    pub(crate) address: SocketAddr,
    shutdown: Option<oneshot::Sender<()>>,
    served: JoinHandle<Result<(), AugmentError>>,
}

/// Two threads of the processor, any port, short patience.
pub(crate) fn config(storage: &TestStorage) -> AugmentConfig {
    AugmentConfig {
        listen: "127.0.0.1:0".into(),
        storage: vec![storage.address.to_string()],
        reads: ReadConfig { storage_wait_ms: 300, ..ReadConfig::default() },
        threads: 2,
        backend: BackendChoice::Cpu,
        sessions: SessionConfig { drain_timeout_ms: 10_000, ..SessionConfig::default() },
        ..AugmentConfig::default()
    }
}

// === impl TestWorker ===

impl TestWorker {
    pub(crate) async fn start(storage: &TestStorage) -> Self {
        Self::serve(Augment::open(config(storage)).await.unwrap(), &config(storage)).await
    }

    pub(crate) async fn start_with(config: AugmentConfig, backend: impl Backend + 'static) -> Self {
        let augment = Augment::open_with(config.clone(), Arc::new(backend)).await.unwrap();
        Self::serve(augment, &config).await
    }

    async fn serve(augment: Augment, config: &AugmentConfig) -> Self {
        let listener = bind(config).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (shutdown, asked) = oneshot::channel::<()>();
        let served = tokio::spawn(augment.serve_on(listener, async {
            let _ = asked.await;
        }));
        Self { address, shutdown: Some(shutdown), served }
    }

    /// Asks it to stop; it drains.
    pub(crate) fn shut_down(&mut self) {
        self.shutdown.take().expect("asked once").send(()).unwrap();
    }

    pub(crate) fn has_exited(&self) -> bool {
        self.served.is_finished()
    }

    /// Waits for it to have stopped.
    pub(crate) async fn exited(self) {
        timeout(SOON, self.served).await.expect("exit in time").unwrap().unwrap();
    }

    /// Waits for it to have given up.
    pub(crate) async fn failed(self) -> AugmentError {
        timeout(SOON, self.served).await.expect("exit in time").unwrap().unwrap_err()
    }
}
