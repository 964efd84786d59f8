//! The structures of `words.cu`, byte for byte as the kernels read them.

use headwater_core::recipe::MX_BLOCK;
use headwater_pixels::kernels::KernelOp;

/// Bytes of a view.
pub(super) const VIEW_BYTES: usize = 128;
/// Bytes of a tile.
pub(super) const TILE_BYTES: usize = 32;
/// Bytes of the taps of one position.
pub(super) const SPAN_BYTES: usize = 12;
/// Bytes of an operation.
pub(super) const OP_BYTES: usize = 32;

/// Bytes of the least and greatest levels of a view.
pub(super) const RANGES_BYTES: u64 = 6;

/// No resize across.
pub(super) const KEEPS_WIDTH: u32 = 1;
/// No resize down.
pub(super) const KEEPS_HEIGHT: u32 = 2;
/// Written from right to left.
pub(super) const MIRRORED: u32 = 4;
/// Changed in shared memory.
pub(super) const IN_SHARED: u32 = 8;
/// Minimum and maximum levels lie behind the elements.
pub(super) const RANGES: u32 = 16;
/// Scales of blocks do.
pub(super) const BLOCKS: u32 = 32;
/// The resize makes its vertical pass first.
pub(super) const VERTICAL_FIRST: u32 = 64;

/// `struct View`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ViewRecord {
    /// Places, in the order of the structure: source, source_row, source_channel, planes, spare,
    /// out, across, down, weights, ops, table.
    pub(super) places: Places,
    /// Bytes from one pixel of a row to the next.
    pub(super) source_pixel: u32,
    /// Columns of the view while it is changed.
    pub(super) width: u32,
    /// Rows.
    pub(super) height: u32,
    /// [`KEEPS_WIDTH`] and so on.
    pub(super) flags: u32,
    /// Number of operations.
    pub(super) ops_len: u32,
    /// Where the row's pixels begin in the view.
    pub(super) cut_left: u32,
    /// The same, downwards.
    pub(super) cut_top: u32,
    /// Columns of the row's pixels.
    pub(super) out_width: u32,
    /// Rows of them.
    pub(super) out_height: u32,
    /// Bytes of an element.
    pub(super) element_bytes: u32,
}

/// The u64 fields of `struct View`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Places {
    pub(super) source: u64,
    pub(super) source_row: u64,
    pub(super) source_channel: u64,
    pub(super) planes: u64,
    pub(super) spare: u64,
    pub(super) out: u64,
    pub(super) across: u64,
    pub(super) down: u64,
    pub(super) weights: u64,
    pub(super) ops: u64,
    pub(super) table: u64,
}

/// `struct Tile`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct TileRecord {
    /// Number of its view.
    pub(super) view: u32,
    /// First row of the view, and number of rows.
    pub(super) rows: (u32, u32),
    /// First column of the view, and number of columns.
    pub(super) columns: (u32, u32),
    /// What it needs of the source along the axis of the second pass: the first position, counted
    /// from the axis' base, and their number.
    pub(super) source: (u32, u32),
    /// Bytes of shared memory that it takes. The kernels get them by the launch.
    pub(super) shared_bytes: u64,
}

// === impl ViewRecord ===

impl ViewRecord {
    /// Bytes that the kernels write behind the elements.
    pub(super) fn bytes_behind(&self) -> u64 {
        let blocks = u64::from(self.out_width.div_ceil(MX_BLOCK));
        let scales = [0, 3 * u64::from(self.out_height) * blocks];
        let ranges = [0, RANGES_BYTES];
        let has = |flag| usize::from(self.flags & flag != 0);
        scales[has(BLOCKS)] + ranges[has(RANGES)]
    }

    /// Appends the structure.
    pub(super) fn write(&self, to: &mut Vec<u8>) {
        let p = &self.places;
        let to_source = [p.source, p.source_row, p.source_channel, p.planes, p.spare, p.out];
        let to_records = [p.across, p.down, p.weights, p.ops, p.table];
        to_source.iter().chain(&to_records).for_each(|place| to.extend(place.to_le_bytes()));
        let counts = [
            [self.source_pixel, self.width, self.height, self.flags, self.ops_len],
            [self.cut_left, self.cut_top, self.out_width, self.out_height, self.element_bytes],
        ];
        counts.as_flattened().iter().for_each(|count| to.extend(count.to_le_bytes()));
    }
}

// === impl TileRecord ===

impl TileRecord {
    /// Appends the structure.
    pub(super) fn write(&self, to: &mut Vec<u8>) {
        let Self { view, rows, columns, source, .. } = *self;
        let words = [view, rows.0, rows.1, columns.0, columns.1, source.0, source.1, 0];
        words.iter().for_each(|word| to.extend(word.to_le_bytes()));
    }
}

/// Appends `struct Op`.
pub(super) fn write_op(op: &KernelOp, to: &mut Vec<u8>) {
    to.extend(op.kind.to_le_bytes());
    to.extend(op.level.to_le_bytes());
    op.values.iter().for_each(|value| to.extend(value.to_le_bytes()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_have_the_sizes_that_the_kernels_read() {
        let mut bytes = Vec::new();
        ViewRecord::default().write(&mut bytes);
        assert_eq!(bytes.len(), VIEW_BYTES);
        TileRecord::default().write(&mut bytes);
        assert_eq!(bytes.len(), VIEW_BYTES + TILE_BYTES);
        write_op(&KernelOp::default(), &mut bytes);
        assert_eq!(bytes.len(), VIEW_BYTES + TILE_BYTES + OP_BYTES);
    }

    /// The numbers of `words.cu`, which name the fields there.
    #[test]
    fn fields_lie_where_the_kernels_look() {
        let record = ViewRecord {
            places: Places { source: 1, table: 0x0102_0304_0506_0708, ..Places::default() },
            source_pixel: 3,
            element_bytes: 4,
            ..ViewRecord::default()
        };
        let mut bytes = Vec::new();
        record.write(&mut bytes);
        assert_eq!(bytes[0..8], [1, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(bytes[80..88], [8, 7, 6, 5, 4, 3, 2, 1]);
        assert_eq!((bytes[88], bytes[124]), (3, 4));
    }
}
