//! Opens shared libraries while the program runs, so that it starts where they are absent.
//!
//! [`Dylib`] names a library: its file names and how to install it. [`Dylib::open`] opens one of
//! the files; [`Dylib::load`] also looks up a table of functions, which [`functions!`] declares. A
//! file that is damaged or lacks a function counts as absent: the error names the file and says
//! what is wrong with it. No library is ever closed, because CUDA and UCX do not survive that.
//!
//! Deliberately absent: what the functions do. Types and calls belong to the crate that uses them.
#![deny(unsafe_code)]

mod error;
mod known;
#[allow(unsafe_code)] // Opens libraries.
mod open;
#[allow(unsafe_code)] // Asks the C library for signal handlers, and puts them back.
mod signals;
#[allow(unsafe_code)] // Looks functions up by name.
mod table;

pub use error::DylibError;
pub use known::{CUDA_DRIVER, IBVERBS, NVJPEG, NVML, NVRTC, UCX};
pub use open::{Dylib, FunctionTable, Opened};
