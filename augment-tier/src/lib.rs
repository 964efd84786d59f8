//! Augment tier: decodes, augments, casts.
//!
//! `decode` turns encoded bytes into pixels, `ops` holds the operations of a recipe, `render`
//! takes one sample through all of it. These know nothing of leases, sockets, clocks or threads:
//! they are pure functions of their arguments that keep their memory.

pub mod decode;
pub mod image;
pub mod ops;
pub mod render;
