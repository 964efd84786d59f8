//! The order in which Megatron reads token corpora: which documents a sequence is cut from, and which corpus the
//! next sequence comes from.
//!
//! Every number here is equal to one of megatron-core 0.16.1: `GPTDataset`'s document, sample and shuffle index, and
//! `BlendedDataset`'s indices. `tests/certificate.rs` compares them with what that package computes. Two things
//! differ: corpora are counted in 32 bits, so that more than 32,767 work, and nothing is computed before it is asked for.
//!
//! Deliberately absent: files, tokens, tensors, ranks.
#![forbid(unsafe_code)]

mod blend;
mod corpus;
mod list;
mod mixture;
mod numpy;
mod split;

pub use blend::{Blend, Pick};
pub use corpus::{CorpusOrder, CorpusSize, Piece};
pub use list::{BlendList, ListFault};
pub use mixture::{Mixture, MixtureFault, Part, Wanted};
pub use numpy::{RandomState, pairwise_sum};
pub use split::{Split, SplitFault};
