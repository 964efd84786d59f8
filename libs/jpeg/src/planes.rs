//! Coefficients to the samples of each component, as far as they are wanted.

use headwater_simd::{Aligned, Simd};

use crate::declined::Declined;
use crate::entropy::{Block, Mcu, Sink};
use crate::header::{COMPONENTS_MAX, Frame};
use crate::layout::{Layout, Plane};
use crate::pixels::{Components, Idct, Pick, Window};

/// Bytes of a plane that are kept for the next image at most.
const RETAINED_BYTES_MAX: usize = 16 << 20;
/// Bytes before and after the rows of a plane, and what a row's length is a multiple of.
const LINE_BYTES: usize = 64;
/// Pixels around a window that upsampling looks at: one sample of the coarsest component.
const MARGIN: u32 = 4;
/// Blocks of a component that are transformed by one call at most.
const PICKS: usize = 64;

/// Memory for the samples of each component.
#[derive(Debug, Default)]
pub(crate) struct Planes {
    memory: [Aligned<u8>; COMPONENTS_MAX],
    picks: Picks,
}

/// Blocks of one component that are wanted.
#[derive(Debug)]
struct Picks {
    picks: [Pick; PICKS],
    len: usize,
}

/// MCUs from and to, and rows of MCUs from and to, that hold a window and what upsampling sees beside it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    columns: (u32, u32),
    rows: (u32, u32),
    across: u32,
}

/// Takes the coefficients of one image.
pub(crate) struct Painter<'a> {
    components: [Option<Painted<'a>>; COMPONENTS_MAX],
    layout: Layout,
    mcu: Mcu,
    wanted: Wanted,
    picks: &'a mut Picks,
}

/// A component and its plane.
struct Painted<'a> {
    idct: Idct,
    plane: &'a mut [u8],
    stride: usize,
    /// Blocks of an MCU across and down.
    h: u32,
    v: u32,
    /// Its first block in an MCU.
    first: usize,
}

// === impl Wanted ===

impl Wanted {
    pub(crate) fn new(frame: &Frame, window: Window) -> Self {
        let (mcu_width, mcu_height) = (8 * frame.h_max(), 8 * frame.v_max());
        let range = |start: usize, len: usize, side: u32, step: u32| {
            let end = ((start + len) as u32 + MARGIN).min(side);
            ((start as u32).saturating_sub(MARGIN) / step, end.div_ceil(step))
        };
        Self {
            columns: range(window.left, window.width, frame.width, mcu_width),
            rows: range(window.top, window.height, frame.height, mcu_height),
            across: frame.mcus_across(),
        }
    }

    /// The first MCU that is wanted, and the one after the last.
    pub(crate) fn mcus(&self) -> (u32, u32) {
        (self.rows.0 * self.across, self.rows.1 * self.across)
    }

    /// Whether these are all.
    pub(crate) fn is_all(&self, frame: &Frame) -> bool {
        let all = |side| (0, side);
        self.columns == all(frame.mcus_across()) && self.rows == all(frame.mcus_down())
    }

    /// Whether the MCU of a column and a row is wanted.
    fn has(&self, (column, row): (u32, u32)) -> bool {
        let within = |(from, to): (u32, u32), n| (from..to).contains(&n);
        within(self.columns, column) && within(self.rows, row)
    }

    /// Columns and rows of MCUs, from number `mcu` on.
    #[inline(always)]
    fn from(&self, mcu: u32) -> impl Iterator<Item = (u32, u32)> {
        let across = self.across;
        let first = (mcu % across, mcu / across);
        std::iter::successors(Some(first), move |&(column, row)| {
            Some(if column + 1 == across { (0, row + 1) } else { (column + 1, row) })
        })
    }
}

// === impl Planes ===

impl Planes {
    /// The samples of each component, as they were set last.
    pub(crate) fn of<'a>(
        &'a mut self,
        layout: &Layout,
    ) -> impl Iterator<Item = &'a mut [u8]> + use<'a> {
        self.memory.iter_mut().zip(layout.planes()).map(|(memory, plane)| {
            &mut plane_of(memory, &plane)[LINE_BYTES..][..plane.rows * plane.stride]
        })
    }

    pub(crate) fn painter<'a>(
        &'a mut self,
        simd: Simd,
        frame: &'a Frame,
        wanted: Wanted,
    ) -> Painter<'a> {
        let Self { memory, picks } = self;
        let layout = Layout::of(frame);
        let mut first = 0;
        let mut components = [const { None }; COMPONENTS_MAX];
        for (((painted, component), memory), plane) in
            components.iter_mut().zip(frame.components()).zip(memory).zip(layout.planes())
        {
            *painted = Some(Painted {
                idct: Idct::new(simd, frame.quant(component)),
                plane: plane_of(memory, &plane),
                stride: plane.stride,
                h: component.h,
                v: component.v,
                first,
            });
            first += (component.h * component.v) as usize;
        }
        Painter { components, layout, mcu: Mcu::new(frame), wanted, picks }
    }
}

/// Memory for a plane, with a line before and after its rows.
fn plane_of<'a>(memory: &'a mut Aligned<u8>, plane: &Plane) -> &'a mut [u8] {
    let len = plane.block_rows * plane.stride + 2 * LINE_BYTES;
    memory.keep_at_most(RETAINED_BYTES_MAX.max(len));
    memory.first(len)
}

// === impl Painter ===

impl Painter<'_> {
    /// The planes as they are now.
    pub(crate) fn components(&self) -> Components<'_> {
        let planes = self.components.iter().flatten().map(|painted| &painted.plane[LINE_BYTES..]);
        self.layout.components(planes)
    }
}

impl Sink for Painter<'_> {
    fn take(&mut self, mcu: u32, blocks: &mut [Block]) -> Result<(), Declined> {
        let Self { components, mcu: layout, wanted, picks, .. } = self;
        let mcu_blocks = layout.components().len();
        let mcus = blocks.len() / mcu_blocks;
        let (mut in_range, mut all) = (true, true);
        for painted in components.iter_mut().flatten() {
            for ((column, row), first) in wanted.from(mcu).zip((0..mcus).map(|n| n * mcu_blocks)) {
                if !wanted.has((column, row)) {
                    all = false;
                    continue;
                }
                let mut block = first + painted.first;
                for y in row * painted.v..(row + 1) * painted.v {
                    for x in column * painted.h..(column + 1) * painted.h {
                        let place = LINE_BYTES + y as usize * 8 * painted.stride + x as usize * 8;
                        if picks.push(Pick { block, place }) {
                            in_range &= painted.transform(blocks, picks);
                        }
                        block += 1;
                    }
                }
            }
            in_range &= painted.transform(blocks, picks);
        }
        if !all {
            blocks.as_flattened_mut().fill(0);
        }
        if in_range { Ok(()) } else { Err(Declined::Range) }
    }
}

// === impl Painted ===

impl Painted<'_> {
    /// Makes samples of the blocks that are picked, which leaves zeros there; whether they were in range.
    fn transform(&mut self, blocks: &mut [Block], picks: &mut Picks) -> bool {
        let len = std::mem::take(&mut picks.len);
        len == 0 || self.idct.blocks(blocks, &picks.picks[..len], self.plane, self.stride)
    }
}

// === impl Picks ===

impl Picks {
    /// Adds a block; whether there is no room for another one.
    #[inline(always)]
    fn push(&mut self, pick: Pick) -> bool {
        self.picks[self.len] = pick;
        self.len += 1;
        self.len == PICKS
    }
}

impl Default for Picks {
    fn default() -> Self {
        Self { picks: [Pick::default(); PICKS], len: 0 }
    }
}
