//! Steps of vectors over a row.

/// Where steps of `step` samples begin in a row of `len`. The last one ends with the row, though it
/// repeats some samples of the one before. A row shorter than a step has none.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
#[inline(always)]
pub(super) fn starts(len: usize, step: usize) -> impl Iterator<Item = usize> {
    let last = len.checked_sub(step);
    let all = last.map(|last| (0..len).step_by(step).map(move |at| at.min(last)));
    all.into_iter().flatten()
}
