//! How fast links are between two processes of this host. They are compared with a copy in memory,
//! with a bare socket loop, and with the usual programs for networks (`ib_write_bw`,
//! `ucx_perftest`) if they are installed.
//!
//! The program starts itself again as the worker: `receiver` makes one line of text that the
//! other process gives to `worker`; orders and figures go over its standard input and output.
//! Each round takes every way in turn, so that a noisy machine is unfair to all alike.

mod ends;
mod orders;
mod plan;
mod raw;
mod receiver;
mod report;
mod talk;
mod tools;
mod ways;
mod worker;

pub(crate) use plan::Plan;
pub(crate) use receiver::receiver;
pub(crate) use report::Summary;
pub(crate) use worker::worker;
