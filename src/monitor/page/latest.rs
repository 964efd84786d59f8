//! The report that is shown now.

use std::sync::Arc;

use anyhow::Result;

use crate::monitor::Report;

/// A report as it is sent, with the data that the server needs.
#[derive(Clone, Debug)]
pub(super) struct Latest {
    /// `/report.json`.
    pub(super) json: Arc<str>,
    /// Requests are passed on to these and no others.
    pub(super) ranks: Arc<[RankAddress]>,
}

/// Where a rank shows its metrics.
#[derive(Clone, Debug)]
pub(super) struct RankAddress {
    pub(super) address: String,
    /// Another user may have named it.
    pub(super) is_foreign: bool,
}

// === impl Latest ===

impl Latest {
    pub(super) fn new(report: &Report) -> Result<Self> {
        let ranks = report
            .ranks
            .iter()
            .map(|rank| RankAddress { address: rank.address.clone(), is_foreign: rank.is_foreign });
        Ok(Self { json: serde_json::to_string(report)?.into(), ranks: ranks.collect() })
    }
}
