//! `headwater monitor --web`: the report as a page.

use std::time::Duration;

use anyhow::Result;
use headwater_access::AccessConfig;

use crate::cmd::serving::announce;
use crate::monitor::{Page, Watch};

/// How long a wait for a report may last; then there is another.
const WAIT: Duration = Duration::from_secs(60);

/// Serves every new report at `place`, until the process ends.
pub(super) fn serve(watch: &Watch, place: &str, security: &AccessConfig) -> Result<()> {
    let page = Page::open(place, security)?;
    let address = page.address();
    announce("page on", format_args!("http://{address}"));
    if page.is_open_to_all() {
        eprintln!(
            "warning: everybody who reaches {address} sees this page: set security.token_file, or serve it on this \
             host only with --web :{}",
            address.port()
        );
    }
    let mut seen = 0;
    loop {
        if let Some((number, report)) = watch.newer(seen, WAIT) {
            seen = number;
            page.show(&report)?;
        }
    }
}
