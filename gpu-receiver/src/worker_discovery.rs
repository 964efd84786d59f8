//! Looking for workers: once where they are written down, again and again where they are found by
//! name or file.

use std::time::Duration;

use headwater_discovery::{DiscoveryError, Places, Sight};
use tokio::sync::mpsc;

use crate::events::{Command, Event};

/// Tells the driver which workers there should be, and again whenever that changes. Ends at once
/// where nothing can change, else with the driver.
pub(crate) async fn follow_workers(
    mut places: Places,
    refresh: Duration,
    events: mpsc::Sender<Event>,
) {
    let mut last: Option<Sight> = None;
    loop {
        let looked = tokio::task::spawn_blocking(move || (places.look(), places)).await;
        let Ok((sight, looked)) = looked else { return };
        places = looked;
        let before = last.as_ref();
        if before.is_none_or(|before| before.troubles != sight.troubles) {
            tell(&sight.troubles, &events).await;
        }
        if before.is_none_or(|before| before.addresses != sight.addresses) {
            log_change(before.map_or(&[], |before| &before.addresses), &sight.addresses);
            let workers = sight.addresses.as_slice().into();
            if events.send(Event::Command(Command::SetWorkers(workers))).await.is_err() {
                return;
            }
        }
        last = Some(sight);
        if !places.change() || events.is_closed() {
            return;
        }
        // Not by inotify: names have none, nor do files that another host writes.
        tokio::time::sleep(refresh).await;
    }
}

/// Once for as long as they stay the same, and when there are none any more.
async fn tell(troubles: &[DiscoveryError], events: &mpsc::Sender<Event>) {
    let troubles: Vec<String> = troubles.iter().map(ToString::to_string).collect();
    for error in &troubles {
        tracing::warn!(error, "looking for workers goes on");
    }
    let told = Event::Command(Command::WorkersMissing(troubles.join("; ")));
    let _ = events.send(told).await;
}

fn log_change(before: &[String], now: &[String]) {
    let only_in = |one: &[String], other: &[String]| -> String {
        let only: Vec<&str> =
            one.iter().filter(|a| !other.contains(a)).map(String::as_str).collect();
        only.join(",")
    };
    let (new, gone) = (only_in(now, before), only_in(before, now));
    tracing::info!(workers = now.len(), new, gone, "workers found");
}
