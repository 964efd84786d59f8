//! Normalise and cast to MXFP8: FP8 elements in blocks of 32, each block with a scale of its own.

pub mod plain;

pub use plain::BLOCK;

use crate::image::Planes;
use crate::ops::cast::Normalise;
use crate::ops::cast::affine::{Pair, e4m3_element, pairs, value};
use crate::simd::{Simd, twin};

/// What the twins look up, for one normalisation.
#[derive(Clone, Debug)]
pub struct MxTable {
    normalise: Normalise,
    /// Per channel and level the scale of a block in which it has the largest magnitude.
    scales: Box<[[u8; 256]; 3]>,
    /// Arithmetic that gives the elements, if any was found.
    pairs: Option<[Pair; 3]>,
}

// === impl MxTable ===

impl MxTable {
    /// The table of a normalisation.
    #[must_use]
    pub fn new(normalise: Normalise) -> Self {
        let scale =
            |channel, level: usize| plain::scale_of(normalise.value(channel, level as u8).abs());
        let scales: Box<[[u8; 256]; 3]> =
            Box::new([0, 1, 2].map(|channel| std::array::from_fn(|level| scale(channel, level))));
        // Every level under every scale that a block it is in can have.
        let gives_all = |channel: usize, pair: Pair| {
            let of_levels = &scales[channel];
            let mut of_blocks = *of_levels;
            of_blocks.sort_unstable();
            let distinct = of_blocks.chunk_by(|a, b| a == b).map(|same| same[0]);
            let mut all = distinct.flat_map(|scale| (0..=u8::MAX).map(move |level| (scale, level)));
            all.all(|(scale, level)| {
                let exact = || plain::element_of(normalise.value(channel, level), scale);
                of_levels[usize::from(level)] > scale
                    || e4m3_element(value(level, under(pair, scale))) as u8 == exact()
            })
        };
        let pairs = pairs(&normalise, 1.0, gives_all);
        Self { normalise, scales, pairs }
    }

    /// Mean and standard deviation that it was made for.
    #[must_use]
    pub fn normalise(&self) -> &Normalise {
        &self.normalise
    }
}

/// Factor and offset that give values over the scale. Powers of two: exact.
#[inline(always)]
fn under((factor, offset): Pair, scale: u8) -> Pair {
    // 1 / X, whose exponent is the scale's with the other sign.
    let inverse = f32::from_bits((254 - u32::from(scale)) << 23);
    (factor * inverse, offset * inverse)
}

/// Writes the view as one row `[3, height, width]` of elements and one row `[3, height, blocks]` of
/// scales.
///
/// # Panics
/// A row is not exactly so long.
pub fn write(simd: Simd, view: &Planes, table: &MxTable, elements: &mut [u8], scales: &mut [u8]) {
    match (simd, &table.pairs) {
        (Simd::Plain, _) | (_, None) => plain::write(view, &table.normalise, elements, scales),
        (_, Some(pairs)) => by_arithmetic(simd, view, &table.scales, pairs, elements, scales),
    }
}

twin! {
    fn by_arithmetic(
        view: &Planes,
        table: &[[u8; 256]; 3],
        pairs: &[Pair; 3],
        elements: &mut [u8],
        scales: &mut [u8],
    ) = compute;
}

#[inline(always)]
fn compute(
    view: &Planes,
    table: &[[u8; 256]; 3],
    pairs: &[Pair; 3],
    elements: &mut [u8],
    scales: &mut [u8],
) {
    plain::check_rows(view, elements, scales);
    let width = view.extent().width as usize;
    let blocks = width.div_ceil(BLOCK);
    let height = view.extent().height as usize;
    let planes = view.planes().into_iter().zip(elements.chunks_exact_mut(width * height));
    let planes = planes.zip(scales.chunks_exact_mut(blocks * height));
    for (channel, ((plane, to), scales)) in planes.enumerate() {
        let (table, pair) = (&table[channel], pairs[channel]);
        let rows = plane.chunks_exact(width).zip(to.chunks_exact_mut(width));
        for ((from, to), scales) in rows.zip(scales.chunks_exact_mut(blocks)) {
            let (whole, rest) = from.as_chunks::<BLOCK>();
            let (whole_to, rest_to) = to.as_chunks_mut::<BLOCK>();
            for ((levels, to), scale) in whole.iter().zip(whole_to).zip(&mut *scales) {
                *scale = block(table, pair, levels, to);
            }
            if !rest.is_empty() {
                scales[blocks - 1] = block(table, pair, rest, rest_to);
            }
        }
    }
}

/// Writes the elements of a block; its scale. Values rise with levels, so that the largest magnitude is
/// that of the least or of the greatest level, and larger magnitudes have no smaller scales.
#[inline(always)]
fn block(table: &[u8; 256], pair: Pair, levels: &[u8], to: &mut [u8]) -> u8 {
    let [mut least, mut greatest] = [u8::MAX, u8::MIN];
    for &level in levels {
        least = least.min(level);
        greatest = greatest.max(level);
    }
    let scale = table[usize::from(least)].max(table[usize::from(greatest)]);
    let pair = under(pair, scale);
    for (element, &level) in to.iter_mut().zip(levels) {
        *element = e4m3_element(value(level, pair)) as u8;
    }
    scale
}
