//! Tokens for a language model: Megatron's `GPTDataset.__getitem__` and `_get_ltor_masks_and_position_ids`.

use headwater_core::Dtype;
use headwater_core::recipe::SequenceSpec;

/// Fills tokens, labels, loss mask, positions and, where asked for, bounds of documents.
///
/// # Errors
/// Another number of tokens, or one that does not fit the type.
pub(super) fn read(
    spec: &SequenceSpec,
    bytes: &[u8],
    rows: &mut [&mut [u8]],
) -> Result<(), String> {
    let length = spec.length as usize;
    let text = tokens(bytes, length)?;
    let is = |wanted: Option<u32>, token: i64| wanted.is_some_and(|wanted| token == i64::from(wanted));
    // As Megatron fills a sequence without the extra token: with padding, whose label counts nothing.
    let label = |at: usize| text.get(at + 1).copied().filter(|&token| !is(spec.pad, token));
    let [inputs, labels, loss_mask, positions, bounds @ ..] = rows else {
        return Err("its tensors are missing".to_owned());
    };
    let mut begin = 0;
    let mut ends = vec![0];
    for (at, &token) in text[..length].iter().enumerate() {
        let is_end = is(spec.eod, token);
        put(inputs, spec.dtype, at, if is(spec.pad, token) { 0 } else { token })?;
        put(labels, spec.dtype, at, label(at).unwrap_or(0))?;
        put(positions, spec.dtype, at, (at - begin) as i64)?;
        let counts = label(at).is_some() && !(spec.eod_mask_loss && is_end);
        let counts = if counts { 1f32 } else { 0.0 };
        loss_mask[4 * at..4 * at + 4].copy_from_slice(&counts.to_le_bytes());
        if is_end {
            ends.push(at + 1);
            begin = if spec.reset_position_ids { at + 1 } else { 0 };
        }
    }
    if let [bounds, ..] = bounds {
        let (bounds, _) = bounds.as_chunks_mut::<4>();
        let ends = ends.into_iter().chain(std::iter::repeat(length));
        for (bound, end) in bounds.iter_mut().zip(ends) {
            *bound = (end as i32).to_le_bytes();
        }
    }
    Ok(())
}

/// The tokens of a field: as many as asked for, or one more.
fn tokens(bytes: &[u8], length: usize) -> Result<Vec<i64>, String> {
    let size = [length + 1, length].into_iter().find_map(|count| {
        let size = bytes.len() / count;
        (size * count == bytes.len() && matches!(size, 1 | 2 | 4 | 8)).then_some(size)
    });
    let each = |size: usize, token: fn(&[u8]) -> i64| bytes.chunks_exact(size).map(token).collect();
    // Tokens are never below 0, so that those of one and of two bytes have no sign.
    Ok(match size {
        Some(1) => each(1, |token| token[0].into()),
        Some(2) => each(2, |token| u16::from_le_bytes([token[0], token[1]]).into()),
        Some(4) => each(4, |token| i32::from_le_bytes(token.try_into().expect("four")).into()),
        Some(8) => each(8, |token| i64::from_le_bytes(token.try_into().expect("eight"))),
        _ => {
            let found = bytes.len();
            return Err(format!(
                "{found} bytes are no {length} or {} tokens of 1, 2, 4 or 8 bytes: `length` is the dataset's `sequence_length`",
                length + 1
            ));
        }
    })
}

fn put(row: &mut [u8], dtype: Dtype, at: usize, token: i64) -> Result<(), String> {
    if dtype == Dtype::I64 {
        row[8 * at..8 * at + 8].copy_from_slice(&token.to_le_bytes());
        return Ok(());
    }
    let token = i32::try_from(token).map_err(|_| format!("token {token} does not fit i32"))?;
    row[4 * at..4 * at + 4].copy_from_slice(&token.to_le_bytes());
    Ok(())
}
