//! Normal noise on levels.

pub mod plain;
