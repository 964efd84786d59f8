//! Looks at ranks and workers, asks the controller, has workers started and ended.
//!
//! Deliberately absent: the decision, which is `headwater-autoscale`'s and knows no clock.

mod backend;
mod kubernetes;
mod looking;
mod rounds;
mod slurm;

pub(crate) use rounds::{Rounds, describe, pause};
