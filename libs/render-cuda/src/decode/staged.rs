//! What the kernels read of one JPEG, laid out for a single copy, and what they make of it on the way.

use headwater_core::draw::Extent;
use headwater_jpeg::{Code, Colour, Layer, Outline};
use headwater_render::decode::ImageHash;

use super::record::{
    COMPONENTS_MAX, ComponentRecord, GROUP_BYTES, JPEG_BYTES, JpegRecord, LANES, SEGMENT_BYTES,
    TABLE_UNIT_BYTES, upsampling, write_segment, write_table,
};
use crate::arena::{ALIGN_BYTES, Coded, padded};

/// Segments that a block of threads decodes, a thread each.
pub(super) const GROUP_SEGMENTS: u32 = LANES;
/// Bytes of a block's coefficients.
const BLOCK_BYTES: u64 = 128;
/// Bytes of the segments that kernels find in an image.
pub(super) const FOUND_BYTES: u64 = LANES as u64 * SEGMENT_BYTES as u64;
/// Lists of a batch: images, groups, statuses, found segments. Each of them may leave a gap behind it.
const LISTS: u64 = 4;

/// A JPEG that has no place on the device yet.
#[derive(Clone, Debug)]
pub(crate) struct Staged {
    /// Its size in pixels.
    pub(crate) extent: Extent,
    /// Room that it needs beside its pixels.
    pub(crate) room: Coded,
    /// Places of what kernels read are counted from where its bytes begin, those of what they make from where the
    /// scratch memory does.
    pub(super) record: JpegRecord,
    /// How many segments it has; `None`: kernels are to find them.
    pub(super) segments: Option<u32>,
    /// What the worker knows it by, where it keeps what kernels find.
    pub(super) hash: Option<ImageHash>,
}

// === impl Staged ===

impl Staged {
    /// Bytes of its Huffman tables.
    pub(super) fn table_bytes(&self) -> u32 {
        4 * self.record.table_words
    }

    /// Lays an image out in `to`, which is what is copied to the device; without segments where kernels are to find
    /// them.
    pub(super) fn lay_out(outline: &Outline<'_>, finds: bool, to: &mut Vec<u8>) -> Self {
        to.clear();
        let segments = (!finds).then(|| outline.segments());
        segments.into_iter().flatten().for_each(|segment| write_segment(segment, to));
        let (width, height) = outline.size();
        let (mcus_across, mcus_down) = outline.mcus();
        let segments = segments.map(|segments| segments.len() as u32);
        let mut record = JpegRecord {
            size: (width, height),
            mcus_across,
            mcus: mcus_across * mcus_down,
            bits: outline.bytes().len() as u32 * 8,
            words_len: outline.bytes().len().div_ceil(4) as u32,
            colour: match outline.colour() {
                Colour::Gray => 0,
                Colour::YCbCr => 1,
                Colour::Rgb => 2,
            },
            ..JpegRecord::default()
        };
        set_components(&mut record, outline, to);
        record.coded = to.len() as u64;
        to.extend_from_slice(outline.bytes());
        // The next one begins at such a place as well.
        to.resize(to.len().next_multiple_of(ALIGN_BYTES as usize), 0);
        let mut end = u64::from(record.blocks()) * BLOCK_BYTES;
        for component in &mut record.components[..record.components_len as usize] {
            end = padded(end);
            component.plane = end;
            let rows = u64::from(mcus_down * component.v) * 8;
            end += rows * u64::from(component.stride);
        }
        let groups = segments.map_or(1, |segments| u64::from(segments.div_ceil(GROUP_SEGMENTS)));
        let found = if finds { FOUND_BYTES } else { 0 };
        let lists = JPEG_BYTES + groups * GROUP_BYTES + 4 + found + LISTS * ALIGN_BYTES;
        let records = to.len() as u64 + lists;
        let room = Coded { scratch: end, records };
        Self { extent: Extent { width, height }, room, record, segments, hash: None }
    }
}

/// The components, and what they look up.
fn set_components(record: &mut JpegRecord, outline: &Outline<'_>, to: &mut Vec<u8>) {
    let layers: Vec<Layer<'_>> = outline.layers().take(COMPONENTS_MAX).collect();
    let largest = |factor: fn(&Layer<'_>) -> u32| layers.iter().map(factor).max().unwrap_or(1);
    let (h_max, v_max) = (largest(|layer| layer.h), largest(|layer| layer.v));
    record.tables = to.len() as u64;
    let tables = to.len();
    let mut codes: Vec<(&Code, u32)> = Vec::with_capacity(2 * COMPONENTS_MAX);
    let mut place_of = |code, to: &mut Vec<u8>| {
        let known = codes.iter().find(|(known, _)| *known == code);
        known.map(|(_, place)| *place).unwrap_or_else(|| {
            let place = ((to.len() - tables) / TABLE_UNIT_BYTES) as u32;
            write_table(code, to);
            codes.push((code, place));
            place
        })
    };
    for (component, layer) in record.components.iter_mut().zip(&layers) {
        let times = (h_max / layer.h, v_max / layer.v);
        *component = ComponentRecord {
            stride: record.mcus_across * layer.h * 8,
            width: layer.width,
            height: layer.height,
            h: layer.h,
            v: layer.v,
            first: record.mcu_blocks,
            dc: place_of(layer.dc, to),
            ac: place_of(layer.ac, to),
            method: upsampling(layer.width, times),
            times,
            ..*component
        };
        record.mcu_blocks += layer.h * layer.v;
    }
    record.table_words = ((to.len() - tables) / size_of::<u32>()) as u32;
    record.components_len = layers.len() as u32;
    for (component, layer) in record.components.iter_mut().zip(&layers) {
        component.steps = to.len() as u64;
        to.extend(layer.steps.iter().flat_map(|step| step.to_le_bytes()));
    }
}
