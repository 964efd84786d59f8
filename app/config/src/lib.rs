//! Configuration: reads `headwater.toml`, the environment and overrides into the tiers' sections.
//!
//! [`Loaded::read`] merges the layers and keeps where each value came from. The program and the
//! Python wheel both use it, so they read the same files and variables and report the same errors.
//! Each tier's section is a struct in the tier's own `config.rs`; [`Config`] is all of them.
//! Meaning and unit of a key stand on the field of that struct (`headwater-config-derive`).
//!
//! Deliberately absent: flags and Python keywords. Their doors turn them into [`Setting`]s.
//! Nothing is started or connected here, and a file is read once.
#![forbid(unsafe_code)]

mod autoscale;
mod config;
mod dataset;
mod error;
mod fault;
mod field;
pub mod hub;
mod launcher;
mod layers;
mod monitor;
mod origin;
pub mod publish;
mod recipe;
mod reference;
mod renamed;
mod sections;
mod setting;
mod show;
mod tensor;
mod wanted;

pub use autoscale::AutoscaleConfig;
pub use config::Config;
pub use dataset::{DatasetEntry, HubNeed, Shards};
pub use error::ConfigError;
pub use fault::nearest;
pub use field::FieldEntry;
pub use layers::{Loaded, Sources, read_section};
pub use monitor::MonitorConfig;
pub use origin::FROM_DEFAULT;
pub use recipe::RecipeConfig;
pub use reference::{example, markdown};
pub use sections::{Key, Section, sections};
pub use setting::Setting;
pub use show::show;
pub use tensor::TensorEntry;
