//! NumPy's `.npy` and `.npz` files: types of elements, headers of arrays, members of archives, and a whole array out
//! of bytes in memory.
//!
//! Deliberately absent: where files lie, which arrays become samples, tensors.
#![forbid(unsafe_code)]

mod array;
mod element;
mod header;
mod write;
mod zip;

pub use array::{Array, ArrayFault, npy, npz};
pub use element::{Element, Kind};
pub use header::{Extent, Fault, Header, MAGIC, PREFIX_BYTES};
pub use write::write;
pub use zip::{Archive, Member, Readable, ZipError};
