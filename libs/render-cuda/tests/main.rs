//! The tests of this crate in one program. The kernels' own text, run on the processor, against the operations' definitions. No GPU is
//! asked for: docs/benchmarks/gpu.md says what only one can show.

mod compilers;
mod decoding;
mod emulation;
mod failures;
mod measures;
mod nvjpeg;
mod operations;
#[path = "../../render/tests/support/photos.rs"]
mod photos;
mod pictures;
mod proof;
mod races;
mod recipes;
mod scheduling;
mod sinks;
