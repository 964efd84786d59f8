//! How large each tier has to be for a job: `headwater plan --size`.
//!
//! Deliberately absent: measuring. Rates come from `headwater bench` or from docs/benchmarks; here
//! they are multiplied out. docs/sizing.md has the formulas in words.

mod flags;
mod model;
mod rates;
mod render;

pub(crate) use flags::SizeFlags;
pub(crate) use model::workers_for;
pub(crate) use render::{json, text};
