//! A worker that has as many sessions as it may, told from others that are short of something for a moment.

use tonic::Status;
use tonic::metadata::MetadataValue;

/// Name in the metadata of a refusal.
const MARK: &str = "headwater-sessions-full";

/// The refusal of a worker that has as many sessions as it may.
#[must_use]
pub fn marked(mut refusal: Status) -> Status {
    refusal.metadata_mut().insert(MARK, MetadataValue::from_static("1"));
    refusal
}

/// Whether it is one.
#[must_use]
pub fn is_marked(refusal: &Status) -> bool {
    refusal.metadata().contains_key(MARK)
}
