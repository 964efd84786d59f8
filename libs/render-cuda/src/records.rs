//! The records of a load, and where each list of them lies.

use headwater_pixels::kernels::KernelOp;
use headwater_pixels::ops::resize::Taps;

use super::arena::{ALIGN_BYTES, Row};
use super::launch::Kernel;
use super::record::{
    KEEPS_HEIGHT, KEEPS_WIDTH, OP_BYTES, Places, SPAN_BYTES, TILE_BYTES, TileRecord, VIEW_BYTES,
    ViewRecord, write_op,
};
use super::sums;
use super::tables::{self, Tables};

/// Lists that exist once: weights, spans, operations, views.
const LISTS: usize = 4;

/// Records whose places are numbers within their lists until they are written.
#[derive(Debug, Default)]
pub(super) struct Records {
    pub(super) views: Vec<ViewRecord>,
    /// For each view the number of its table, and whether its elements are a row.
    tables: Vec<Option<usize>>,
    ops: Vec<KernelOp>,
    spans: Vec<[u32; 3]>,
    weights: Vec<i32>,
}

/// Writes lists one behind the other.
pub(super) struct Writer {
    at: u64,
    bytes: Vec<u8>,
    views: u64,
}

// === impl Records ===

impl Records {
    pub(super) fn clear(&mut self) {
        self.truncate([0; 4]);
    }

    /// Lengths of the lists.
    pub(super) fn lens(&self) -> [usize; 4] {
        [self.views.len(), self.ops.len(), self.spans.len(), self.weights.len()]
    }

    /// Back to the lengths that there were.
    pub(super) fn truncate(&mut self, [views, ops, spans, weights]: [usize; 4]) {
        self.views.truncate(views);
        self.tables.truncate(views);
        self.ops.truncate(ops);
        self.spans.truncate(spans);
        self.weights.truncate(weights);
    }

    /// Adds a view with its operations; without a table its elements are levels.
    pub(super) fn push(&mut self, mut view: ViewRecord, ops: &[KernelOp], table: Option<usize>) {
        view.places.ops = self.ops.len() as u64;
        self.ops.extend_from_slice(ops);
        self.views.push(view);
        self.tables.push(table);
    }

    /// Adds the taps of an axis; the number of the first span.
    pub(super) fn push_taps(&mut self, taps: &Taps) -> u64 {
        let first = self.spans.len() as u64;
        for position in 0..taps.len() {
            let (source, weights) = taps.at(position);
            self.spans.push([source as u32, self.weights.len() as u32, weights.len() as u32]);
            self.weights.extend_from_slice(weights);
        }
        first
    }

    /// Bytes of all lists with `tiles` tiles, or a little more, but for tables. `lists`: how many
    /// lists of tiles and of numbers there are; each list may leave a gap behind it.
    pub(super) fn bytes_max(&self, tiles: usize, lists: usize) -> u64 {
        let views = self.views.len() * (VIEW_BYTES + size_of::<u32>());
        let taps_and_ops = self.ops.len() * OP_BYTES + self.spans.len() * SPAN_BYTES;
        let weights = self.weights.len() * size_of::<i32>();
        let gaps = (LISTS + lists) * ALIGN_BYTES as usize;
        (views + taps_and_ops + weights + tiles * TILE_BYTES + gaps) as u64
    }

    /// Bytes that the kernel must read or write for all views, see
    /// [`KernelTime`](super::measure::KernelTime).
    pub(super) fn necessary_bytes(&self, kernel: Kernel) -> u64 {
        let of_view = |(view, table): (&ViewRecord, &Option<usize>)| {
            let values = 3 * u64::from(view.out_width) * u64::from(view.out_height);
            let elements = values * u64::from(view.element_bytes) + view.bytes_behind();
            let planes = 3 * u64::from(view.width) * u64::from(view.height);
            match kernel {
                Kernel::ResizeTiles => {
                    let columns =
                        self.covered(view.flags & KEEPS_WIDTH, view.width, view.places.across);
                    let rows =
                        self.covered(view.flags & KEEPS_HEIGHT, view.height, view.places.down);
                    3 * columns * rows + planes
                }
                Kernel::FinishViews => planes + elements,
                Kernel::SumRows => table.map_or(0, |_| elements),
                Kernel::FindEntries
                | Kernel::DecodeBits
                | Kernel::MakeSamples
                | Kernel::MakePixels => 0,
            }
        };
        self.views.iter().zip(&self.tables).map(of_view).sum()
    }

    /// Positions of the source that positions of an axis are made of; `kept`: they are the same.
    fn covered(&self, kept: u32, len: u32, first_span: u64) -> u64 {
        if kept != 0 {
            return len.into();
        }
        let spans = &self.spans[first_span as usize..][..len as usize];
        let begin = spans.iter().map(|span| span[0]).min().unwrap_or(0);
        let end = spans.iter().map(|span| span[0] + span[2]).max().unwrap_or(0);
        (end - begin).into()
    }

    /// Begins to write to `bytes`, which is empty and lies at a place of the arena, while rows lie at
    /// another. The first table is the one that changes nothing.
    pub(super) fn writer(
        &self,
        (at, bytes): (u64, Vec<u8>),
        rows_at: u64,
        tables: &Tables,
    ) -> Writer {
        let mut writer = Writer { at, bytes, views: 0 };
        let levels = writer.list(|bytes| bytes.extend(tables::levels()));
        let list_table = |table: &[u8]| writer.list(|bytes| bytes.extend_from_slice(table));
        let tables: Vec<u64> = tables.bytes().map(list_table).collect();
        let weights = writer.words(&self.weights, |weight| weight.to_le_bytes());
        let spans = writer.words(self.spans.as_flattened(), |number| number.to_le_bytes());
        let ops = writer.list(|bytes| self.ops.iter().for_each(|op| write_op(op, bytes)));
        let views = self.views.iter().zip(&self.tables).map(|(view, table)| {
            let places = Places {
                out: view.places.out + table.map_or(0, |_| rows_at),
                across: spans + view.places.across * SPAN_BYTES as u64,
                down: spans + view.places.down * SPAN_BYTES as u64,
                weights,
                ops: ops + view.places.ops * OP_BYTES as u64,
                table: table.map_or(levels, |table| tables[table]),
                ..view.places
            };
            ViewRecord { places, ..*view }
        });
        writer.views = writer.list(|bytes| views.for_each(|view| view.write(bytes)));
        writer
    }
}

// === impl Writer ===

impl Writer {
    /// Where the views lie.
    pub(super) fn views(&self) -> u64 {
        self.views
    }

    /// Writes tiles; where they lie.
    pub(super) fn tiles(&mut self, tiles: &[TileRecord]) -> u64 {
        self.list(|bytes| tiles.iter().for_each(|tile| tile.write(bytes)))
    }

    /// Writes numbers of views; where they lie.
    pub(super) fn numbers(&mut self, numbers: &[u32]) -> u64 {
        self.words(numbers, |number| number.to_le_bytes())
    }

    /// Writes rows that lie from `rows_at` on, to be summed; where they lie.
    pub(super) fn rows(&mut self, rows: &[Row], rows_at: u64) -> u64 {
        self.list(|bytes| sums::write_list(rows, rows_at, bytes))
    }

    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// Writes words side by side; where they lie. Half of what a photo needs beside its pixels are weights of
    /// taps, so they are not appended byte by byte.
    fn words<T: Copy>(&mut self, words: &[T], bytes_of: impl Fn(T) -> [u8; 4]) -> u64 {
        self.list(|bytes| {
            let start = bytes.len();
            bytes.resize(start + 4 * words.len(), 0);
            let (to, _) = bytes[start..].as_chunks_mut::<4>();
            to.iter_mut().zip(words).for_each(|(to, word)| *to = bytes_of(*word));
        })
    }

    fn list(&mut self, append: impl FnOnce(&mut Vec<u8>)) -> u64 {
        let start = self.bytes.len().next_multiple_of(ALIGN_BYTES as usize);
        self.bytes.resize(start, 0);
        append(&mut self.bytes);
        self.at + start as u64
    }
}
