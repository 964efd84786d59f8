//! The report that is shown now.

use std::sync::Arc;

use anyhow::Result;

use crate::monitor::Report;

/// A report as it is sent, with the data that the server needs.
#[derive(Clone, Debug)]
pub(super) struct Latest {
    /// `/report.json`.
    pub(super) json: Arc<str>,
    /// Addresses of the ranks' metrics: requests are passed on to these and no others.
    pub(super) ranks: Arc<[String]>,
}

// === impl Latest ===

impl Latest {
    pub(super) fn new(report: &Report) -> Result<Self> {
        let ranks = report.ranks.iter().map(|rank| rank.address.clone());
        Ok(Self { json: serde_json::to_string(report)?.into(), ranks: ranks.collect() })
    }
}
