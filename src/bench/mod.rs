//! What the tiers cost: images through all three of them beside the same kernels in a plain loop; what a
//! GPU is worth; and how fast links are.

mod cpu;
mod gpu;
pub(crate) mod link;
mod pipeline;
mod plain;

pub(crate) use gpu::{Gpu, Kernels, Uploads, with_nvjpeg};
pub(crate) use pipeline::{Pipeline, Round};
