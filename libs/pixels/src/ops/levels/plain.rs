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
    /// Whether the table follows from how often levels occur.
    pub(super) fn looks_at_levels(self) -> bool {
        matches!(self, Self::Equalize | Self::AutoContrast)
    }

    /// What becomes of each level of a channel in which levels occur so often.
    pub(super) fn table(self, counts: &[u64; 256]) -> [u8; 256] {
        let each = |change: &dyn Fn(u8) -> u8| std::array::from_fn(|level| change(level as u8));
        match self {
            Self::Invert => each(&|level| 255 - level),
            Self::Posterize(bits) => {
                let kept = u8::try_from(0xff00u32 >> bits & 0xff).unwrap_or(0);
                each(&|level| level & kept)
            }
            Self::SolarizeAdd(add, threshold) => {
                each(&|level| if level < threshold { level.saturating_add(add) } else { level })
            }
            Self::Equalize => equalized(counts),
            Self::AutoContrast => stretched(counts),
        }
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
fn stretched(counts: &[u64; 256]) -> [u8; 256] {
    let occurs = |level: &usize| counts[*level] > 0;
    let (Some(darkest), Some(brightest)) = ((0..256).find(occurs), (0..256).rev().find(occurs))
    else {
        return unchanged();
    };
    if brightest <= darkest {
        return unchanged();
    }
    let scale = 255.0 / (brightest - darkest) as f64;
    let offset = -(darkest as f64) * scale;
    // A cast cuts fractions and stays within the type, as Pillow does here.
    std::array::from_fn(|level| (level as f64 * scale + offset) as u8)
}
