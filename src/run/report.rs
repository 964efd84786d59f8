//! What a run did, tier by tier.

use std::fmt::Write as _;

use headwater_core::pluralize;
use headwater_proto::augment::WorkTimes;
use headwater_receiver::{Cause, Snapshot, Stalls};

use crate::run::Fed;
use crate::scrape::Metrics;

const FILE: &str = "headwater_storage_read_bytes_total{way=\"file\"}";
const GRPC: &str = "headwater_storage_read_bytes_total{way=\"grpc\"}";

/// The report as text. `workers` are the metrics of the workers.
pub(crate) fn report(fed: &Fed, workers: &Metrics) -> String {
    let mut text = String::new();
    for epoch in &fed.epochs {
        let _ = writeln!(
            text,
            "epoch {}: {} in {}, {} distinct; hash {}",
            epoch.number,
            pluralize(epoch.samples, "sample"),
            pluralize(epoch.batches, "batch"),
            epoch.distinct,
            epoch.hash
        );
    }
    let stats = &fed.stats;
    if stats.substituted > 0 {
        let _ = writeln!(text, "substituted: {}", pluralize(stats.substituted, "sample"));
    }
    let images: u64 = fed.epochs.iter().map(|epoch| epoch.samples).sum();
    let rows = [
        ["tier", "images/s", "moved", "median of a part"].map(str::to_owned),
        storage(stats, images, workers),
        augment(stats, images),
        receiver(fed, images),
    ];
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
    let (tier, rate, moved) = (width(0), width(1), width(2));
    for [a, b, c, d] in &rows {
        let _ = writeln!(text, "{a:tier$}  {b:rate$}  {c:moved$}  {d}");
    }
    text.trim_end().to_owned()
}

fn storage(stats: &Snapshot, images: u64, workers: &Metrics) -> [String; 4] {
    let rate = format!("{} by one reader", rate(stats, images, |times| times.read_us));
    let (file, grpc) = (bytes(workers.get(FILE)), bytes(workers.get(GRPC)));
    let median = median(stats, |times| times.read_us);
    ["storage".into(), rate, format!("{file} from files, {grpc} by gRPC"), format!("read {median}")]
}

fn augment(stats: &Snapshot, images: u64) -> [String; 4] {
    let rate = format!("{} by one thread", rate(stats, images, |times| times.render_us));
    let out: u64 = stats.link_bytes.values().sum();
    let moved = format!("{} in, {} out", bytes(stats.encoded_bytes), bytes(out));
    let median = median(stats, |times| times.render_us);
    ["augment".into(), rate, moved, format!("render {median}")]
}

fn receiver(fed: &Fed, images: u64) -> [String; 4] {
    let stats = &fed.stats;
    let seconds = fed.took.as_secs_f64().max(1e-9);
    let rate = format!("{:.1} in {seconds:.1} s", images as f64 / seconds);
    let by_link = |(link, moved): (&&str, &u64)| format!("{} by {link}", bytes(*moved));
    let moved: Vec<String> = stats.link_bytes.iter().map(by_link).collect();
    let median = median(stats, |times| times.deliver_us);
    let waited = fed.waited.as_secs_f64();
    let why = why_waited(&stats.stalled_by);
    let times = format!("deliver {median}; {waited:.1} s waited for batches{why}");
    ["receiver".into(), rate, moved.join(", "), times]
}

/// Causes of waits, the longest first, without those of less than 1 %.
fn why_waited(by: &Stalls) -> String {
    let whole = by.total().as_secs_f64();
    let mut causes: Vec<(Cause, f64)> =
        by.iter().map(|(cause, time)| (cause, 100.0 * time.as_secs_f64() / whole)).collect();
    causes.retain(|(_, percent)| *percent >= 1.0);
    causes.sort_by(|(_, a), (_, b)| b.total_cmp(a));
    let said = |(cause, percent): &(Cause, f64)| format!("{} {percent:.0} %", cause.name());
    match causes.iter().map(said).collect::<Vec<_>>() {
        none if none.is_empty() => String::new(),
        said => format!(" ({})", said.join(", ")),
    }
}

/// Images per second while busy, from the parts whose times are known.
fn rate(stats: &Snapshot, images: u64, time: impl Fn(&WorkTimes) -> u64) -> String {
    let known: u64 = stats.times.iter().map(time).sum();
    let parts = stats.parts.max(1) as f64;
    let seconds = known as f64 * 1e-6 * parts / (stats.times.len().max(1) as f64);
    if seconds > 0.0 { format!("{:.1}", images as f64 / seconds) } else { "-".to_owned() }
}

fn median(stats: &Snapshot, time: impl Fn(&WorkTimes) -> u64) -> String {
    match stats.median_us(time) {
        Some(us) => format!("{:.2} ms", us as f64 * 1e-3),
        None => "-".to_owned(),
    }
}

/// Bytes in a unit that reads well.
pub(crate) fn bytes(count: u64) -> String {
    let units = [(1e9, "GB"), (1e6, "MB"), (1e3, "kB")];
    match units.iter().find(|(unit, _)| count as f64 >= *unit) {
        Some((unit, name)) => format!("{:.1} {name}", count as f64 / unit),
        None => format!("{count} B"),
    }
}
