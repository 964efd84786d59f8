//! Looks at ranks and workers, asks the controller, has SLURM start and end workers.
//!
//! Deliberately absent: the decision, which is `headwater-autoscale`'s and knows no clock; Kubernetes, whose own
//! autoscaler the Helm chart sets up.

mod jobs;
mod looking;
mod rounds;
mod slurm;

pub(crate) use rounds::{Rounds, describe, pause};
