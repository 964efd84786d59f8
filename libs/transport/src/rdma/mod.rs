//! One-sided writes into registered slots.

pub mod ucx;
