//! What `headwater datasets` does with the hub's datasets: counts, checks, names for Python.
//!
//! `headwater_config::hub` knows where the hub is and what it contains.

mod buckets;
mod each;
mod python;
mod rules;
mod sizes;
mod sums;

pub(crate) use buckets::ImageHeaders;
pub(crate) use each::in_order;
pub(crate) use python::{module_name, stubs};
pub(crate) use rules::Rules;
pub(crate) use sizes::{Sizes, measure, measure_splits};
pub(crate) use sums::{sha256, sum_line};
