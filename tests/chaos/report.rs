//! How long each kind of fault held the trainer up.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::Chaos;
use super::faults::Fault;

/// How long after a fault no rank got a batch, in ms: from the last batch before it to the first
/// after it; the worst of the ranks.
fn gap(at: u64, times: &[Vec<u64>]) -> Option<u64> {
    let gap = |times: &Vec<u64>| {
        let after = times.partition_point(|time| *time < at);
        let (before, after) = (times.get(after.wrapping_sub(1))?, times.get(after)?);
        Some(after - before)
    };
    times.iter().filter_map(gap).max()
}

/// Median and worst.
fn spread(mut gaps: Vec<u64>) -> (u64, u64) {
    gaps.sort_unstable();
    let median = gaps.get(gaps.len() / 2).copied().unwrap_or_default();
    (median, gaps.last().copied().unwrap_or_default())
}

pub(crate) fn report(seed: u64, chaos: &Chaos, compared: usize) -> String {
    let mut kinds: BTreeMap<Fault, Vec<u64>> = BTreeMap::new();
    for (fault, at) in &chaos.injected {
        kinds.entry(*fault).or_default().extend(gap(*at, &chaos.times));
    }
    let (median, worst) = spread(kinds.values().flatten().copied().collect());
    let (faults, lies) = (chaos.injected.len(), chaos.lies);
    let mut text = format!(
        "{}, seed {seed}: {faults} faults, {lies} lies told; {compared} batches compared, 0 differ; gap at \
         a fault: median {median} ms, worst {worst} ms",
        chaos.dress.name
    );
    for (fault, gaps) in kinds {
        let number = gaps.len();
        let (median, worst) = spread(gaps);
        write!(text, "\n{number:>5} {fault:?}: median {median} ms, worst {worst} ms")
            .expect("text");
    }
    text
}
