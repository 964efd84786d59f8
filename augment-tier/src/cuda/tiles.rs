//! How a view is cut into tiles, each the work of one block.

use super::record::TileRecord;
use crate::ops::resize::{Axis, Taps};

/// The rows of the source that rows of a view need.
#[derive(Clone, Copy, Debug)]
pub(super) enum Rows<'a> {
    /// Each is made of itself.
    Kept,
    /// Each is made of the rows that its taps say.
    Resized(&'a Taps),
}

/// A row of the view needs more of the source than a block can hold, however few its columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TooTall;

// === impl Rows ===

impl<'a> Rows<'a> {
    pub(super) fn of(axis: &Axis, taps: &'a Taps) -> Self {
        if axis.is_kept() { Self::Kept } else { Self::Resized(taps) }
    }

    /// First and one past the last row of the source.
    fn span(&self, first: u32, last: u32) -> (u32, u32) {
        match self {
            Self::Kept => (first, last + 1),
            Self::Resized(taps) => {
                let (begin, _) = taps.at(first as usize);
                let (of_last, weights) = taps.at(last as usize);
                (begin as u32, (of_last + weights.len()) as u32)
            }
        }
    }
}

/// Tiles that cover a view of `width` x `height`, none of which takes more than `bytes_max` of
/// shared memory. As wide as can be: the rows that two tiles both need are those above each other.
pub(super) fn cut(
    view: u32,
    (width, height): (u32, u32),
    rows: Rows<'_>,
    bytes_max: u32,
    tiles: &mut Vec<TileRecord>,
) -> Result<(), TooTall> {
    let columns = columns(width, height, rows, bytes_max).ok_or(TooTall)?;
    let mut top = 0;
    while top < height {
        let mut count = 1;
        while top + count < height {
            let (first, end) = rows.span(top, top + count);
            if 3 * u64::from(end - first) * u64::from(columns) > bytes_max.into() {
                break;
            }
            count += 1;
        }
        let (first, end) = rows.span(top, top + count - 1);
        let mut left = 0;
        while left < width {
            let across = columns.min(width - left);
            tiles.push(TileRecord {
                view,
                rows: (top, count),
                columns: (left, across),
                source_rows: (first, end - first),
            });
            left += across;
        }
        top += count;
    }
    Ok(())
}

/// The most columns with which each row of the view fits, halved until it does.
fn columns(width: u32, height: u32, rows: Rows<'_>, bytes_max: u32) -> Option<u32> {
    let source_rows = |row| {
        let (first, end) = rows.span(row, row);
        end - first
    };
    let tallest = (0..height).map(source_rows).max()?;
    let mut columns = width;
    while 3 * u64::from(tallest) * u64::from(columns) > bytes_max.into() {
        if columns == 1 {
            return None;
        }
        columns = columns.div_ceil(2);
    }
    Some(columns)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taps(from: u32, to: u32) -> Taps {
        let stretch = [0.0, f64::from(from)];
        let mut taps = Taps::default();
        taps.compute(&Axis { base: 0, len: from, stretch, to, start: 0, count: to });
        taps
    }

    /// Every pixel of the view in one tile, and within each tile every row that its taps need.
    fn check(from: u32, (width, height): (u32, u32), bytes_max: u32) -> usize {
        let taps = taps(from, height);
        let mut tiles = Vec::new();
        cut(3, (width, height), Rows::Resized(&taps), bytes_max, &mut tiles).unwrap();
        let mut covered = vec![0; (width * height) as usize];
        for tile in &tiles {
            assert!(tile.view == 3 && tile.shared_bytes() <= bytes_max.into(), "{tile:?}");
            for y in tile.rows.0..tile.rows.0 + tile.rows.1 {
                let (first, weights) = taps.at(y as usize);
                let (begin, count) = (tile.source_rows.0 as usize, tile.source_rows.1 as usize);
                assert!(begin <= first && first + weights.len() <= begin + count, "{tile:?} {y}");
                for x in tile.columns.0..tile.columns.0 + tile.columns.1 {
                    covered[(y * width + x) as usize] += 1;
                }
            }
        }
        assert!(covered.iter().all(|&times| times == 1));
        tiles.len()
    }

    #[test]
    fn tiles_cover_a_view_once_and_hold_all_rows_that_they_need() {
        assert_eq!(check(96, (96, 96), 36 << 10), 1);
        assert!(check(300, (224, 224), 36 << 10) > 1);
        assert!(check(5000, (224, 224), 36 << 10) > 1);
        assert!(check(40, (224, 224), 2000) > 1);
        assert_eq!(check(1, (1, 1), 3), 1);
    }

    #[test]
    fn a_row_that_no_block_can_hold_is_refused() {
        let taps = taps(65_500, 2);
        let mut tiles = Vec::new();
        let cut = cut(0, (2, 2), Rows::Resized(&taps), 36 << 10, &mut tiles);
        assert_eq!((cut, tiles.len()), (Err(TooTall), 0));
    }
}
