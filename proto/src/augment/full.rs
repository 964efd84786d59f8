//! A worker that has as many sessions as it may, told from others that are short of something for a moment.

use tonic::Status;
use tonic::metadata::MetadataValue;

/// Name in the metadata of a refusal.
const MARK: &str = "headwater-sessions-full";
/// Its values: a place will be free for whoever asked, or none.
const KEPT: &str = "place-kept";
const NONE: &str = "none";

/// The refusal of a worker that has as many sessions as it may; whether it keeps a place for whoever asked.
#[must_use]
pub fn marked(mut refusal: Status, keeps_place: bool) -> Status {
    let value = MetadataValue::from_static(if keeps_place { KEPT } else { NONE });
    refusal.metadata_mut().insert(MARK, value);
    refusal
}

/// Whether it is one, and whether a place is kept.
#[must_use]
pub fn mark(refusal: &Status) -> Option<bool> {
    Some(refusal.metadata().get(MARK)?.as_bytes() == KEPT.as_bytes())
}
