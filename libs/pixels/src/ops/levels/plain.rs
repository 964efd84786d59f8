//! The definitions: Pillow's `ImageOps.{invert, posterize, equalize, autocontrast}` and timm's
//! `solarize_add`.

use super::Change;
use crate::image::Planes;

/// Changes all levels, channel by channel.
pub fn apply(view: &mut Planes, change: Change) {
    for plane in view.planes_mut() {
        let mut counts = [0; 256];
        plane.iter().for_each(|level| counts[usize::from(*level)] += 1);
        let table = change.table(&counts);
        plane.iter_mut().for_each(|level| *level = table[usize::from(*level)]);
    }
}

// === impl Change ===

impl Change {
    /// What becomes of each level of a channel in which levels occur so often.
    pub(super) fn table(self, counts: &[u64; 256]) -> [u8; 256] {
        let mut table = unchanged();
        match self {
            Self::Equalize => equalized(counts),
            Self::AutoContrast => {
                let occurs = |level: &u8| counts[usize::from(*level)] > 0;
                let darkest = (0..=255).find(occurs).unwrap_or(0);
                stretched(darkest, (0..=255).rev().find(occurs).unwrap_or(0))
            }
            Self::Invert | Self::Posterize(_) | Self::SolarizeAdd(..) => {
                one_by_one(&mut table, self);
                table
            }
        }
    }
}

/// Changes levels, where what becomes of one does not follow from others.
#[inline(always)]
pub(super) fn one_by_one(levels: &mut [u8], change: Change) {
    match change {
        Change::Invert => levels.iter_mut().for_each(|level| *level = 255 - *level),
        Change::Posterize(bits) => {
            let kept = (0xff00u32 >> bits) as u8;
            levels.iter_mut().for_each(|level| *level &= kept);
        }
        Change::SolarizeAdd(add, threshold) => {
            for level in levels {
                *level = if *level < threshold { level.saturating_add(add) } else { *level };
            }
        }
        Change::Equalize | Change::AutoContrast => {}
    }
}

fn unchanged() -> [u8; 256] {
    std::array::from_fn(|level| level as u8)
}

/// The shares of pixels below each level, in steps of whole pixels.
fn equalized(counts: &[u64; 256]) -> [u8; 256] {
    let pixels: u64 = counts.iter().sum();
    let brightest = counts.iter().rev().find(|count| **count > 0).copied().unwrap_or(0);
    // All of one level; or so few pixels that a step would be none.
    let step = (pixels - brightest) / 255;
    if step == 0 {
        return unchanged();
    }
    let mut below = step / 2;
    counts.map(|count| {
        let level = (below / step).min(255) as u8;
        below += count;
        level
    })
}

/// From the darkest and the brightest level to 0 and 255.
pub(super) fn stretched(darkest: u8, brightest: u8) -> [u8; 256] {
    if brightest <= darkest {
        return unchanged();
    }
    let scale = 255.0 / f64::from(brightest - darkest);
    let offset = -f64::from(darkest) * scale;
    // A cast cuts fractions and stays within the type, as Pillow does here.
    std::array::from_fn(|level| (level as f64 * scale + offset) as u8)
}
