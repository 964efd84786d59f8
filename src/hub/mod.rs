//! The hub: a folder of datasets, `CONFIDENTIALITY/MODALITY/NAME/SPLIT/*.tar`.
//!
//! The folders are all there is: no list, no database. What lies elsewhere is told, not served.

mod each;
mod name;
mod python;
mod rules;
mod sizes;
mod sums;
mod tree;

pub(crate) use each::in_order;
pub(crate) use name::{Reference, SplitName};
pub(crate) use python::stubs;
pub(crate) use rules::Rules;
pub(crate) use sizes::{Sizes, measure};
pub(crate) use sums::{SUMS_FILE, Sums, sha256, sum_line};
pub(crate) use tree::{Hub, Split};
