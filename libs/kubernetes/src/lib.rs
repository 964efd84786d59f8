//! Where the pods of a Service are, by the API server of the cluster that a pod runs in.
//!
//! Blocks; every call has a limit of time, and a watch a limit of silence. Deliberately absent: caches, other objects,
//! changes of any object, kubeconfig files.
#![forbid(unsafe_code)]

mod error;
mod server;
mod slices;

pub use error::KubernetesError;
pub use server::{ApiServer, SERVICE_ACCOUNT};
pub use slices::{Listing, ServicePort, Slices};
