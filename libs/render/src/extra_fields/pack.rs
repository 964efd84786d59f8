//! Sequences of tokens that share a row.

use headwater_core::Dtype;
use headwater_core::recipe::PackSpec;

use super::Fault;
use super::sequence::{Tokens, put_all, put_positions};

/// Fills tokens, labels, positions, bounds of sequences, and their number.
///
/// # Errors
/// More tokens or sequences than the recipe has room for; lengths that do not fit the bytes, or a token that does not fit the
/// type.
pub(super) fn read(spec: &PackSpec, bytes: &[u8], rows: &mut [&mut [u8]]) -> Result<(), Fault> {
    let [tokens, labels, positions, bounds, sequences] = rows else {
        return Err("its tensors are missing".to_owned().into());
    };
    let (lengths, text) = parts(bytes).ok_or_else(|| {
        format!(
            "{} bytes are no pack: it is the number of sequences and their lengths, then tokens",
            bytes.len()
        )
    })?;
    if lengths.len() > spec.sequences_max as usize {
        return Err(Fault::Recipe(format!(
            "a pack of {} sequences: raise the field's `sequences_max`, {}",
            lengths.len(),
            spec.sequences_max
        )));
    }
    // Ends of the sequences; the lengths fit 64 bits by far.
    let ends: Vec<u64> = lengths
        .iter()
        .scan(0, |end, length| {
            *end += u64::from(u32::from_le_bytes(*length));
            Some(*end)
        })
        .collect();
    let used = ends.last().copied().unwrap_or(0);
    if used > spec.budget.into() {
        let reason =
            format!("a pack of {used} tokens: raise the field's `budget`, {}", spec.budget);
        return Err(Fault::Recipe(reason));
    }
    if text.len() as u64 != used * spec.stored.size_bytes() {
        return Err(format!(
            "{} bytes are not {used} tokens of {}: `stored` is the type of the dataset's tokens",
            text.len(),
            spec.stored
        )
        .into());
    }
    let ends: Vec<usize> = ends.into_iter().map(|end| end as usize).collect();
    let (used, text) = (used as usize, Tokens::all(text, spec.stored)?);
    text.check(spec.dtype)?;
    let width = spec.dtype.size_bytes() as usize;
    text.put(0, spec.dtype, tokens);
    fill(spec.pad.into(), spec.dtype, &mut tokens[used * width..]);
    if used > 0 {
        text.put(1, spec.dtype, labels);
        fill(spec.ignore_index.into(), spec.dtype, &mut labels[(used - 1) * width..]);
    } else {
        fill(spec.ignore_index.into(), spec.dtype, labels);
    }
    for last in ends.iter().filter_map(|end| end.checked_sub(1)) {
        fill(spec.ignore_index.into(), spec.dtype, &mut labels[last * width..][..width]);
    }
    let lasts: Vec<usize> = ends.iter().filter_map(|end| end.checked_sub(1)).collect();
    put_positions(&lasts, used, spec.dtype, positions);
    let bound = |at: usize| (at as i32).to_le_bytes();
    let bounds = bounds.as_chunks_mut::<4>().0;
    bounds.fill(bound(used));
    bounds[0] = bound(0);
    bounds[1..].iter_mut().zip(&ends).for_each(|(to, &end)| *to = bound(end));
    sequences.copy_from_slice(&(ends.len() as i64).to_le_bytes());
    Ok(())
}

/// Lengths of the sequences, and their tokens.
fn parts(bytes: &[u8]) -> Option<(&[[u8; 4]], &[u8])> {
    let (count, rest) = bytes.split_first_chunk::<4>()?;
    let (lengths, text) =
        rest.split_at_checked(usize::try_from(u32::from_le_bytes(*count)).ok()?.checked_mul(4)?)?;
    Some((lengths.as_chunks().0, text))
}

/// Fills a row with one number.
fn fill(number: i64, dtype: Dtype, row: &mut [u8]) {
    let count = row.len() / dtype.size_bytes() as usize;
    put_all(&vec![(); count], |()| number, dtype, row);
}
