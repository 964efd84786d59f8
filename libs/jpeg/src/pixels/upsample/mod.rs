//! Upsampling of one row at a time. "Fancy" is libjpeg-turbo's word for its triangle filter: each new sample is 3/4
//! of the nearer sample and 1/4 of the further one, in each direction. Beyond a row's ends its last sample goes on.
//!
//! All functions need neither slack nor alignment: they read and write the slices and nothing else.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "aarch64")]
mod neon;
mod plain;

use headwater_simd::Simd;

/// Twice as wide, fancy. Panics unless `out` is twice as long as `row`.
pub(crate) fn h2v1(simd: Simd, row: &[u8], out: &mut [u8]) {
    assert_eq!(out.len(), 2 * row.len(), "two samples for each one");
    match simd {
        Simd::Plain => plain::h2v1(row, out),
        #[cfg(target_arch = "x86_64")]
        Simd::Avx2(proof) => avx2::h2v1(proof, row, out),
        #[cfg(target_arch = "x86_64")]
        Simd::Avx512(proof) => avx512::h2v1(proof, row, out),
        #[cfg(target_arch = "aarch64")]
        Simd::Neon(proof) => neon::h2v1(proof, row, out),
    }
}

/// Twice as wide, fancy, as one of the two rows that replace `near`; `far` is the row on the
/// other side of the new row. Panics unless `out` is twice as long as either.
pub(crate) fn h2v2(simd: Simd, near: &[u8], far: &[u8], out: &mut [u8]) {
    assert_eq!(near.len(), far.len(), "rows of one plane");
    assert_eq!(out.len(), 2 * near.len(), "two samples for each one");
    match simd {
        Simd::Plain => plain::h2v2(near, far, out),
        #[cfg(target_arch = "x86_64")]
        Simd::Avx2(proof) => avx2::h2v2(proof, near, far, out),
        #[cfg(target_arch = "x86_64")]
        Simd::Avx512(proof) => avx512::h2v2(proof, near, far, out),
        #[cfg(target_arch = "aarch64")]
        Simd::Neon(proof) => neon::h2v2(proof, near, far, out),
    }
}

/// As wide as before, fancy, as one of the two rows that replace `near`: the upper one (`far` is
/// above) or the lower one. They round differently. Panics unless all are of one length.
pub(crate) fn h1v2(simd: Simd, near: &[u8], far: &[u8], is_upper: bool, out: &mut [u8]) {
    assert_eq!(near.len(), far.len(), "rows of one plane");
    assert_eq!(out.len(), near.len(), "one sample for each one");
    plain::h1v2(simd, near, far, if is_upper { 1 } else { 2 }, out);
}

/// Each sample `times` times. Panics unless `out` is `times` as long as `row`.
pub(crate) fn replicate(simd: Simd, row: &[u8], times: usize, out: &mut [u8]) {
    assert_eq!(out.len(), times * row.len(), "so many samples for each one");
    match times {
        1 => out.copy_from_slice(row),
        2 => plain::twice(simd, row, out),
        _ => {
            for (sample, out) in row.iter().zip(out.chunks_exact_mut(times)) {
                out.fill(*sample);
            }
        }
    }
}

/// Calls `twin` with rows as long as its step, which the last sample fills up, and takes what `out` has room for.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
fn padded<const STEP: usize, const NEW: usize, const N: usize>(
    rows: [&[u8]; N],
    out: &mut [u8],
    twin: impl FnOnce([&[u8]; N], &mut [u8]),
) {
    let mut long = [[0; STEP]; N];
    for (row, long) in rows.into_iter().zip(&mut long) {
        let Some(last) = row.last() else { return };
        long[..row.len()].copy_from_slice(row);
        long[row.len()..].fill(*last);
    }
    let mut new = [0; NEW];
    twin(long.each_ref().map(|row| &row[..]), &mut new);
    out.copy_from_slice(&new[..out.len()]);
}
