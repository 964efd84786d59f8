//! Shows people the batches of a training rank: keys, draws and a picture.
//!
//! [`BatchView`] answers `/batch.json` and `/batch.png` of a rank's metrics server. It copies a batch when
//! somebody asks, never otherwise.
//!
//! Deliberately absent: HTTP, pages, any effect on the batches that the trainer gets.
#![forbid(unsafe_code)]

mod sample;
mod show;
mod sizes;

pub use sample::{DrawSource, Follower, NamedView, SampleView, Substitution};
pub use show::BatchView;
