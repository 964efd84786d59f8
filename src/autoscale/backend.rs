//! Who starts and ends workers.

use anyhow::Result;

/// Somewhere workers run.
pub(crate) trait Backend {
    /// How many workers it was asked for. Also looks after those there are: one that was lost is
    /// replaced.
    ///
    /// # Errors
    /// It cannot be asked now; it may be asked again.
    fn asked(&mut self) -> Result<u32>;

    /// Requests this number of workers. Returns before they serve.
    ///
    /// # Errors
    /// As for [`Backend::asked`].
    fn ask(&mut self, workers: u32) -> Result<()>;

    /// Addresses of `/metrics` of workers that are configured nowhere.
    fn metrics(&self) -> Vec<String> {
        Vec::new()
    }
}
