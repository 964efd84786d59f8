//! What the tiers cost: images through all three of them beside the same kernels in a plain loop; what a
//! GPU is worth; how fast links are; and how fast samples are read.

mod cpu;
mod gpu;
pub(crate) mod link;
mod pipeline;
mod plain;
pub(crate) mod storage;

pub(crate) use gpu::{Gpu, Kernels, Uploads, with_nvjpeg};
pub(crate) use pipeline::{Pipeline, Round};
