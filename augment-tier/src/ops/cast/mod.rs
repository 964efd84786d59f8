//! Normalise and cast: the last step, from uint8 planes to the bytes of a tensor's row.

pub mod e4m3;
pub mod plain;
mod table;

pub use table::CastTable;
