//! The tests of this crate in one program: it is linked once, and its tests run side by side.

mod cuda;
#[path = "../../../tests/support/emulation.rs"]
mod emulation;
mod link;
mod nvcc;
mod twins;
