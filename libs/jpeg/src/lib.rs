//! Decodes baseline JPEG to the pixels of libjpeg-turbo (accurate inverse DCT, smooth upsampling), faster.
//!
//! Two answers only: the pixels that libjpeg-turbo gives for a file in which it finds nothing amiss, or a
//! [`Declined`], after which libjpeg-turbo must be asked. Whatever is damaged, rare or strange is declined. So
//! libjpeg-turbo, which everybody else has, stays the judge: the reference that decides which result is right
//! (docs/glossary.md).
//!
//! `header` reads the markers, `huffman` makes tables, `stream` takes the stuffing out, `entropy` turns bits into
//! coefficients, `pixels` turns these into samples and colours, `layout` says where samples lie, `entries` are places
//! in the bits where decoding can begin, `choice` measures which way is the fastest, an [`Outline`] is what a decoder
//! elsewhere gets. Deliberately absent: files, threads, other formats, repair; clocks, but for that choice.
#![deny(unsafe_code)]

mod choice;
mod declined;
mod decoder;
mod entries;
mod entropy;
mod header;
mod huffman;
mod layout;
mod pixels;
mod planes;
#[cfg(test)]
mod samples;
mod stream;

pub use choice::{Choice, Measured, Speeds, Way};
pub use declined::Declined;
pub use decoder::{Colour, Decoded, Decoder, Image, Layer, Outline, Request};
pub use entries::{ENTRIES_MAX, Entries};
pub use entropy::{End, Segment};
pub use huffman::Code;
pub use layout::{Layout, Plane};
pub use pixels::{Output, Window};
