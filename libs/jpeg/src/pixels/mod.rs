//! From coefficients to colours: dequantisation and inverse DCT, upsampling, colour conversion.
//!
//! [`Idct`] turns blocks of coefficients into samples of a component's plane. [`Upsampler`] turns the planes of all
//! components into rows of colours: it upsamples each row by `upsample` and converts it by `colour`. Each stage has a
//! plain version, which defines the result, and faster twins that give the same bytes. The results are those of
//! libjpeg-turbo. Deliberately absent: bits, markers, memory of whole images.

pub(crate) mod colour;
mod idct;
mod rows;
mod steps;
#[cfg(test)]
mod tests;
pub(crate) mod upsample;

pub(crate) use idct::{Idct, MAX_STEP, NATURAL, Pick};
pub(crate) use rows::{Component, Components, Upsampler};
pub use rows::{Output, Window};
