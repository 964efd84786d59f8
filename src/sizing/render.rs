//! A size as text and as JSON.

use std::fmt::Write as _;

use anyhow::Result;

use headwater_core::pluralize;

use super::model::{Sessions, Size, Tier};

/// For people.
pub(crate) fn text(size: &Size) -> String {
    let (job, photos, hardware) = (&size.job, &size.photos, &size.hardware);
    let mut text = format!(
        "{} x {:.0} samples in {:.1} ms: {} images/s, {:.0} a rank\n",
        pluralize(u64::from(job.ranks), "rank"),
        job.batch.batch_samples,
        size.step_ms,
        thousands(job.images_per_s),
        job.images_per_s / f64::from(job.ranks),
    );
    let _ = writeln!(
        text,
        "a sample: {:.0} kB and {:.0} kilopixels in, {:.3} MB out by {} (recipe {})",
        photos.bytes / 1e3,
        photos.pixels / 1e3,
        size.sample_bytes / 1e6,
        job.link,
        size.recipe,
    );
    if let Some(core) = &size.core {
        let _ = writeln!(text, "a core: {:.0} images/s ({})", core.images_per_s, core.source);
    }
    let _ = writeln!(
        text,
        "a node: {} cores (storage), {} (augment), {} Gbit/s, disks {} GB/s; {:.0} % busy\n",
        hardware.storage_cores,
        hardware.augment_cores,
        hardware.nic_gbit,
        hardware.disk_gb_per_s,
        100.0 * hardware.busy,
    );
    let head =
        ["tier", "nodes", "bound by", "cores", "GPUs", "in", "out", "disk", "memory", "in slots"];
    let mut rows = vec![head.map(str::to_owned)];
    rows.extend(size.tiers.iter().map(row));
    for row in &rows {
        let mut line = String::new();
        for (column, cell) in row.iter().enumerate() {
            let width = rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
            let _ = match column {
                0 | 2 => write!(line, "{cell:width$}  "),
                _ => write!(line, "{cell:>width$}  "),
            };
        }
        text += line.trim_end();
        text.push('\n');
    }
    text += "cores, GB/s and GB are those of one node, GPUs those of the tier\n";
    let Sessions { of_rank, of_worker, open_files, queue_pairs } = size.sessions;
    let _ = writeln!(
        text,
        "a rank has sessions with {}, a worker with {}: {open_files} open files, {queue_pairs} queue pairs",
        pluralize(u64::from(of_rank), "worker"),
        pluralize(u64::from(of_worker), "rank"),
    );
    for line in &size.short {
        let _ = writeln!(text, "too slow: {line}");
    }
    text
}

/// For programs: everything that went in and came out.
pub(crate) fn json(size: &Size) -> Result<String> {
    Ok(serde_json::to_string_pretty(size)? + "\n")
}

fn row(tier: &Tier) -> [String; 10] {
    let or_none = |value: f64, text: String| if value > 0.0 { text } else { "-".to_owned() };
    let rate = |value: f64| or_none(value, format!("{value:.2} GB/s"));
    let memory = |value: f64| or_none(value, format!("{value:.1} GB"));
    [
        tier.name.to_owned(),
        tier.nodes.to_string(),
        tier.bound.to_owned(),
        format!("{:.1}", tier.cores),
        or_none(tier.gpus.into(), tier.gpus.to_string()),
        rate(tier.in_gb_per_s),
        rate(tier.out_gb_per_s),
        rate(tier.disk_gb_per_s),
        memory(tier.memory_gb),
        memory(tier.shm_gb),
    ]
}

fn thousands(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
