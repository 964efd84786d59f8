//! Boxes of a row that are erased, after the view has been normalised and cast.

pub mod plain;
