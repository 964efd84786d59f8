//! What the tiers cost: images through all three of them beside the same kernels in a plain loop. And
//! what a GPU is worth.

mod cpu;
mod gpu;
mod pipeline;
mod plain;

pub(crate) use gpu::{Gpu, Kernels, Uploads, with_nvjpeg};
pub(crate) use pipeline::{Pipeline, Round};
