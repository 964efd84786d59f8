//! Images of the unit tests.

#[path = "../tests/support/made.rs"]
mod made;

pub(crate) use made::Made as Sample;
use made::{SUBSAMPLINGS, made};

/// All samplings, good and bad qualities, standard and optimised tables.
pub(crate) fn samples() -> Vec<Sample> {
    let mut samples = Vec::new();
    for subsampling in SUBSAMPLINGS {
        for (size, quality) in [((71, 53), 90), ((200, 150), 75), ((33, 90), 100), ((64, 64), 5)] {
            for optimize in [false, true] {
                samples.push(made(size, subsampling, quality, optimize));
            }
        }
    }
    samples
}

/// Images that are large enough for lanes that guess where they begin.
#[cfg(target_arch = "x86_64")]
pub(crate) fn made_for_lanes() -> Vec<Sample> {
    let mut samples = Vec::new();
    for subsampling in SUBSAMPLINGS {
        for (size, quality) in [((710, 530), 90), ((801, 601), 75), ((500, 390), 100)] {
            for optimize in [false, true] {
                samples.push(made(size, subsampling, quality, optimize));
            }
        }
    }
    samples
}
