//! Tables of an image by which scalar code decodes: one lookup for run, value and length of a coefficient.

use crate::header::{COMPONENTS_MAX, Component, Frame};
use crate::huffman::{Code, LOOKUP_LEN, Values};

/// Tables of one image, in memory that is kept.
#[derive(Debug)]
pub(crate) struct Lookups {
    dc: [Values; 4],
    ac: [Values; 4],
}

/// Both tables of a component and the codes that they were made from.
#[derive(Clone, Copy)]
pub(super) struct Tables<'a> {
    pub(super) dc: &'a [u32; LOOKUP_LEN],
    pub(super) ac: &'a [u32; LOOKUP_LEN],
    pub(super) dc_code: &'a Code,
    pub(super) ac_code: &'a Code,
}

// === impl Lookups ===

impl Lookups {
    pub(crate) fn new() -> Self {
        let values = || std::array::from_fn(|_| Values::new());
        Self { dc: values(), ac: values() }
    }

    /// Makes the tables of an image.
    pub(crate) fn prepare(&mut self, frame: &Frame) {
        let (mut dc_made, mut ac_made) = ([false; 4], [false; 4]);
        for component in frame.components() {
            if !std::mem::replace(&mut dc_made[component.dc], true) {
                self.dc[component.dc].set_dc(frame.dc_code(component));
            }
            if !std::mem::replace(&mut ac_made[component.ac], true) {
                self.ac[component.ac].set_ac(frame.ac_code(component));
            }
        }
    }

    /// Those of DC and of AC coefficients of a component.
    pub(super) fn values(&self, component: &Component) -> [&Values; 2] {
        [&self.dc[component.dc], &self.ac[component.ac]]
    }

    /// Those of each component of the image that they were made for.
    pub(super) fn tables<'a>(&'a self, frame: &'a Frame) -> [Tables<'a>; COMPONENTS_MAX] {
        let components = frame.components();
        std::array::from_fn(|n| {
            let component = components.get(n).unwrap_or(&components[0]);
            let [dc, ac] = self.values(component);
            let (dc_code, ac_code) = (frame.dc_code(component), frame.ac_code(component));
            Tables { dc: &dc.entries, ac: &ac.entries, dc_code, ac_code }
        })
    }
}
