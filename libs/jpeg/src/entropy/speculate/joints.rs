//! Where lanes meet, and what follows from that.

use super::{LANES_MAX, Lane, Start};
use crate::entries::{ENTRIES_MAX, Entry};

/// Where each lane is in step, as far as that is known.
#[derive(Debug)]
pub(super) struct Joints {
    /// Of the starts of each lane the one from which on it is right, and the one at which the next lane takes over.
    spans: [(usize, usize); LANES_MAX],
}

// === impl Joints ===

impl Default for Joints {
    fn default() -> Self {
        Self { spans: [(0, 0); LANES_MAX] }
    }
}

impl Joints {
    /// Looks where each lane meets the next one; the lanes that do not.
    pub(super) fn join(&mut self, lanes: &[Lane]) -> u32 {
        let mut late = 0;
        for (n, pair) in lanes.windows(2).enumerate() {
            let [lane, next] = pair else { break };
            let right_from = self.spans[n].0;
            match meet(lane, right_from, next) {
                Some((here, there)) => {
                    self.spans[n].1 = here;
                    self.spans[n + 1].0 = there;
                }
                None => late |= 1 << n,
            }
        }
        if let Some(last) = lanes.last() {
            self.spans[lanes.len() - 1].1 = last.starts.len() - 1;
        }
        late
    }

    /// Entry points with equal numbers of steps between them.
    pub(super) fn entries(&self, lanes: &[Lane], mcus: u32, entries: &mut Vec<Entry>) {
        let spans =
            || lanes.iter().zip(&self.spans).map(|(lane, &(from, to))| &lane.starts[from..=to]);
        let steps =
            spans().map(|starts| starts[starts.len() - 1].step - starts[0].step).sum::<u32>();
        let count = ENTRIES_MAX as u32 + 1;
        let target = |n: usize| (u64::from(steps) * (n as u64 + 1) / u64::from(count)) as u32;
        entries.clear();
        // What all lanes before add up to.
        let mut before = Start::default();
        let mut n = 0;
        for starts in spans() {
            let (first, last) = (starts[0], starts[starts.len() - 1]);
            let all = |start: &Start| before.plus(start, &first);
            while n < ENTRIES_MAX && target(n) < all(&last).step {
                let found = starts.partition_point(|start| all(start).step < target(n));
                n += 1;
                let Start { bit, mcu, sums, .. } = all(&starts[found]);
                let is_new = entries.last().is_none_or(|last| last.bit < bit && last.mcu < mcu);
                if is_new && (1..mcus).contains(&mcu) {
                    entries.push(Entry { bit, mcu, predictors: sums });
                }
            }
            before = all(&last);
        }
    }
}

/// Where `lane`, from its start number `right_from` on, begins an MCU where `next` has begun one.
fn meet(lane: &Lane, right_from: usize, next: &Lane) -> Option<(usize, usize)> {
    let mut here = lane.starts.partition_point(|start| start.bit < next.start).max(right_from);
    let mut there = 0;
    loop {
        let (a, b) = (lane.starts.get(here)?.bit, next.starts.get(there)?.bit);
        match a.cmp(&b) {
            std::cmp::Ordering::Less => here += 1,
            std::cmp::Ordering::Equal => return Some((here, there)),
            std::cmp::Ordering::Greater => there += 1,
        }
    }
}
