//! What is read of a sample, and how it is checked.

use std::path::PathBuf;

use headwater_config_derive::Section;
use headwater_core::fields::IMAGE_FIELD;
use headwater_proto::augment::BadSamplePolicy;
use serde::{Deserialize, Serialize};

/// What is read of a sample, and how it is checked.
#[derive(Clone, Debug, PartialEq, Section)]
pub struct SampleConfig {
    /// What happens with a sample that cannot be read: `substitute` or `fail`.
    #[key(default = BadSamplePolicy::Substitute)]
    pub on_bad_sample: BadSamplePolicy,
    /// Python that finds the source of a recipe's Python functions; the source is part of the
    /// recipe. Their code is not run. In Python, the loader uses its own interpreter.
    #[key(default = "python3".into())]
    pub python: PathBuf,
    /// Folders in which their modules are searched first.
    pub python_path: Vec<PathBuf>,
    /// Field of the image; `|` between alternatives.
    #[key(default = IMAGE_FIELD.into())]
    pub image_field: String,
    /// Field of the class index; empty: no labels, all are -1.
    #[key(default = "cls|label".into())]
    pub label_field: String,
    /// Which parts are compared with the worker's checksum on arrival: `network` (all that did not
    /// come by `shm`), `sampled` (of network parts: the first 64 of each session and after a
    /// mismatch, then one in 16), `all` or `off`.
    #[key(default = Verify::Network)]
    pub verify: Verify,
    /// Compares each batch when the trainer releases it with what it was given; an error if it has
    /// changed. For tests of workers and links: it reads every batch twice more.
    pub verify_held: bool,
}

/// Which parts are compared with their checksum on arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verify {
    /// Those that came over a network link.
    Network,
    /// Of network parts: the first 64 of each session and after a mismatch, then one in 16.
    Sampled,
    /// All.
    All,
    /// None.
    Off,
}
