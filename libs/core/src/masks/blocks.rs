//! One mask, out of rectangles.

use super::Draws;

/// Tries to place one rectangle.
const TRIES: usize = 10;
/// Minimum area of a block, in patches, as long as there is room for it.
const AREA_MIN: f64 = 4.0;
/// Minimum height / width; the greatest is its inverse.
const ASPECT_MIN: f64 = 0.3;

/// Size of a mask in patches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Grid {
    pub(super) height: u32,
    pub(super) width: u32,
}

// === impl Grid ===

impl Grid {
    pub(super) fn patches(self) -> usize {
        self.height as usize * self.width as usize
    }

    /// Sets cells of an empty mask to 1 until `target` are, never more. Fewer where at last no
    /// rectangle fits any more. `block_max`: most cells that one rectangle may add.
    pub(super) fn mask(self, mask: &mut [u8], target: u64, block_max: f64, draws: &mut impl Draws) {
        let mut count = 0;
        while count < target {
            let room = ((target - count) as f64).min(block_max);
            match self.add_block(mask, room, draws) {
                0 => break,
                added => count += added,
            }
        }
    }

    /// Shifts a mask down and to the right, around the edges.
    pub(super) fn shift(self, mask: &mut [u8], draws: &mut impl Draws) {
        let down = draws.below(self.height.into()) as usize;
        let right = draws.below(self.width.into()) as usize;
        mask.rotate_right(down * self.width as usize);
        mask.chunks_exact_mut(self.width as usize).for_each(|row| row.rotate_right(right));
    }

    /// Adds one rectangle with from 1 to `room` cells that are not masked yet; gives how many.
    fn add_block(self, mask: &mut [u8], room: f64, draws: &mut impl Draws) -> u64 {
        for _ in 0..TRIES {
            let area = draws.uniform(AREA_MIN, room);
            let log_aspect = [libm::log(ASPECT_MIN), libm::log(1.0 / ASPECT_MIN)];
            let aspect = libm::exp(draws.uniform(log_aspect[0], log_aspect[1]));
            let height = (area * aspect).sqrt().round_ties_even() as u32;
            let width = (area / aspect).sqrt().round_ties_even() as u32;
            if width >= self.width || height >= self.height {
                continue;
            }
            let top = draws.below(u64::from(self.height - height) + 1) as usize;
            let left = draws.below(u64::from(self.width - width) + 1) as usize;
            let row = |y: usize| (y * self.width as usize + left)..;
            let rows = top..top + height as usize;
            let fresh_of = |y| mask[row(y)].iter().take(width as usize).filter(|&&c| c == 0);
            let fresh: usize = rows.clone().map(|y| fresh_of(y).count()).sum();
            if fresh > 0 && fresh as f64 <= room {
                for y in rows {
                    mask[row(y)][..width as usize].fill(1);
                }
                return fresh as u64;
            }
        }
        0
    }
}
