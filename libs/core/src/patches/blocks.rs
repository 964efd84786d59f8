//! I-JEPA's blocks: `MaskCollator` of `multiblock.py`.

use super::{PatchSpec, PatchTensor};
use crate::masks::Draws;

/// Tries before a region that must be left out is given up.
const TRIES: u32 = 20;

/// A block of the grid: first row, first column.
#[derive(Clone, Copy, Debug)]
struct Block {
    top: u32,
    left: u32,
    height: u32,
    width: u32,
}

/// Context and targets of all rows.
pub(super) fn draw(
    spec: &PatchSpec,
    grid: (u32, u32),
    rows: u32,
    sizes: &mut impl Draws,
    places: &mut impl Draws,
) -> Vec<PatchTensor> {
    let target = size(spec.pred_mask_scale, spec.aspect_ratio, grid, sizes);
    let context = size(spec.enc_mask_scale, [1.0; 2], grid, sizes);
    let mut targets = vec![Vec::new(); spec.num_pred_masks as usize];
    let mut contexts = vec![Vec::new(); spec.num_enc_masks as usize];
    for _ in 0..rows {
        let mut blocks = Vec::with_capacity(targets.len());
        for target_rows in &mut targets {
            let (block, patches) = place(target, grid, &[], spec.min_keep, places);
            blocks.push(block);
            target_rows.push(patches);
        }
        let avoided: &[Block] = if spec.allow_overlap { &[] } else { &blocks };
        for context_rows in &mut contexts {
            context_rows.push(place(context, grid, avoided, spec.min_keep, places).1);
        }
    }
    let tensors = [("masks_enc", contexts), ("masks_pred", targets)];
    tensors.into_iter().map(|(name, lists)| collate(name, lists, rows)).collect()
}

/// All lists cut to the shortest one.
fn collate(name: &'static str, lists: Vec<Vec<Vec<i64>>>, rows: u32) -> PatchTensor {
    let shortest = lists.iter().flatten().map(Vec::len).min().unwrap_or(0);
    let shape = vec![lists.len() as u64, rows.into(), shortest as u64];
    let values = lists.iter().flatten().flat_map(|list| &list[..shortest]).copied().collect();
    PatchTensor { name, shape, values }
}

/// Rows and columns of a block. One number gives its share of the grid and its aspect, as there.
fn size(
    scale: [f64; 2],
    aspect: [f64; 2],
    (height, width): (u32, u32),
    draws: &mut impl Draws,
) -> (u32, u32) {
    let unit = draws.unit();
    let scale = scale[0] + unit * (scale[1] - scale[0]);
    let patches = (f64::from(height * width) * scale).trunc();
    let aspect = aspect[0] + unit * (aspect[1] - aspect[0]);
    let rows = (patches * aspect).sqrt().round_ties_even() as u32;
    let columns = (patches / aspect).sqrt().round_ties_even() as u32;
    (rows.min(height - 1), columns.min(width - 1))
}

/// A block somewhere in the grid, and its patches outside the blocks to avoid. If too few patches
/// are left, the block is drawn again. After some tries one block less is avoided, the last one
/// first.
fn place(
    (rows, columns): (u32, u32),
    (height, width): (u32, u32),
    avoided: &[Block],
    min_keep: u32,
    draws: &mut impl Draws,
) -> (Block, Vec<i64>) {
    let mut avoided = avoided;
    let mut tries = 0;
    loop {
        let top = draws.below(u64::from(height - rows)) as u32;
        let left = draws.below(u64::from(width - columns)) as u32;
        let block = Block { top, left, height: rows, width: columns };
        let patches = block.patches();
        let free = patches.filter(|at| !avoided.iter().any(|other| other.holds(*at)));
        let found: Vec<i64> = free
            .map(|(row, column)| i64::from(row) * i64::from(width) + i64::from(column))
            .collect();
        if found.len() > min_keep as usize {
            return (block, found);
        }
        tries += 1;
        if tries == TRIES {
            tries = 0;
            match avoided.split_last() {
                Some((_, fewer)) => avoided = fewer,
                // The block itself is too small. The published code would loop for ever here.
                None => return (block, found),
            }
        }
    }
}

// === impl Block ===

impl Block {
    fn holds(&self, (row, column): (u32, u32)) -> bool {
        (self.top..self.top + self.height).contains(&row)
            && (self.left..self.left + self.width).contains(&column)
    }

    /// Its rows and columns, row by row.
    fn patches(&self) -> impl Iterator<Item = (u32, u32)> + use<> {
        let Self { top, left, height, width } = *self;
        (top..top + height)
            .flat_map(move |row| (left..left + width).map(move |column| (row, column)))
    }
}
