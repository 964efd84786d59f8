//! Tokens for a language model: Megatron's `GPTDataset.__getitem__` and `_get_ltor_masks_and_position_ids`.
//!
//! Each tensor is filled by a loop of its own over tokens of one size, so that the compiler uses vectors.

use headwater_core::Dtype;
use headwater_core::recipe::SequenceSpec;

/// Tokens as a field has them.
#[derive(Clone, Copy)]
pub(super) enum Tokens<'a> {
    U8(&'a [u8]),
    U16(&'a [[u8; 2]]),
    I32(&'a [[u8; 4]]),
    I64(&'a [[u8; 8]]),
}

/// Fills tokens, labels, loss mask and, where asked for, positions and bounds of documents.
///
/// # Errors
/// Another number of tokens, or one that does not fit the type.
pub(super) fn read(
    spec: &SequenceSpec,
    bytes: &[u8],
    rows: &mut [&mut [u8]],
) -> Result<(), String> {
    let length = spec.length as usize;
    let text = Tokens::of(bytes, spec.stored, length)?;
    let [inputs, labels, loss_mask, more @ ..] = rows else {
        return Err("its tensors are missing".to_owned());
    };
    let mut more = more.iter_mut();
    let mut wanted = |is_there: bool| is_there.then(|| more.next()).flatten();
    text.check(spec.dtype)?;
    text.put(0, spec.dtype, inputs);
    text.put(1, spec.dtype, labels);
    let loss_mask = loss_mask.as_chunks_mut::<4>().0;
    // Without the extra token the last label is missing: as Megatron has it, 0, and its loss counts nothing.
    let labelled = length.min(text.count() - 1);
    loss_mask[..labelled].fill(1f32.to_le_bytes());
    if let Some(pad) = spec.pad {
        for at in text.places_of(pad) {
            for (row, at) in [(&mut *inputs, Some(at)), (&mut *labels, at.checked_sub(1))] {
                if let Some(at) = at.filter(|&at| at < length) {
                    put_number(row, spec.dtype, at, 0);
                }
            }
            if let Some(mask) = at.checked_sub(1).and_then(|at| loss_mask.get_mut(at)) {
                *mask = 0f32.to_le_bytes();
            }
        }
    }
    let eods = spec.eod.map(|eod| text.places_of(eod)).unwrap_or_default();
    let eods = &eods[..eods.partition_point(|&at| at < length)];
    if spec.eod_mask_loss {
        eods.iter().for_each(|&at| loss_mask[at] = 0f32.to_le_bytes());
    }
    if let Some(positions) = wanted(spec.reset_position_ids) {
        put_positions(eods, length, spec.dtype, positions);
    }
    if let Some(bounds) = wanted(spec.reset_attention_mask) {
        let bound = |at: usize| (at as i32).to_le_bytes();
        let bounds = bounds.as_chunks_mut::<4>().0;
        bounds.fill(bound(length));
        bounds[0] = bound(0);
        bounds[1..].iter_mut().zip(eods).for_each(|(to, &at)| *to = bound(at + 1));
    }
    Ok(())
}

/// Positions from 0 on, and again from 0 after each of `ends`.
pub(super) fn put_positions(ends: &[usize], length: usize, dtype: Dtype, row: &mut [u8]) {
    let mut begin = 0;
    for end in ends.iter().map(|at| at + 1).chain([length]) {
        if dtype == Dtype::I64 {
            let row = &mut row.as_chunks_mut::<8>().0[begin..end];
            row.iter_mut().zip(0i64..).for_each(|(to, at)| *to = at.to_le_bytes());
        } else {
            let row = &mut row.as_chunks_mut::<4>().0[begin..end];
            row.iter_mut().zip(0i32..).for_each(|(to, at)| *to = at.to_le_bytes());
        }
        begin = end;
    }
}

pub(super) fn put_number(row: &mut [u8], dtype: Dtype, at: usize, number: i64) {
    if dtype == Dtype::I64 {
        row.as_chunks_mut::<8>().0[at] = number.to_le_bytes();
    } else {
        row.as_chunks_mut::<4>().0[at] = (number as i32).to_le_bytes();
    }
}

// === impl Tokens ===

impl<'a> Tokens<'a> {
    /// The tokens of a field: as many as asked for, or one more.
    fn of(bytes: &'a [u8], stored: Dtype, length: usize) -> Result<Self, String> {
        let is_whole = |count: usize| bytes.len() as u64 == count as u64 * stored.size_bytes();
        if ![length, length + 1].into_iter().any(is_whole) {
            return Err(format!(
                "{} bytes are no {length} or {} tokens of {stored}: `length` is the dataset's `sequence_length`, and \
                 `stored` the type of its tokens",
                bytes.len(),
                length + 1
            ));
        }
        Self::all(bytes, stored)
    }

    /// All tokens of bytes, whose number fits.
    pub(super) fn all(bytes: &'a [u8], stored: Dtype) -> Result<Self, String> {
        match stored {
            Dtype::U8 => Ok(Self::U8(bytes)),
            Dtype::U16 => Ok(Self::U16(bytes.as_chunks().0)),
            Dtype::I32 => Ok(Self::I32(bytes.as_chunks().0)),
            Dtype::I64 => Ok(Self::I64(bytes.as_chunks().0)),
            _ => Err(format!("tokens are not stored as {stored}")),
        }
    }

    fn count(self) -> usize {
        match self {
            Self::U8(tokens) => tokens.len(),
            Self::U16(tokens) => tokens.len(),
            Self::I32(tokens) => tokens.len(),
            Self::I64(tokens) => tokens.len(),
        }
    }

    /// Checks that all tokens fit a type.
    pub(super) fn check(self, dtype: Dtype) -> Result<(), String> {
        let Self::I64(tokens) = self else { return Ok(()) };
        let mut tokens = tokens.iter().map(|token| i64::from_le_bytes(*token));
        match tokens.find(|&token| dtype == Dtype::I32 && i32::try_from(token).is_err()) {
            Some(token) => Err(format!("token {token} does not fit i32")),
            None => Ok(()),
        }
    }

    /// Fills a row with the tokens from a number on. What is beyond the last one stays 0.
    pub(super) fn put(self, begin: usize, dtype: Dtype, row: &mut [u8]) {
        match self {
            Self::U8(tokens) => put_all(&tokens[begin..], |&token| token.into(), dtype, row),
            Self::U16(tokens) => {
                put_all(&tokens[begin..], |&token| u16::from_le_bytes(token).into(), dtype, row);
            }
            Self::I32(tokens) => {
                put_all(&tokens[begin..], |&token| i32::from_le_bytes(token).into(), dtype, row);
            }
            Self::I64(tokens) => {
                put_all(&tokens[begin..], |&token| i64::from_le_bytes(token), dtype, row);
            }
        }
    }

    /// Where a token is.
    fn places_of(self, wanted: u32) -> Vec<usize> {
        match self {
            Self::U8(tokens) => places(tokens, |&token| u32::from(token) == wanted),
            Self::U16(tokens) => {
                places(tokens, |&token| u32::from(u16::from_le_bytes(token)) == wanted)
            }
            Self::I32(tokens) => {
                places(tokens, |&token| i64::from(i32::from_le_bytes(token)) == i64::from(wanted))
            }
            Self::I64(tokens) => {
                places(tokens, |&token| i64::from_le_bytes(token) == i64::from(wanted))
            }
        }
    }
}

#[inline]
pub(super) fn put_all<T>(tokens: &[T], number: impl Fn(&T) -> i64, dtype: Dtype, row: &mut [u8]) {
    if dtype == Dtype::I64 {
        let row = row.as_chunks_mut::<8>().0.iter_mut();
        row.zip(tokens).for_each(|(to, token)| *to = number(token).to_le_bytes());
    } else {
        let row = row.as_chunks_mut::<4>().0.iter_mut();
        row.zip(tokens).for_each(|(to, token)| *to = (number(token) as i32).to_le_bytes());
    }
}

#[inline]
fn places<T>(tokens: &[T], is: impl Fn(&T) -> bool) -> Vec<usize> {
    tokens.iter().enumerate().filter(|(_, token)| is(token)).map(|(at, _)| at).collect()
}
