//! How a view is cut into tiles, each the work of one block.

use headwater_pixels::ops::resize::{Axis, Taps};

use super::record::TileRecord;

/// The positions of the source that positions of a view need along the axis of the second pass.
#[derive(Clone, Copy, Debug)]
pub(super) enum Needs<'a> {
    /// Each is made of itself.
    Kept,
    /// Each is made of the positions that its taps say.
    Resized(&'a Taps),
}

/// One position of the view needs more of the source than a block can hold, however narrow its
/// tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TooLong;

/// A tile, by the axis of the second pass and the other one.
struct Strip {
    /// First position along the axis of the second pass, and number.
    along: (u32, u32),
    /// First position along the other axis, and number.
    across: (u32, u32),
    source: (u32, u32),
}

// === impl Needs ===

impl<'a> Needs<'a> {
    pub(super) fn of(axis: &Axis, taps: &'a Taps) -> Self {
        if axis.is_kept() { Self::Kept } else { Self::Resized(taps) }
    }

    /// First and one past the last position of the source.
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

/// Tiles that cover a view of `width` x `height` whose horizontal pass comes first. None of them
/// takes more than `bytes_max` of shared memory. As wide as can be: only tiles above each other
/// need the same rows.
pub(super) fn cut_rows(
    view: u32,
    (width, height): (u32, u32),
    rows: Needs<'_>,
    bytes_max: u32,
    tiles: &mut Vec<TileRecord>,
) -> Result<(), TooLong> {
    strips(width, height, rows, bytes_max, |strip| {
        let Strip { along: rows, across: columns, source } = strip;
        let shared_bytes = strip_bytes(source.1, columns.1);
        tiles.push(TileRecord { view, rows, columns, source, shared_bytes });
    })
}

/// As [`cut_rows`] where the vertical pass comes first: as tall as can be.
pub(super) fn cut_columns(
    view: u32,
    (width, height): (u32, u32),
    columns: Needs<'_>,
    bytes_max: u32,
    tiles: &mut Vec<TileRecord>,
) -> Result<(), TooLong> {
    strips(height, width, columns, bytes_max, |strip| {
        let Strip { along: columns, across: rows, source } = strip;
        let shared_bytes = strip_bytes(source.1, rows.1);
        tiles.push(TileRecord { view, rows, columns, source, shared_bytes });
    })
}

/// Bytes of what the first pass makes.
fn strip_bytes(source_len: u32, across: u32) -> u64 {
    3 * u64::from(source_len) * u64::from(across)
}

fn strips(
    across: u32,
    along: u32,
    needs: Needs<'_>,
    bytes_max: u32,
    mut push: impl FnMut(Strip),
) -> Result<(), TooLong> {
    let widest = widest(across, along, needs, bytes_max).ok_or(TooLong)?;
    let mut top = 0;
    while top < along {
        let mut count = 1;
        while top + count < along {
            let (first, end) = needs.span(top, top + count);
            if strip_bytes(end - first, widest) > bytes_max.into() {
                break;
            }
            count += 1;
        }
        let (first, end) = needs.span(top, top + count - 1);
        for left in (0..across).step_by(widest as usize) {
            push(Strip {
                along: (top, count),
                across: (left, widest.min(across - left)),
                source: (first, end - first),
            });
        }
        top += count;
    }
    Ok(())
}

/// The widest strip with which each position fits, halved until it does.
fn widest(across: u32, along: u32, needs: Needs<'_>, bytes_max: u32) -> Option<u32> {
    let needed = |position| {
        let (first, end) = needs.span(position, position);
        end - first
    };
    let most = (0..along).map(needed).max()?;
    let mut widest = across;
    while strip_bytes(most, widest) > bytes_max.into() {
        if widest == 1 {
            return None;
        }
        widest = widest.div_ceil(2);
    }
    Some(widest)
}

#[cfg(test)]
mod tests {
    use headwater_core::draw::Filter;

    use super::*;

    fn taps(from: u32, to: u32) -> Taps {
        let stretch = [0.0, f64::from(from)];
        let mut taps = Taps::default();
        let filter = Filter::Bicubic;
        taps.compute(&Axis { base: 0, len: from, stretch, to, start: 0, count: to, filter });
        taps
    }

    /// Every pixel of the view in one tile, and within each tile all that its taps need.
    fn check(from: u32, (width, height): (u32, u32), bytes_max: u32) -> usize {
        let mut tiles = Vec::new();
        let down = taps(from, height);
        let needs = Needs::Resized(&down);
        cut_rows(3, (width, height), needs, bytes_max, &mut tiles).unwrap();
        let of_rows = tiles.len();
        let held = |tile: &TileRecord| (tile.rows, tile.columns.1);
        check_tiles(&tiles, (width, height), bytes_max, &down, held);
        tiles.clear();
        let across = taps(from, width);
        let needs = Needs::Resized(&across);
        cut_columns(3, (width, height), needs, bytes_max, &mut tiles).unwrap();
        let held = |tile: &TileRecord| (tile.columns, tile.rows.1);
        check_tiles(&tiles, (width, height), bytes_max, &across, held);
        of_rows
    }

    fn check_tiles(
        tiles: &[TileRecord],
        (width, height): (u32, u32),
        bytes_max: u32,
        taps: &Taps,
        held: impl Fn(&TileRecord) -> ((u32, u32), u32),
    ) {
        let mut covered = vec![0; (width * height) as usize];
        for tile in tiles {
            let ((start, count), beside) = held(tile);
            let (begin, len) = tile.source;
            assert_eq!(tile.shared_bytes, 3 * u64::from(len) * u64::from(beside));
            assert!(tile.view == 3 && tile.shared_bytes <= bytes_max.into(), "{tile:?}");
            for position in start..start + count {
                let (first, weights) = taps.at(position as usize);
                let (begin, end) = (begin as usize, (begin + len) as usize);
                assert!(begin <= first && first + weights.len() <= end, "{tile:?} {position}");
            }
            for y in tile.rows.0..tile.rows.0 + tile.rows.1 {
                for x in tile.columns.0..tile.columns.0 + tile.columns.1 {
                    covered[(y * width + x) as usize] += 1;
                }
            }
        }
        assert!(covered.iter().all(|&times| times == 1));
    }

    #[test]
    fn tiles_cover_a_view_once_and_hold_all_that_they_need() {
        assert_eq!(check(96, (96, 96), 36 << 10), 1);
        assert!(check(300, (224, 224), 36 << 10) > 1);
        assert!(check(5000, (224, 224), 36 << 10) > 1);
        assert!(check(40, (224, 224), 2000) > 1);
        assert!(check(300, (224, 30), 5000) > 1);
        assert_eq!(check(1, (1, 1), 3), 1);
    }

    #[test]
    fn a_position_that_no_block_can_hold_is_refused() {
        let taps = taps(65_500, 2);
        let mut tiles = Vec::new();
        let cut = cut_rows(0, (2, 2), Needs::Resized(&taps), 36 << 10, &mut tiles);
        assert_eq!((cut, tiles.len()), (Err(TooLong), 0));
        let cut = cut_columns(0, (2, 2), Needs::Resized(&taps), 36 << 10, &mut tiles);
        assert_eq!((cut, tiles.len()), (Err(TooLong), 0));
    }
}
