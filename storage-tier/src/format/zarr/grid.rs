//! Chunks of a grid, and their overlap with rows.

use std::ops::Range;

/// All coordinates within ranges, the last axis first.
pub(super) fn coordinates(ranges: &[Range<u64>]) -> impl Iterator<Item = Vec<u64>> + use<> {
    let ranges = ranges.to_vec();
    let empty = ranges.iter().any(Range::is_empty);
    let mut next = (!empty).then(|| ranges.iter().map(|range| range.start).collect::<Vec<_>>());
    std::iter::from_fn(move || {
        let current = next.take()?;
        let mut after = current.clone();
        for axis in (0..ranges.len()).rev() {
            after[axis] += 1;
            if after[axis] < ranges[axis].end {
                next = Some(after);
                break;
            }
            after[axis] = ranges[axis].start;
        }
        Some(current)
    })
}

/// The chunks that hold some of an array's rows.
pub(super) fn chunks_of_rows(shape: &[u64], chunk: &[u64], rows: &Range<u64>) -> Vec<Range<u64>> {
    let whole = shape.iter().zip(chunk).map(|(length, chunk)| 0..length.div_ceil(*chunk));
    let mut ranges: Vec<Range<u64>> = whole.collect();
    ranges[0] = rows.start / chunk[0]..rows.end.div_ceil(chunk[0]);
    ranges
}

/// A block of an array in C order: where it begins, and how long its axes are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Block<'a> {
    pub(super) origin: &'a [u64],
    pub(super) shape: &'a [u64],
}

/// Copies the elements that two blocks of one array have in common.
pub(super) fn copy_overlap(
    to: &mut [u8],
    to_block: Block<'_>,
    from: &[u8],
    from_block: Block<'_>,
    element: usize,
) {
    let axes = to_block.shape.len();
    let overlap: Vec<Range<u64>> = (0..axes)
        .map(|axis| {
            let start = to_block.origin[axis].max(from_block.origin[axis]);
            let end = |block: Block<'_>| block.origin[axis] + block.shape[axis];
            start..end(to_block).min(end(from_block))
        })
        .collect();
    let Some((run, outer)) = overlap.split_last() else { return };
    if run.is_empty() {
        return;
    }
    let bytes = (run.end - run.start) as usize * element;
    for mut at in coordinates(outer) {
        at.push(run.start);
        let offset = |block: Block<'_>| {
            let along =
                |sum: u64, axis: usize| sum * block.shape[axis] + (at[axis] - block.origin[axis]);
            (0..axes).fold(0, along) as usize * element
        };
        let (target, source) = (offset(to_block), offset(from_block));
        to[target..target + bytes].copy_from_slice(&from[source..source + bytes]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coordinates_run_through_the_last_axis_first() {
        let found: Vec<_> = coordinates(&[1..3, 0..2]).collect();
        assert_eq!(found, [[1, 0], [1, 1], [2, 0], [2, 1]]);
        assert_eq!(coordinates(&[0..2, 1..1]).count(), 0);
        assert_eq!(coordinates(&[]).count(), 1);
    }

    #[test]
    fn only_what_two_blocks_share_is_copied() {
        let from: Vec<u8> = (0..12).collect();
        let mut to = vec![99; 9];
        let block = |origin, shape| Block { origin, shape };
        copy_overlap(&mut to, block(&[1, 1], &[3, 3]), &from, block(&[0, 0], &[3, 4]), 1);
        assert_eq!(to, [5, 6, 7, 9, 10, 11, 99, 99, 99]);
        copy_overlap(&mut to, block(&[5, 5], &[3, 3]), &from, block(&[0, 0], &[3, 4]), 1);
        assert_eq!(to[0], 5);
    }
}
