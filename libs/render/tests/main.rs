//! The tests of this crate in one program: it is linked once, and its tests run side by side.
//! Cargo.toml names those that need a process of their own, and says why.

mod decode_scaling;
mod entry_points;
mod golden;
mod part_of_image;
#[path = "support/photos.rs"]
mod photos;
