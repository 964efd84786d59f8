//! Normalise and cast by arithmetic where a table would be slower: level * factor + offset in
//! binary32, then the upper bits of the result.
//!
//! That is not how the definition computes, so it is only used where it was found to give the
//! table's elements for all 256 levels of all channels.

use headwater_core::Dtype;

use crate::ops::cast::table::CastTable;

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

/// Factor and offset of each channel.
#[derive(Clone, Debug)]
pub(super) struct Affine {
    channels: [(f32, f32); 3],
}

const BF16: Narrowing = Narrowing { bias: 0, half: 1 << 15, shift: 16, sign_shift: 16 };
const F16: Narrowing = Narrowing { bias: 112 << 23, half: 1 << 12, shift: 13, sign_shift: 16 };
const E4M3: Narrowing = Narrowing { bias: 120 << 23, half: 1 << 19, shift: 20, sign_shift: 24 };

// === impl Narrowing ===

impl Narrowing {
    const fn of(dtype: Dtype) -> Option<Self> {
        match dtype {
            Dtype::Bf16 => Some(BF16),
            Dtype::F16 => Some(F16),
            Dtype::Fp8E4m3 => Some(E4M3),
            Dtype::F32 | Dtype::U8 | Dtype::I64 | Dtype::Bool => None,
        }
    }

    /// The element, for values that are normal numbers in its type.
    #[inline(always)]
    fn element(self, value: f32) -> u32 {
        let bits = value.to_bits();
        let sign = (bits & 0x8000_0000) >> self.sign_shift;
        let magnitude = (bits & 0x7fff_ffff).wrapping_sub(self.bias).wrapping_add(self.half);
        sign | (magnitude >> self.shift)
    }
}

#[inline(always)]
fn value(level: u8, (factor, offset): (f32, f32)) -> f32 {
    f32::from(level) * factor + offset
}

// === impl Affine ===

impl Affine {
    /// Factors and offsets that give the table's elements, if there are any.
    pub(super) fn find(
        table: &CastTable,
        mean: [f32; 3],
        std: [f32; 3],
        scale: f32,
    ) -> Option<Self> {
        let narrowing = Narrowing::of(table.dtype())?;
        let scale = if table.dtype() == Dtype::Fp8E4m3 { f64::from(scale) } else { 1.0 };
        let mut channels = [(0.0, 0.0); 3];
        for (channel, found) in channels.iter_mut().enumerate() {
            let std = f64::from(std[channel]);
            let factor = (scale / (255.0 * std)) as f32;
            let offset = (-f64::from(mean[channel]) * scale / std) as f32;
            let gives_all = |pair: &(f32, f32)| {
                let element = |level: u8| narrowing.element(value(level, *pair));
                (0..=255u8).all(|level| element(level) == table.levels(channel)[usize::from(level)])
            };
            *found = neighbours(factor)
                .flat_map(|factor| neighbours(offset).map(move |offset| (factor, offset)))
                .find(gives_all)?;
        }
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
                write(plane, to, |level| [E4M3.element(value(level, pair)) as u8]);
            }
            Dtype::F32 | Dtype::U8 | Dtype::I64 | Dtype::Bool => {
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
