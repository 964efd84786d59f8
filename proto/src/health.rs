//! gRPC's own health service (`grpc.health.v1.Health`), for load balancers and `grpc_health_probe`.

use tonic::server::NamedService;
use tonic_health::ServingStatus;
use tonic_health::pb::health_server::{Health, HealthServer};
use tonic_health::server::{HealthReporter, health_reporter};

/// Says how a server is.
#[derive(Clone, Debug)]
pub struct ServerHealth {
    reporter: HealthReporter,
    /// Services that are asked about: the server as a whole has the empty name.
    names: [&'static str; 2],
}

// === impl ServerHealth ===

impl ServerHealth {
    /// Of a server that serves `S` from now on, and the service that answers.
    pub async fn serving<S: NamedService>() -> (Self, HealthServer<impl Health>) {
        let (reporter, service) = health_reporter();
        let health = Self { reporter, names: ["", S::NAME] };
        health.set(ServingStatus::Serving).await;
        (health, service)
    }

    /// It takes no more work.
    pub async fn drains(&self) {
        self.set(ServingStatus::NotServing).await;
    }

    async fn set(&self, status: ServingStatus) {
        for name in self.names {
            self.reporter.set_service_status(name, status).await;
        }
    }
}
