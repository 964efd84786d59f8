//! The tests of this crate in one program: it is linked once, and its tests run side by side.
//! Cargo.toml names those that need a process of their own, and says why.

mod damage;
mod entries;
mod offers;
mod support;
