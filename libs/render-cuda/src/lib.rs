//! The GPU back end: kernels in place of the processor's operations.
//!
//! `source` is the kernels' text, `load` decides where samples lie on a device and what is launched
//! on them, `renderer` takes samples through it. A [`Device`] is all that is asked of a GPU; `driver`
//! is the one there is. What is random, the taps of the filters and the tables of the casts come from
//! the same code as for the processor, so that a part has the same bytes wherever it was made.
//!
//! Images are decoded by the processor, whose pixels are part of what a batch is; by kernels that make the same
//! pixels (`decode`), where the worker is configured so; or by `nvjpeg`, where the recipe says so.
//!
//! Deliberately absent: leases, threads, links.
#![deny(unsafe_code)]

mod arena;
mod backend;
mod coded;
mod decode;
mod device;
mod driver;
mod error;
mod job;
mod jpegs;
mod launch;
mod load;
mod measure;
mod memory;
mod metrics;
mod nvjpeg;
mod proof;
mod record;
mod records;
mod renderer;
mod rows;
mod source;
mod steps;
mod stream;
mod sums;
mod tables;
mod tally;
mod tiles;

pub use backend::{CodedAlone, CudaBackend, CudaSettings, JpegsAlone};
pub use decode::{CodedImage, Ways, entries_of};
pub use device::{Device, DeviceError, JpegError, JpegImage};
pub use error::ProofError;
pub use launch::{Kernel, Launch};
pub use measure::{KernelTime, MeasureError, Stopwatch};
pub use metrics::describe_metrics;
pub use nvjpeg::NvJpegSettings;
pub use renderer::CudaRenderer;
pub use rows::DirectRows;
pub use source::SOURCE;
pub use steps::{Step, operations};
pub use tally::{Counts, Tally};
