//! The service that shares batches among trials, in this process, for trials that go where a test wants.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use headwater_core::Recipe;
use headwater_receiver::{Callbacks, DatasetUse, HostService, Receiver, ReceiverConfig};
use headwater_transport::packets::PacketSocket;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use tokio::runtime::Runtime;

pub struct SharedHost {
    // Goes first: what its tasks have of the service must not be the last of it.
    runtime: Runtime,
    service: Arc<HostService>,
    config: ReceiverConfig,
    recipe: Recipe,
    datasets: Vec<DatasetUse>,
}

// === impl SharedHost ===

impl SharedHost {
    /// A service of `photos`, and trials of the same configuration.
    pub fn open(mut config: ReceiverConfig, recipe: Recipe) -> Self {
        config.window.host_share = true;
        let datasets = vec![DatasetUse { name: "photos".into(), weight: None }];
        let service = HostService::open(&config, recipe.clone(), &datasets).expect("a service");
        let runtime = Runtime::new().expect("a runtime");
        Self { runtime, service: Arc::new(service), config, recipe, datasets }
    }

    pub fn trial(&self) -> Receiver {
        self.trial_and_line().0
    }

    /// A trial that ends after `epochs` epochs.
    pub fn trial_of(&self, epochs: u32) -> Receiver {
        self.enter(ReceiverConfig { epochs, ..self.config.clone() }).0
    }

    /// A trial, and its end of the connection.
    pub fn trial_and_line(&self) -> (Receiver, OwnedFd) {
        self.enter(self.config.clone())
    }

    fn enter(&self, config: ReceiverConfig) -> (Receiver, OwnedFd) {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let pair = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None);
        let (ours, theirs) = pair.expect("a pair");
        let line = ours.try_clone().expect("a descriptor");
        let service = Arc::clone(&self.service);
        self.runtime.spawn(async move {
            let socket = PacketSocket::from_fd(theirs).expect("a socket");
            if let Err(error) = service.attend(socket, std::future::pending()).await {
                eprintln!("the service cannot go on with a trial: {error}");
            }
        });
        let callbacks = Callbacks { host: Some(ours), ..Callbacks::default() };
        let trial = Receiver::open_with(config, self.recipe.clone(), &self.datasets, callbacks);
        (trial.expect("a trial"), line)
    }
}
