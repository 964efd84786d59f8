//! The rows of links: sums over all ranks.

use std::collections::BTreeMap;

use headwater_core::escape_control;

use super::sum;
use crate::monitor::process::{Process, Tier};
use crate::monitor::report::Link;

/// What comes by each kind of link.
pub(crate) fn links<'a>(processes: impl Iterator<Item = &'a Process>) -> Vec<Link> {
    let mut links: BTreeMap<String, Link> = BTreeMap::new();
    for process in processes.filter(|process| process.is_up() && process.holds(Tier::Receiver)) {
        let Some(metrics) = process.series().latest() else { continue };
        let bytes = process.rates("headwater_receiver_bytes_total", "link");
        let parts = process.rates("headwater_receiver_parts_total", "link");
        let dropped = metrics.by_label("headwater_link_parts_dropped_total", "link");
        for (shown, _) in metrics.by_label("headwater_receiver_parts_total", "link") {
            let name = escape_control(&shown).into_owned();
            let link = links
                .entry(name.clone())
                .or_insert_with(|| Link { link: name.clone(), ..Link::default() });
            link.bytes_per_s = sum([link.bytes_per_s, bytes.get(&name).copied()].into_iter());
            link.parts_per_s = sum([link.parts_per_s, parts.get(&name).copied()].into_iter());
            let new = dropped.get(&shown).copied().unwrap_or(0.0) as u64;
            link.dropped = Some(link.dropped.unwrap_or(0) + new);
        }
    }
    links.into_values().collect()
}
