//! The box that is erased.
//!
//! Sources: torchvision `transforms.RandomErasing.get_params`; timm `data/random_erasing.py`, which draws alike.

use super::key::DrawRng;
use super::params::{DrawnOp, EraseWith};
use crate::geometry::{CropBox, Extent};
use crate::recipe::EraseMode;

/// Tries before nothing is erased.
const TRIES: usize = 10;

/// A box of a view, if one fits.
pub(super) fn draw(
    scale: [f64; 2],
    ratio: [f64; 2],
    mode: EraseMode,
    view: Extent,
    rng: &mut DrawRng,
) -> Option<DrawnOp> {
    let area = f64::from(view.width) * f64::from(view.height);
    let log_ratio = ratio.map(libm::log);
    for _ in 0..TRIES {
        let erased = area * rng.uniform(scale[0], scale[1]);
        // Rows by columns.
        let aspect = libm::exp(rng.uniform(log_ratio[0], log_ratio[1]));
        let height = (erased * aspect).sqrt().round_ties_even();
        let width = (erased / aspect).sqrt().round_ties_even();
        if height < f64::from(view.height) && width < f64::from(view.width) {
            let (width, height) = (width as u32, height as u32);
            let top = rng.below(u64::from(view.height - height) + 1) as u32;
            let left = rng.below(u64::from(view.width - width) + 1) as u32;
            let with = match mode {
                EraseMode::Zero => EraseWith::Zero,
                EraseMode::Color => EraseWith::Color([(); 3].map(|()| rng.normal() as f32)),
                EraseMode::Noise => EraseWith::Noise([rng.word(), rng.word()]),
            };
            return Some(DrawnOp::Erase { area: CropBox { left, top, width, height }, with });
        }
    }
    None
}
