//! The hub: a folder of datasets, `CONFIDENTIALITY/MODALITY/NAME/SPLIT/*.tar`.
//!
//! The folders are all there is: no list, no database. What lies elsewhere is reported, not served.
//! [`HubConfig::root`] says where it is, [`Hub`] finds a dataset of it by a whole or a short name.

mod name;
mod root;
mod tree;

pub use name::{Reference, SplitName};
pub use root::{HubConfig, HubRoot, Surroundings};
pub use tree::{Hub, Split, Stray};
