//! The API server of the cluster that a pod runs in, as far as the tiers ask it for anything: how
//! many pods a workload has, and where the pods of a Service are.
//!
//! Blocks; every call has a limit of time. Deliberately absent: watches, caches, other objects,
//! kubeconfig files. Who asks looks again when it wants to know again.
#![forbid(unsafe_code)]

mod error;
mod scale;
mod server;
mod slices;

pub use error::KubernetesError;
pub use scale::{Scale, Workload};
pub use server::{ApiServer, SERVICE_ACCOUNT};
pub use slices::{ServicePort, Slices};
