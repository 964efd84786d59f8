//! Normalise and cast by arithmetic where a table would be slower: level * factor + offset in
//! binary32, then the upper bits of the result.
//!
//! That is not how the definition computes, so it is only used where it was found to give the
//! table's elements for all 256 levels of all channels.

use headwater_core::Dtype;
use headwater_core::cast::{LevelElements, Normalise};

/// Units in the last place by which factor and offset are tried about their nearest values.
const TRIES_ULPS: i32 = 3;

/// How the bits of a binary32 become an element: the exponent is moved by `bias`, the fraction
/// rounded by `half` and cut by `shift`.
#[derive(Clone, Copy, Debug)]
struct Narrowing {
    bias: u32,
    half: u32,
    shift: u32,
    sign_shift: u32,
}

/// Factor and offset.
pub(super) type Pair = (f32, f32);

/// Those of each channel.
#[derive(Clone, Debug)]
pub(super) struct Affine {
    channels: [Pair; 3],
}

const BF16: Narrowing = Narrowing { bias: 0, half: 1 << 15, shift: 16, sign_shift: 16 };
const F16: Narrowing = Narrowing { bias: 112 << 23, half: 1 << 12, shift: 13, sign_shift: 16 };
const E4M3: Narrowing = Narrowing { bias: 120 << 23, half: 1 << 19, shift: 20, sign_shift: 24 };
/// Bits of E4M3's largest number.
const E4M3_MAX: u32 = 0x7e;
/// Bits of 2^-6 in binary32, E4M3's smallest normal number.
const E4M3_NORMAL: u32 = 121 << 23;
/// The last place of this number is 2^-9, E4M3's smallest step: adding it rounds to such steps, whose
/// number is then in the lowest byte.
const E4M3_STEPS: f32 = (1 << 14) as f32;

// === impl Narrowing ===

impl Narrowing {
    /// The element, for values that are normal numbers in its type.
    #[inline(always)]
    fn element(self, value: f32) -> u32 {
        let bits = value.to_bits();
        let sign = (bits & 0x8000_0000) >> self.sign_shift;
        let magnitude = (bits & 0x7fff_ffff).wrapping_sub(self.bias).wrapping_add(self.half);
        sign | (magnitude >> self.shift)
    }
}

/// What makes elements of values, where arithmetic can.
fn element_of(dtype: Dtype) -> Option<fn(f32) -> u32> {
    match dtype {
        Dtype::Bf16 => Some(|value| BF16.element(value)),
        Dtype::F16 => Some(|value| F16.element(value)),
        Dtype::Fp8E4m3 => Some(e4m3_element),
        _ => None,
    }
}

/// The element of E4M3 of any finite value: scales that follow from earlier batches leave some values
/// above its largest number, and small ones below its normal numbers.
#[inline(always)]
pub(super) fn e4m3_element(value: f32) -> u32 {
    let bits = value.to_bits();
    let magnitude = bits & 0x7fff_ffff;
    let normal =
        (magnitude.wrapping_sub(E4M3.bias).wrapping_add(E4M3.half) >> E4M3.shift).min(E4M3_MAX);
    let subnormal = (f32::from_bits(magnitude) + E4M3_STEPS).to_bits() & 0xff;
    let element = if magnitude < E4M3_NORMAL { subnormal } else { normal };
    (bits & 0x8000_0000) >> E4M3.sign_shift | element
}

/// A level's value.
#[inline(always)]
pub(super) fn value(level: u8, (factor, offset): Pair) -> f32 {
    f32::from(level) * factor + offset
}

/// For each channel the factor and offset, near those of values times `scale`, that are found to give
/// all its elements.
pub(super) fn pairs(
    &Normalise { mean, std }: &Normalise,
    scale: f32,
    gives_all: impl Fn(usize, Pair) -> bool,
) -> Option<[Pair; 3]> {
    let scale = f64::from(scale);
    let mut pairs = [(0.0, 0.0); 3];
    for (channel, found) in pairs.iter_mut().enumerate() {
        let std = f64::from(std[channel]);
        let factor = (scale / (255.0 * std)) as f32;
        let offset = (-f64::from(mean[channel]) * scale / std) as f32;
        *found = neighbours(factor)
            .flat_map(|factor| neighbours(offset).map(move |offset| (factor, offset)))
            .find(|&pair| gives_all(channel, pair))?;
    }
    Some(pairs)
}

// === impl Affine ===

impl Affine {
    /// Factors and offsets that give these elements of the levels, if there are any.
    pub(super) fn find(
        normalise: &Normalise,
        dtype: Dtype,
        scale: f32,
        elements: &LevelElements,
    ) -> Option<Self> {
        let element = element_of(dtype)?;
        let gives_all = |channel: usize, pair: Pair| {
            let levels = &elements[channel];
            (0..=255u8).all(|level| element(value(level, pair)) == levels[usize::from(level)])
        };
        let channels = pairs(normalise, scale, gives_all)?;
        Some(Self { channels })
    }

    /// Writes one plane in `dtype`, the one for which this was found.
    #[inline(always)]
    pub(super) fn write_plane(&self, dtype: Dtype, channel: usize, plane: &[u8], to: &mut [u8]) {
        let pair = self.channels[channel];
        match dtype {
            Dtype::Bf16 => {
                // Nothing is below the sign but what is cut, so no part of it need be set apart.
                let element = |v: f32| (v.to_bits().wrapping_add(BF16.half) >> BF16.shift) as u16;
                write(plane, to, |level| element(value(level, pair)).to_le_bytes());
            }
            Dtype::F16 => {
                write(plane, to, |level| (F16.element(value(level, pair)) as u16).to_le_bytes());
            }
            Dtype::Fp8E4m3 => {
                write(plane, to, |level| [e4m3_element(value(level, pair)) as u8]);
            }
            _ => {
                unreachable!("never found for {dtype}")
            }
        }
    }
}

/// A number and those near it, the nearest first.
fn neighbours(number: f32) -> impl Iterator<Item = f32> {
    let away = move |ulps: i32| f32::from_bits(number.to_bits().wrapping_add_signed(ulps));
    std::iter::once(number).chain((1..=TRIES_ULPS).flat_map(move |n| [away(n), away(-n)]))
}

#[inline(always)]
fn write<const N: usize>(plane: &[u8], to: &mut [u8], element: impl Fn(u8) -> [u8; N]) {
    let (elements, _) = to.as_chunks_mut::<N>();
    for (&level, bytes) in plane.iter().zip(elements) {
        *bytes = element(level);
    }
}
