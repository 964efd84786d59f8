//! What the tiers cost: images through all three of them beside the same kernels in a plain loop; what a
//! GPU is worth; how fast links are; and how fast samples are read.

mod cpu;
pub(crate) mod gpu;
pub(crate) mod link;
mod pipeline;
mod plain;
pub(crate) mod report;
pub(crate) mod storage;

pub(crate) use gpu::{DecodingKernels, Gpu, Kernels, Pass, Side, Uploads, with_nvjpeg};
pub(crate) use pipeline::{Pipeline, Summary as PipelineSummary};
