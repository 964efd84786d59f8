//! The GPU back end: kernels in place of the processor's operations.
//!
//! `source` is the kernels' text, `load` decides where samples lie on a device and what is launched
//! on them, `renderer` takes samples through it. A [`Device`] is all that is asked of a GPU; `driver`
//! is the one there is. What is random, the taps of the filters and the tables of the casts come from
//! the same code as for the processor, so that a part has the same bytes wherever it was made.
//!
//! Deliberately absent: leases, threads, links, and a decoder of its own: images are decoded by the
//! processor, whose pixels are part of what a batch is.

mod arena;
mod backend;
mod device;
mod driver;
mod load;
mod measure;
mod record;
mod records;
mod renderer;
mod source;
mod tables;
mod tally;
mod tiles;

pub use backend::{CudaBackend, CudaSettings};
pub use device::{Device, DeviceError, Kernel, Launch};
pub use measure::{KernelTime, MeasureError, Stopwatch};
pub use renderer::CudaRenderer;
pub use source::SOURCE;
pub use tally::{Counts, Tally};
