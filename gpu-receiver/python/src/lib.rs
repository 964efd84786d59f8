//! The Python module `headwater`: a receiver as an iterable loader, its tensors through DLPack.
//!
//! Knows Python's conventions (iteration, states, arrays, exceptions) and turns them into calls of
//! the receiver; where it is given data, starts services for them. Deliberately absent: anything that
//! decides what is in a batch or when it comes,
//! and any array library; NumPy and PyTorch are imported when a method that names them is called.
#![deny(unsafe_code)]

mod batch;
mod data;
mod detached;
mod device;
mod dlpack;
mod drawn;
mod encoded;
mod errors;
mod group;
mod iteration;
mod json;
mod keywords;
mod loader;
mod local;
mod memory;
mod opening;
mod options;
mod order;
mod pace;
mod packed;
mod profiler;
mod progress;
mod ray;
mod reduce;
mod render;
mod sample;
mod shared;
mod signature;
mod telemetry;
mod tensor;
mod threads;
mod trace;

use pyo3::prelude::*;

/// The native half of the package `headwater`.
#[pymodule(name = "_native")]
mod native {
    #[pymodule_export]
    use super::batch::Batch;
    #[pymodule_export]
    use super::iteration::Iteration;
    #[pymodule_export]
    use super::loader::Loader;
    #[pymodule_export]
    use super::local::program;
    #[pymodule_export]
    use super::packed::Packed;
    #[pymodule_export]
    use super::ray::service_config;
    #[pymodule_export]
    use super::render::{Renderer, decode, render};
    #[pymodule_export]
    use super::sample::Sample;
    #[pymodule_export]
    use super::tensor::Tensor;
    #[pymodule_export]
    use super::trace::Trace;

    #[pymodule_export]
    #[allow(non_upper_case_globals, reason = "Python's name for it")]
    const __version__: &str = env!("CARGO_PKG_VERSION");
}
