//! Bytes looked up in a table of 256 that is held in registers, where the processor can.

#[cfg(target_arch = "x86_64")]
pub(super) mod avx512;

use crate::simd::Simd;

/// Whether a lookup goes by registers: without them arithmetic is mostly faster.
#[must_use]
pub(crate) fn is_fast(simd: Simd) -> bool {
    match simd {
        #[cfg(target_arch = "x86_64")]
        Simd::Avx512(proof) => proof.vbmi().is_some(),
        _ => false,
    }
}

/// Puts what the table has for each value in its place.
#[cfg_attr(not(target_arch = "x86_64"), expect(unused_variables, reason = "it has one way only"))]
pub(crate) fn map(simd: Simd, values: &mut [u8], table: &[u8; 256]) {
    #[cfg(target_arch = "x86_64")]
    if let Simd::Avx512(proof) = simd
        && let Some(proof) = proof.vbmi()
    {
        return avx512::map(proof, values, table);
    }
    values.iter_mut().for_each(|value| *value = table[usize::from(*value)]);
}

/// Writes what the table has for each of `values`.
///
/// # Panics
/// The two are not of one length.
#[cfg_attr(not(target_arch = "x86_64"), expect(unused_variables, reason = "it has one way only"))]
pub(crate) fn map_into(simd: Simd, values: &[u8], table: &[u8; 256], to: &mut [u8]) {
    assert_eq!(values.len(), to.len(), "values and what becomes of them");
    #[cfg(target_arch = "x86_64")]
    if let Simd::Avx512(proof) = simd
        && let Some(proof) = proof.vbmi()
    {
        return avx512::map_into(proof, values, table, to);
    }
    values.iter().zip(to).for_each(|(value, to)| *to = table[usize::from(*value)]);
}

/// Writes the words that the tables of their lower and upper bytes have for each of `values`, little-endian.
///
/// # Panics
/// There are not two bytes for each value.
#[cfg_attr(not(target_arch = "x86_64"), expect(unused_variables, reason = "it has one way only"))]
pub(crate) fn map_into_words(simd: Simd, values: &[u8], table: &[[u8; 256]; 2], to: &mut [u8]) {
    assert_eq!(2 * values.len(), to.len(), "values and what becomes of them");
    #[cfg(target_arch = "x86_64")]
    if let Simd::Avx512(proof) = simd
        && let Some(proof) = proof.vbmi()
    {
        return avx512::map_into_words(proof, values, table, to);
    }
    for (value, to) in values.iter().zip(to.as_chunks_mut().0) {
        *to = table.each_ref().map(|bytes| bytes[usize::from(*value)]);
    }
}
