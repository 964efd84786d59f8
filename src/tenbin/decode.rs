//! From received chunks to their tensors.

use std::fmt;

use anyhow::{Context, Result, anyhow, bail, ensure};

use super::{CHUNK_ALIGN, FIELD, MAGIC, RANK_MAX};

/// Element types by their codes, with their sizes in bytes. Tensorcom writes no `u4`, and reads none.
const DTYPES: [(&str, u64); 11] = [
    ("f2", 2),
    ("f4", 4),
    ("f8", 8),
    ("i1", 1),
    ("i2", 2),
    ("i4", 4),
    ("i8", 8),
    ("u1", 1),
    ("u2", 2),
    ("u4", 4),
    ("u8", 8),
];

/// One tensor as it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tensor<'a> {
    /// Tensorcom's code of its element type: `f2`, `i4` and so on.
    pub(crate) code: &'static str,
    /// What the sender says of it: its name or, of types that Tensorcom does not know, its type.
    pub(crate) info: String,
    pub(crate) shape: Vec<u64>,
    pub(crate) data: &'a [u8],
}

// === impl Tensor ===

impl fmt::Display for Tensor<'_> {
    /// `global_crops u2 [128, 3, 224, 224]`, or without a name if it has none.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.info.is_empty() {
            write!(f, "{} ", self.info.escape_default())?;
        }
        write!(f, "{} {:?}", self.code, self.shape)
    }
}

/// The tensors of a message: a frame for each header and each tensor, or one frame with all of them.
///
/// # Errors
/// The first thing that is not Tensorcom's format.
pub(crate) fn tensors_of_message<F: AsRef<[u8]>>(frames: &[F]) -> Result<Vec<Tensor<'_>>> {
    match frames {
        [frame] => tensors_of_file(frame.as_ref()),
        frames => tensors(&frames.iter().map(AsRef::as_ref).collect::<Vec<_>>()),
    }
}

/// The tensors of a `.ten` file, or of a message in one frame.
///
/// # Errors
/// The first thing that is not Tensorcom's format.
fn tensors_of_file(bytes: &[u8]) -> Result<Vec<Tensor<'_>>> {
    let (mut chunks, mut at) = (Vec::new(), 0);
    while at < bytes.len() {
        let (chunk, next) = chunk(bytes, at)?;
        chunks.push(chunk);
        at = next;
    }
    tensors(&chunks)
}

/// The chunk at a place, and where the next one begins.
fn chunk(bytes: &[u8], at: usize) -> Result<(&[u8], usize)> {
    let rest = bytes[at..].strip_prefix(MAGIC).with_context(|| {
        format!(
            "the chunk at byte {at} does not begin with ~TenBin~: this is not Tensorcom's format"
        )
    })?;
    let cut = || format!("the chunk at byte {at} ends in its length");
    let (field, rest) = rest.split_first_chunk::<FIELD>().with_context(cut)?;
    let told = i64::from_le_bytes(*field);
    let len = usize::try_from(told).ok().filter(|len| *len <= rest.len()).with_context(|| {
        format!("the chunk at byte {at} says that it has {told} bytes, and {} are left", rest.len())
    })?;
    // The padding of the last chunk may be missing: Tensorcom reads that too.
    let next = at + 2 * FIELD + len.next_multiple_of(CHUNK_ALIGN);
    Ok((&rest[..len], next.min(bytes.len())))
}

/// Headers and their bytes, in turns.
fn tensors<'a>(chunks: &[&'a [u8]]) -> Result<Vec<Tensor<'a>>> {
    let (pairs, []) = chunks.as_chunks::<2>() else {
        bail!("{} parts, an odd number: each tensor has a header and its bytes", chunks.len());
    };
    let tensors = pairs.iter().enumerate().map(|(index, [header, data])| {
        tensor(header, data).map_err(|error| anyhow!("tensor {index}: {error}"))
    });
    tensors.collect()
}

fn tensor<'a>(header: &[u8], data: &'a [u8]) -> Result<Tensor<'a>> {
    let (fields, []) = header.as_chunks::<FIELD>() else {
        bail!("a header of {} bytes, which are no whole fields", header.len());
    };
    let [code, info, rank, dims @ ..] = fields else {
        bail!("a header of {} bytes is too short", header.len());
    };
    let code = text(code)?;
    let dtype = DTYPES.iter().find(|(known, _)| *known == code);
    let &(code, width) =
        dtype.with_context(|| format!("`{}` is no element type", code.escape_default()))?;
    let (rank, sizes) = (i64::from_le_bytes(*rank), dims.len());
    ensure!(
        rank == sizes as i64 && sizes <= RANK_MAX,
        "{rank} dimensions, with sizes of {sizes}; {RANK_MAX} at most"
    );
    let size = |dim: &[u8; FIELD]| {
        let size = i64::from_le_bytes(*dim);
        u64::try_from(size).map_err(|_| anyhow!("a dimension of {size}"))
    };
    let shape: Vec<u64> = dims.iter().map(size).collect::<Result<_>>()?;
    let bytes = shape.iter().try_fold(width, |bytes, size| bytes.checked_mul(*size));
    let bytes = bytes.with_context(|| format!("{shape:?} of {code} is beyond 64 bits"))?;
    let there = data.len();
    ensure!(bytes == there as u64, "{shape:?} of {code} needs {bytes} bytes, but {there} follow");
    Ok(Tensor { code, info: text(info)?, shape, data })
}

/// A field of ASCII with zeros behind it.
fn text(field: &[u8; FIELD]) -> Result<String> {
    let end = field.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    ensure!(field[..end].is_ascii(), "a name that is not ASCII");
    Ok(field[..end].iter().map(|byte| char::from(*byte)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(code: &str, info: &str, rank: i64, dims: &[i64]) -> Vec<u8> {
        let field = |text: &str| {
            let mut field = [0; FIELD];
            field[..text.len()].copy_from_slice(text.as_bytes());
            field
        };
        let numbers = [rank].into_iter().chain(dims.iter().copied()).map(i64::to_le_bytes);
        [field(code), field(info)].into_iter().chain(numbers).flatten().collect()
    }

    fn framed(chunks: &[&[u8]]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for chunk in chunks {
            bytes.extend_from_slice(MAGIC);
            bytes.extend_from_slice(&(chunk.len() as i64).to_le_bytes());
            bytes.extend_from_slice(chunk);
            let padding = chunk.len().next_multiple_of(CHUNK_ALIGN) - chunk.len();
            bytes.extend(vec![0; padding]);
        }
        bytes
    }

    #[test]
    fn what_tensorcom_sends_is_read_in_both_framings() {
        let (first, second) = (header("f2", "image", 2, &[2, 3]), header("i4", "", 1, &[2]));
        let (pixels, labels) = ([7_u8; 12], [1_u8, 0, 0, 0, 2, 0, 0, 0]);
        let frames: [&[u8]; 4] = [&first, &pixels, &second, &labels];
        let read = tensors_of_message(&frames).expect("tensors");
        assert_eq!(read[0].to_string(), "image f2 [2, 3]");
        assert_eq!(read[1].to_string(), "i4 [2]");
        assert_eq!((read[0].data, read[1].data), (&pixels[..], &labels[..]));
        let single = framed(&frames);
        assert_eq!(tensors_of_message(&[&single]).expect("tensors"), read);
        assert_eq!(tensors_of_file(&[]).expect("a file without tensors"), []);
    }

    #[test]
    fn what_is_not_tensorcoms_is_refused_and_named() {
        let good = header("f4", "", 1, &[1]);
        for (header, data, said) in [
            (header("f4", "", 1, &[2]), 4, "[2] of f4 needs 8 bytes, but 4 follow"),
            (header("f4", "", 2, &[1]), 4, "2 dimensions, with sizes of 1"),
            (header("f4", "", -1, &[]), 4, "-1 dimensions"),
            (header("f4", "", 10, &[1; 10]), 4, "9 at most"),
            (header("f4", "", 1, &[-1]), 4, "a dimension of -1"),
            (header("f4", "", 3, &[1 << 40; 3]), 4, "beyond 64 bits"),
            (header("q8", "", 1, &[1]), 4, "`q8` is no element type"),
            (good[..16].to_vec(), 4, "too short"),
            (good[..27].to_vec(), 4, "no whole fields"),
        ] {
            let frames = [header, vec![0; data]];
            let error = tensors_of_message(&frames).expect_err(said).to_string();
            assert!(error.contains(said) && error.starts_with("tensor 0: "), "{error}");
        }
        let said = |bytes: &[u8]| tensors_of_file(bytes).expect_err("refused").to_string();
        assert!(said(b"GET / HTTP/1.1").contains("does not begin with ~TenBin~"));
        let file = framed(&[&good, &[0; 4]]);
        assert!(said(&file[..12]).contains("chunk at byte 0"), "cut in a length");
        assert!(
            said(&file[..97]).contains("chunk at byte 80 says that it has 4"),
            "cut in a tensor"
        );
        assert!(said(&file[..80]).contains("1 parts, an odd number"));
        let mut endless = file.clone();
        endless[8..16].copy_from_slice(&i64::MAX.to_le_bytes());
        assert!(said(&endless).contains("9223372036854775807 bytes"));
        let three = tensors_of_message(&[&good, &good, &good]).expect_err("refused").to_string();
        assert!(three.contains("3 parts, an odd number"), "{three}");
    }
}
