//! The plain versions against libjpeg-turbo, the twins against the plain versions.

mod colours;
mod forward;
mod idct;
mod images;
mod noise;
mod rows;
mod writer;
