//! The kernels' own text, run on the processor, against the operations' definitions. No GPU is
//! asked for: docs/benchmarks/gpu.md says what only one can show.

mod compilers;
mod decoding;
mod emulation;
mod failures;
mod measures;
mod nvjpeg;
mod operations;
mod pictures;
mod proof;
mod races;
mod recipes;
mod scheduling;
mod sinks;
