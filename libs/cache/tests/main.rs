//! The tests of this crate in one program: it is linked once, and its tests run side by side.

mod damage;
mod entries;
mod full;
mod killed_evictions;
mod processes;
mod support;
