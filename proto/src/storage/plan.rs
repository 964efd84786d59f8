//! Saying which shards will be wanted next.

use headwater_core::Digest;

use crate::augment::{MessageError, digest, fault};
use crate::v1;

/// Most shards of one plan.
pub const PLAN_SHARDS_MAX: usize = 256;

/// The shards of one dataset that a caller will want next. It takes the place of what the same caller
/// said of the dataset before; an empty one takes that back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardPlan {
    /// Name of the dataset.
    pub dataset: String,
    /// Digest of the manifest that the numbers refer to.
    pub manifest: Digest,
    /// Who says so: a number that the caller drew by chance when it started.
    pub caller: Digest,
    /// Shards, soonest first.
    pub shards: Vec<u32>,
}

// === impl ShardPlan ===

impl TryFrom<v1::PrefetchRequest> for ShardPlan {
    type Error = MessageError;

    fn try_from(request: v1::PrefetchRequest) -> Result<Self, MessageError> {
        let count = request.shards.len();
        if count > PLAN_SHARDS_MAX {
            return Err(fault("shards", format!("has {count} numbers, most is {PLAN_SHARDS_MAX}")));
        }
        Ok(Self {
            manifest: digest("manifest_digest", &request.manifest_digest)?,
            caller: digest("caller", &request.caller)?,
            dataset: request.dataset,
            shards: request.shards,
        })
    }
}

impl From<ShardPlan> for v1::PrefetchRequest {
    fn from(plan: ShardPlan) -> Self {
        Self {
            dataset: plan.dataset,
            manifest_digest: plan.manifest.to_bytes().to_vec().into(),
            shards: plan.shards,
            caller: plan.caller.to_bytes().to_vec().into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_survives_the_way_and_a_bad_one_is_named_by_its_field() {
        let shards = vec![3; PLAN_SHARDS_MAX];
        let (manifest, caller) = (Digest(7), Digest(8));
        let plan = ShardPlan { dataset: "d".to_owned(), manifest, caller, shards };
        let message = v1::PrefetchRequest::from(plan.clone());
        assert_eq!(ShardPlan::try_from(message.clone()).unwrap(), plan);
        let error =
            |message: v1::PrefetchRequest| ShardPlan::try_from(message).unwrap_err().to_string();
        let nobody = v1::PrefetchRequest { caller: Vec::new().into(), ..message.clone() };
        assert!(error(nobody).contains("caller"));
        let shards = vec![3; PLAN_SHARDS_MAX + 1];
        assert!(error(v1::PrefetchRequest { shards, ..message }).contains("shards"));
    }
}
