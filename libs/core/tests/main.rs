//! The tests of this crate in one program: it is linked once, and its tests run side by side.
//! Cargo.toml names those that need a process of their own, and says why.

mod digests;
mod epochs;
mod fields;
mod foundations;
mod geometry;
mod laws;
mod lengths;
mod list;
mod masks;
mod mixing;
mod order;
mod per_rank;
mod recipes;
mod resume;
mod support;
