//! Upsampling as it is defined.

use headwater_simd::twin;

pub(super) fn h2v1(row: &[u8], out: &mut [u8]) {
    let sums = |n: usize| u16::from(row[n]);
    interpolate(row.len(), sums, [1, 2], 2, out);
}

pub(super) fn h2v2(near: &[u8], far: &[u8], out: &mut [u8]) {
    let sums = |n: usize| 3 * u16::from(near[n]) + u16::from(far[n]);
    interpolate(near.len(), sums, [8, 7], 4, out);
}

/// Two samples for each of `len` numbers, the left one rounded by the first of `biases`. Halves are
/// rounded up and down in turn.
fn interpolate(
    len: usize,
    number: impl Fn(usize) -> u16,
    biases: [u16; 2],
    bits: u32,
    out: &mut [u8],
) {
    let (pairs, _) = out.as_chunks_mut::<2>();
    for (n, pair) in pairs.iter_mut().enumerate() {
        let left = number(n.saturating_sub(1));
        let right = number((n + 1).min(len - 1));
        *pair = [
            ((3 * number(n) + left + biases[0]) >> bits) as u8,
            ((3 * number(n) + right + biases[1]) >> bits) as u8,
        ];
    }
}

twin! {
    pub(super) fn h1v2(near: &[u8], far: &[u8], bias: u16, out: &mut [u8]) = weigh;
}

#[inline(always)]
fn weigh(near: &[u8], far: &[u8], bias: u16, out: &mut [u8]) {
    for ((near, far), out) in near.iter().zip(far).zip(out) {
        *out = ((3 * u16::from(*near) + u16::from(*far) + bias) >> 2) as u8;
    }
}

twin! {
    pub(super) fn twice(row: &[u8], out: &mut [u8]) = double;
}

#[inline(always)]
fn double(row: &[u8], out: &mut [u8]) {
    let (pairs, _) = out.as_chunks_mut::<2>();
    for (sample, pair) in row.iter().zip(pairs) {
        *pair = [*sample, *sample];
    }
}
