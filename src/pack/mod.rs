//! Makes shards of a folder of images. The same folder always gives the same bytes: names are
//! sorted, and no time, user or machine is written.

mod images;
mod plan;
mod shard;
mod staging;

pub(crate) use images::{Image, Images};
pub(crate) use plan::{Limits, ShardPlan, plan};
pub(crate) use shard::write_shard;
pub(crate) use staging::Staging;
