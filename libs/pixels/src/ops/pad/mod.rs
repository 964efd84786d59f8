//! A view that reaches beyond its image.

pub mod plain;
