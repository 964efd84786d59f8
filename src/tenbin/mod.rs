//! Tensorcom's binary form of tensors: a header and the bytes, in C order, little-endian.
//!
//! Source: `tensorcom/tenbin.py` of the PyPI package tensorcom 0.1.0.
//!
//! Deliberately absent: sockets and files. Here are the bytes that go through them.

mod decode;
mod encode;

pub(crate) use decode::{Tensor, tensors_of_message};
pub(crate) use encode::{Chunk, chunk, in_one_frame, scale_inv, write_framed};

/// Begins each chunk of a message in one frame.
const MAGIC: &[u8; 8] = b"~TenBin~";
/// Chunks are padded to multiples of this.
const CHUNK_ALIGN: usize = 64;
/// Bytes of a header's fields for dtype, info and number of dimensions, each.
const FIELD: usize = 8;
/// Dimensions that a tensor may have there.
const RANK_MAX: usize = 9;
