//! What makes the views of a few samples of a load again.

use super::Load;
use crate::arena::{Row, Sealed};
use crate::launch::{Kernel, Launch};
use crate::sums;

/// Lists in the places of those of all samples, which have been read, and launches on them.
#[derive(Debug, Default)]
pub(crate) struct Again {
    /// Each list and where it goes.
    pub(crate) lists: Vec<(u64, Vec<u8>)>,
    pub(crate) launches: Vec<Launch>,
    /// The rows of the samples. Their checksums are launched last and lie as those of all rows did.
    pub(crate) rows: Vec<Row>,
}

// === impl Load ===

impl Load {
    /// What makes the views of some samples of a sealed load again; with their checksums where `summed`.
    pub(crate) fn again(&self, sealed: &Sealed, samples: &[usize], summed: bool) -> Again {
        let mut is_chosen = vec![false; self.records.views.len()];
        for (_, views) in self.samples.iter().filter(|(sample, _)| samples.contains(sample)) {
            is_chosen[views.clone()].fill(true);
        }
        let mut again = Again::default();
        let mut launches = sealed.launches.iter();
        // In the order in which `seal` has made the launches.
        for stage in self.stages.iter().filter(|stage| !stage.tiles.is_empty()) {
            let tiles = stage.tiles.iter().filter(|tile| is_chosen[tile.view as usize]);
            let mut list = Vec::new();
            let count = tiles.map(|tile| tile.write(&mut list)).count();
            again.extend(launches.next(), (count, list));
            for numbers in stage.blocks.values().rev() {
                let numbers = numbers.iter().filter(|number| is_chosen[**number as usize]);
                let list: Vec<u8> = numbers.flat_map(|number| number.to_le_bytes()).collect();
                again.extend(launches.next(), (list.len() / size_of::<u32>(), list));
            }
        }
        again.rows.extend(self.rows.iter().filter(|row| samples.contains(&row.sample)));
        if summed {
            let mut list = Vec::new();
            sums::write_list(&again.rows, sealed.rows.0, &mut list);
            again.extend(sealed.sums.launch.as_ref(), (again.rows.len(), list));
        }
        again
    }
}

// === impl Again ===

impl Again {
    /// A launch on `count` records of its list, if there are any.
    fn extend(&mut self, launch: Option<&Launch>, (count, list): (usize, Vec<u8>)) {
        let Some(launch) = launch.filter(|_| count > 0) else { return };
        let place = match launch.kernel {
            Kernel::SumRows => launch.records[0],
            _ => launch.records[1],
        };
        self.lists.push((place, list));
        self.launches.push(Launch { blocks: count as u32, ..*launch });
    }
}
