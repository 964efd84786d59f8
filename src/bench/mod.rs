//! What the tiers cost: images through all three of them beside the same kernels in a plain loop.

mod cpu;
mod pipeline;
mod plain;

pub(crate) use pipeline::{Pipeline, Round};
