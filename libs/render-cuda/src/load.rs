//! What lies in the arena at one time: images, views half made, records, rows.
//!
//! [`Load`] is plain bookkeeping. It says where everything goes and what is launched on it; nothing
//! here touches a device, so that all of it can be checked without one.

mod again;

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::Range;

use headwater_core::draw::{Extent, SampleParams, ViewParams};
use headwater_core::op::{DrawnOp, split_flip};
use headwater_core::recipe::ResizePasses;
use headwater_core::{Dtype, Recipe};
use headwater_pixels::kernels::KernelOp;
use headwater_pixels::ops::resize::{Axis, Geometry, Taps, WORK_BYTES};
use headwater_simd::Simd;

use super::arena::{Bounds, Coded, NoRoom, Room, Row, Sealed, Source, Sums, padded};
use super::launch::{Kernel, Launch};
use super::record::{
    BLOCKS, IN_SHARED, KEEPS_HEIGHT, KEEPS_WIDTH, MIRRORED, Places, RANGES, VERTICAL_FIRST,
    ViewRecord,
};
use super::records::Records;
use super::source::{RESIZE_THREADS, TILE_SHARED_BYTES, finish_block};
use super::sums;
use super::tables::Tables;
use super::tiles::{self, Needs};

/// Pixels of a view at most: the kernels count them in 32 bits, in steps of all threads of a block.
const PLANE_PIXELS_MAX: u64 = u32::MAX as u64 - 4096;

/// Whole images whose colours are changed, then bases, then views: each is made of those before.
const STAGES: usize = 3;
const IMAGES: usize = 0;
const BASES: usize = 1;
const VIEWS: usize = 2;

/// Samples that are worked on together.
#[derive(Debug)]
pub(super) struct Load {
    bounds: Bounds,
    used: u64,
    records: Records,
    /// Numbers of the views of each sample, of images and bases too.
    samples: Vec<(usize, Range<usize>)>,
    stages: [Stage; STAGES],
    rows: Vec<Row>,
    rows_bytes: u64,
    /// Bytes of the records of images that kernels decode.
    coded_bytes: u64,
    taps: [Taps; 2],
    simd: Simd,
    ops: Vec<KernelOp>,
    /// Memory for the next load's records.
    spare: Vec<u8>,
}

#[derive(Debug, Default)]
struct Stage {
    tiles: Vec<super::record::TileRecord>,
    /// Numbers of views, by threads and shared memory of a block.
    blocks: BTreeMap<(u32, u64), Vec<u32>>,
}

/// Where the elements of a view go.
enum Out {
    /// To the arena, as planes of levels: it is the source of other views.
    Planes,
    /// To a row, with the table of its tensor.
    Row { table: usize, dtype: Dtype },
}

/// How much there was before a sample that may have to be taken out again.
struct Mark {
    used: u64,
    records: [usize; 4],
    tiles: [usize; STAGES],
    rows: usize,
    rows_bytes: u64,
    coded_bytes: u64,
}

// === impl Load ===

impl Load {
    pub(super) fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            used: 0,
            records: Records::default(),
            samples: Vec::new(),
            stages: Default::default(),
            rows: Vec::new(),
            rows_bytes: 0,
            coded_bytes: 0,
            taps: Default::default(),
            simd: Simd::best(),
            ops: Vec::new(),
            spare: Vec::new(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub(super) fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// Bytes that a kernel must read or write for all that is in the load.
    pub(super) fn necessary_bytes(&self, kernel: Kernel) -> u64 {
        self.records.necessary_bytes(kernel)
    }

    pub(super) fn clear(&mut self) {
        self.used = 0;
        self.records.clear();
        self.samples.clear();
        self.stages = Default::default();
        self.rows.clear();
        self.rows_bytes = 0;
        self.coded_bytes = 0;
    }

    /// Adds a sample whose image, of size `image` as it is in memory, is to lie at the place that
    /// is given back, with so much more room if kernels decode it. `tables`: those of its tensors have been chosen.
    pub(super) fn add(
        &mut self,
        recipe: &Recipe,
        sample: usize,
        params: &SampleParams,
        (image, reduction): (Extent, u32),
        coded: Coded,
        tables: &Tables,
    ) -> Result<Room, NoRoom> {
        let mark = self.mark();
        let image_bytes = 3 * u64::from(image.width) * u64::from(image.height);
        let room = Room { pixels: self.take(image_bytes), scratch: self.take(coded.scratch) };
        self.coded_bytes += coded.records;
        let source = Source::interleaved(room.pixels, image, reduction);
        let added = self.add_stages(recipe, sample, params, (source, image), tables);
        if added.is_ok() && self.bytes(tables) <= self.bounds.arena_bytes {
            self.samples.push((sample, mark.records[0]..self.records.views.len()));
            return Ok(room);
        }
        let alone = mark.rows == 0;
        self.take_out(&mark);
        Err(if alone || added.is_err() { NoRoom::Ever } else { NoRoom::Now })
    }

    /// Bytes of the arena that are needed.
    fn bytes(&self, tables: &Tables) -> u64 {
        let rows = sums::sums_bytes(self.rows.len()) + padded(self.rows_bytes);
        self.used + self.records_bytes(tables) + padded(self.coded_bytes) + rows
    }

    fn records_bytes(&self, tables: &Tables) -> u64 {
        let tiles = self.stages.iter().map(|stage| stage.tiles.len()).sum();
        let lists = self.stages.iter().map(|stage| 1 + stage.blocks.len()).sum();
        let rows = padded(sums::list_bytes(self.rows.len()));
        padded(self.records.bytes_max(tiles, lists)) + tables.bytes_max() + rows
    }

    fn add_stages(
        &mut self,
        recipe: &Recipe,
        sample: usize,
        params: &SampleParams,
        (mut source, image): (Source, Extent),
        tables: &Tables,
    ) -> Result<(), tiles::TooLong> {
        let passes = recipe.resize_passes;
        if !params.image_ops().is_empty() {
            let whole = ViewParams { ops: params.image_ops().to_vec(), ..ViewParams::whole(image) };
            let as_it_is = Source { reduction: 1, ..source };
            let planes = self.view(IMAGES, as_it_is, (&whole, passes), image, Out::Planes)?;
            source = Source::planar(planes, image, source.reduction);
        }
        let mut bases = Vec::with_capacity(params.bases().len());
        for (spec, params) in recipe.bases.iter().zip(params.bases()) {
            let planes = self.view(BASES, source, (params, passes), spec.extent(), Out::Planes)?;
            bases.push(Source::planar(planes, spec.extent(), 1));
        }
        let mut number = 0;
        for (tensor, spec) in recipe.tensors.iter().enumerate() {
            for view in 0..spec.views.len() {
                let params = &params.views()[number];
                let source = params.base.map_or(source, |base| bases[base]);
                let out = Out::Row { table: tables.of_tensor(tensor), dtype: spec.dtype };
                let record = self.records.views.len() as u32;
                let offset = self.view(VIEWS, source, (params, passes), spec.extent(), out)?;
                let bytes = self.rows_bytes - offset;
                self.rows.push(Row { sample, tensor, view, offset, bytes, record });
                number += 1;
            }
        }
        Ok(())
    }

    /// Adds one view; where its elements go to. `extent` is the size of the row's view.
    fn view(
        &mut self,
        stage: usize,
        source: Source,
        (params, passes): (&ViewParams, ResizePasses),
        extent: Extent,
        out: Out,
    ) -> Result<u64, tiles::TooLong> {
        let painted = if params.cut.is_some() { params.resized } else { extent };
        let cut = params.cut.unwrap_or_default();
        let plane_bytes = 3 * u64::from(painted.width) * u64::from(painted.height);
        if plane_bytes / 3 > PLANE_PIXELS_MAX {
            return Err(tiles::TooLong);
        }
        let number = self.records.views.len() as u32;
        let mirrored = self.push_ops(&params.ops);
        let looks_around = self.ops.iter().any(KernelOp::looks_around);
        let in_shared = looks_around
            && finish_block(plane_bytes, true).1 <= u64::from(self.bounds.shared_bytes_max);
        let mut record = ViewRecord {
            places: Places { planes: self.take(plane_bytes), ..Places::default() },
            source_pixel: source.pixel_bytes,
            width: painted.width,
            height: painted.height,
            flags: [0, MIRRORED][usize::from(mirrored)] | [0, IN_SHARED][usize::from(in_shared)],
            ops_len: self.ops.len() as u32,
            cut_left: cut.left,
            cut_top: cut.top,
            out_width: extent.width,
            out_height: extent.height,
            ..ViewRecord::default()
        };
        if looks_around && !in_shared {
            record.places.spare = self.take(plane_bytes);
        }
        let elements = 3 * u64::from(extent.width) * u64::from(extent.height);
        let (at, table) = match out {
            Out::Planes => {
                record.element_bytes = 1;
                (self.take(elements), None)
            }
            Out::Row { table, dtype } => {
                record.element_bytes = dtype.size_bytes() as u32;
                record.flags |= match dtype {
                    Dtype::Fp8E4m3 => RANGES,
                    Dtype::Mxfp8E4m3 => BLOCKS,
                    _ => 0,
                };
                let at = self.rows_bytes.next_multiple_of(dtype.size_bytes());
                self.rows_bytes = at + elements * dtype.size_bytes() + record.bytes_behind();
                (at, Some(table))
            }
        };
        record.places.out = at;
        let geometry = Geometry::new(params, painted, passes);
        self.resize(stage, number, source, &geometry, &mut record)?;
        self.records.push(record, &self.ops, table);
        let block = finish_block(plane_bytes, in_shared);
        self.stages[stage].blocks.entry(block).or_default().push(number);
        Ok(at)
    }

    /// A flip that comes first is left to the resize; says whether there is one.
    fn push_ops(&mut self, ops: &[DrawnOp]) -> bool {
        let (mirrored, ops) = split_flip(ops);
        self.ops.clear();
        ops.iter().for_each(|op| KernelOp::push(op, &mut self.ops));
        mirrored
    }

    /// Taps and tiles of a view.
    fn resize(
        &mut self,
        stage: usize,
        number: u32,
        source: Source,
        geometry: &Geometry,
        record: &mut ViewRecord,
    ) -> Result<(), tiles::TooLong> {
        let (across, down) = (geometry.across(source.reduction), geometry.down(source.reduction));
        let table_bytes = |axis: &Axis| if axis.is_kept() { 0 } else { axis.table_bytes() };
        if table_bytes(&across) + table_bytes(&down) > WORK_BYTES {
            return Err(tiles::TooLong);
        }
        let [columns, rows] = &mut self.taps;
        let mut column = u64::from(across.base);
        let mut row = u64::from(down.base);
        if across.is_kept() {
            record.flags |= KEEPS_WIDTH;
            column += u64::from(across.start);
        } else {
            columns.compute_by(self.simd, &across);
            record.places.across = self.records.push_taps(columns);
        }
        if down.is_kept() {
            record.flags |= KEEPS_HEIGHT;
            row += u64::from(down.start);
        } else {
            rows.compute_by(self.simd, &down);
            record.places.down = self.records.push_taps(rows);
        }
        record.places.source =
            source.offset + row * source.row_bytes + column * u64::from(source.pixel_bytes);
        record.places.source_row = source.row_bytes;
        record.places.source_channel = source.channel_bytes;
        let size = (record.width, record.height);
        let bytes_max = TILE_SHARED_BYTES.min(self.bounds.shared_bytes_max);
        let tiles = &mut self.stages[stage].tiles;
        if geometry.is_vertical_first(source.reduction) {
            record.flags |= VERTICAL_FIRST;
            tiles::cut_columns(number, size, Needs::of(&across, columns), bytes_max, tiles)
        } else {
            tiles::cut_rows(number, size, Needs::of(&down, rows), bytes_max, tiles)
        }
    }

    /// Room for `bytes` bytes.
    fn take(&mut self, bytes: u64) -> u64 {
        let at = self.used;
        self.used = at + padded(bytes);
        at
    }

    /// Takes the records of a load that is on the device back: their memory serves the next one.
    pub(super) fn give_back(&mut self, mut records: Vec<u8>) {
        records.clear();
        self.spare = records;
    }

    /// Where everything lies, with tables that the tensors look up.
    pub(super) fn seal(&mut self, tables: &Tables) -> Sealed {
        let records_at = self.used;
        let coded_at = records_at + self.records_bytes(tables);
        let sums_at = coded_at + padded(self.coded_bytes);
        let rows_at = sums_at + sums::sums_bytes(self.rows.len());
        self.place_rows();
        let bytes = std::mem::take(&mut self.spare);
        let mut writer = self.records.writer((records_at, bytes), rows_at, tables);
        let views = writer.views();
        let mut launches = Vec::new();
        for stage in self.stages.iter().filter(|stage| !stage.tiles.is_empty()) {
            let shared = stage.tiles.iter().map(|tile| tile.shared_bytes).max().unwrap_or(0);
            launches.push(Launch {
                kernel: Kernel::ResizeTiles,
                blocks: stage.tiles.len() as u32,
                threads: RESIZE_THREADS,
                shared_bytes: shared as u32,
                records: [views, writer.tiles(&stage.tiles)],
            });
            // The blocks that take longest begin first.
            for (&(threads, shared_bytes), numbers) in stage.blocks.iter().rev() {
                launches.push(Launch {
                    kernel: Kernel::FinishViews,
                    blocks: numbers.len() as u32,
                    threads,
                    shared_bytes: shared_bytes as u32,
                    records: [views, writer.numbers(numbers)],
                });
            }
        }
        let sums = Sums::new(&self.rows, writer.rows(&self.rows, rows_at), sums_at);
        Sealed {
            records: (records_at, writer.into_bytes()),
            launches,
            coded: (coded_at, sums_at),
            sums,
            rows: (rows_at, self.rows_bytes),
        }
    }

    /// Puts the rows of each view side by side, in the order of their samples, as they lie in a part: many of them are
    /// copied there together. It takes no more room than in the order in which they came: the largest elements lie
    /// first, so that no row leaves a gap.
    fn place_rows(&mut self) {
        let Self { rows, records, .. } = self;
        let element_bytes = |row: &Row| records.views[row.record as usize].element_bytes;
        rows.sort_by_key(|row| (Reverse(element_bytes(row)), row.tensor, row.view));
        let mut end = 0;
        for row in rows {
            let place = &mut records.views[row.record as usize];
            (row.offset, place.places.out) = (end, end);
            end += row.bytes;
        }
    }

    fn mark(&self) -> Mark {
        Mark {
            used: self.used,
            records: self.records.lens(),
            tiles: [0, 1, 2].map(|stage: usize| self.stages[stage].tiles.len()),
            rows: self.rows.len(),
            rows_bytes: self.rows_bytes,
            coded_bytes: self.coded_bytes,
        }
    }

    fn take_out(&mut self, mark: &Mark) {
        self.used = mark.used;
        self.records.truncate(mark.records);
        let views = self.records.views.len() as u32;
        for (stage, &tiles) in self.stages.iter_mut().zip(&mark.tiles) {
            stage.tiles.truncate(tiles);
            stage.blocks.values_mut().for_each(|numbers| numbers.retain(|&n| n < views));
            stage.blocks.retain(|_, numbers| !numbers.is_empty());
        }
        self.rows.truncate(mark.rows);
        self.rows_bytes = mark.rows_bytes;
        self.coded_bytes = mark.coded_bytes;
    }
}
