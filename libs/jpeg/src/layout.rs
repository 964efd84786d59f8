//! Where the samples of an image's components lie, before they are as many as its pixels.

use std::ops::Range;

use crate::header::{COMPONENTS_MAX, Colour, Frame, MCU_BLOCKS_MAX, SIDE_MAX};
use crate::pixels::{Component, Components, Window};

/// What a row's length is a multiple of.
const LINE_BYTES: usize = 64;
/// Bytes of a layout that is written down.
const BYTES: usize = 12;

/// Size, colours and sampling factors of an image. Where its samples lie follows from them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    width: u32,
    height: u32,
    colour: Colour,
    /// Across and down; of a gray image the first is 1, 1 and the others are 0.
    factors: [(u32, u32); COMPONENTS_MAX],
}

/// The samples of one component: rows of bytes, `stride` apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plane {
    /// Bytes from a row to the next one. What lies after the samples of a row has any value.
    pub stride: usize,
    /// Rows.
    pub rows: usize,
    /// Samples of a row.
    pub(crate) width: usize,
    /// Rows of the blocks that hold them.
    pub(crate) block_rows: usize,
}

// === impl Layout ===

impl Layout {
    pub(crate) fn of(frame: &Frame) -> Self {
        let mut factors = [(0, 0); COMPONENTS_MAX];
        for (factors, component) in factors.iter_mut().zip(frame.components()) {
            *factors = (component.h, component.v);
        }
        Self { width: frame.width, height: frame.height, colour: frame.colour, factors }
    }

    /// Pixels of a row.
    #[must_use]
    pub fn width(&self) -> u32 {
        self.width
    }

    /// Rows.
    #[must_use]
    pub fn height(&self) -> u32 {
        self.height
    }

    /// The planes of its one or three components.
    pub fn planes(&self) -> impl Iterator<Item = Plane> + use<> {
        let used = self.used().len();
        self.factors.map(|factors| self.plane(factors)).into_iter().take(used)
    }

    fn plane(&self, (h, v): (u32, u32)) -> Plane {
        let (h_max, v_max) = self.largest();
        let mcus = |side: u32, factor: u32| side.div_ceil(8 * factor) as usize;
        let blocks_across = mcus(self.width, h_max) * h as usize;
        Plane {
            stride: (8 * blocks_across).next_multiple_of(LINE_BYTES),
            rows: (self.height * v).div_ceil(v_max) as usize,
            width: (self.width * h).div_ceil(h_max) as usize,
            block_rows: 8 * mcus(self.height, v_max) * v as usize,
        }
    }

    /// Rows of each plane that the colours of a window follow from.
    pub(crate) fn rows(&self, window: Window) -> impl Iterator<Item = Range<usize>> + '_ {
        let (_, v_max) = self.largest();
        let end = window.top + window.height;
        self.planes().zip(self.used()).map(move |(plane, &(_, v))| match v_max / v {
            1 => window.top..end,
            // Smooth upsampling looks at the rows beside them.
            times => {
                let (top, end) = (window.top / times as usize, end.div_ceil(times as usize));
                top.saturating_sub(1)..(end + 1).min(plane.rows)
            }
        })
    }

    /// The components, whose planes are these.
    pub(crate) fn components<'a>(&self, planes: impl Iterator<Item = &'a [u8]>) -> Components<'a> {
        let all = planes.zip(self.planes()).zip(self.used());
        let mut components = all.map(|((plane, layout), &(h, v))| Component {
            plane,
            stride: layout.stride,
            width: layout.width,
            height: layout.rows,
            h: h as usize,
            v: v as usize,
        });
        let first = components.next().expect("an image has a component");
        match (self.colour, components.next(), components.next()) {
            (Colour::YCbCr, Some(second), Some(third)) => Components::Ycc([first, second, third]),
            (Colour::Rgb, Some(second), Some(third)) => Components::Rgb([first, second, third]),
            _ => Components::Gray(first),
        }
    }

    /// Writes it down, to be read by [`Layout::read`].
    #[must_use]
    pub fn write(&self) -> [u8; BYTES] {
        let mut bytes = [0; BYTES];
        bytes[..4].copy_from_slice(&self.width.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.height.to_le_bytes());
        bytes[8] = match self.colour {
            Colour::Gray => 0,
            Colour::YCbCr => 1,
            Colour::Rgb => 2,
        };
        for (byte, (h, v)) in bytes[9..].iter_mut().zip(self.factors) {
            *byte = (h << 4 | v) as u8;
        }
        bytes
    }

    /// Reads what [`Layout::write`] has written; `None` where it is no layout of an image.
    #[must_use]
    pub fn read(bytes: &[u8; BYTES]) -> Option<Self> {
        let side = |at: usize| u32::from_le_bytes(std::array::from_fn(|byte| bytes[at + byte]));
        let colour = *[Colour::Gray, Colour::YCbCr, Colour::Rgb].get(usize::from(bytes[8]))?;
        let factors = [9, 10, 11].map(|at| (u32::from(bytes[at] >> 4), u32::from(bytes[at] & 15)));
        let layout = Self { width: side(0), height: side(4), colour, factors };
        let is_side = |side: u32| (1..=SIDE_MAX).contains(&side);
        let is_factor = |factor: u32| matches!(factor, 1 | 2 | 4);
        let blocks: u32 = layout.used().iter().map(|(h, v)| h * v).sum();
        let is_layout = is_side(layout.width)
            && is_side(layout.height)
            && layout.used().iter().all(|&(h, v)| is_factor(h) && is_factor(v))
            && blocks <= MCU_BLOCKS_MAX as u32
            && (colour != Colour::Gray || factors == [(1, 1), (0, 0), (0, 0)]);
        is_layout.then_some(layout)
    }

    fn used(&self) -> &[(u32, u32)] {
        &self.factors[..if self.colour == Colour::Gray { 1 } else { COMPONENTS_MAX }]
    }

    fn largest(&self) -> (u32, u32) {
        self.used().iter().fold((1, 1), |(h_max, v_max), &(h, v)| (h_max.max(h), v_max.max(v)))
    }
}
