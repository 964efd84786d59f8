//! From a batch's tensors to chunks.

use std::io::Write;

use anyhow::{Context, Result};
use headwater_core::{Dtype, TensorLayout};

use super::{CHUNK_ALIGN, FIELD, MAGIC};

/// One tensor as it is sent.
pub(crate) struct Chunk {
    pub(crate) header: Vec<u8>,
    pub(crate) data: Vec<u8>,
}

/// What a tensor is called there. Types that Tensorcom does not know travel as integers of the same
/// width with their name as info; for others the info is the tensor's own name, cut to what fits.
fn code(tensor: &TensorLayout) -> (&'static str, &str) {
    let name = tensor.name.as_str();
    match tensor.dtype {
        Dtype::Bf16 => ("u2", "bf16"),
        Dtype::Fp8E4m3 | Dtype::Mxfp8E4m3 => ("u1", "e4m3"),
        Dtype::E8m0 => ("u1", "e8m0"),
        Dtype::Bool => ("u1", "bool"),
        Dtype::F16 => ("f2", name),
        Dtype::F32 => ("f4", name),
        Dtype::U8 => ("u1", name),
        Dtype::I64 => ("i8", name),
        Dtype::F64 => ("f8", name),
        Dtype::I8 => ("i1", name),
        Dtype::I16 => ("i2", name),
        Dtype::I32 => ("i4", name),
        Dtype::U16 => ("u2", name),
        Dtype::U32 => ("u4", name),
    }
}

/// A tensor of a batch of `samples`. 64-bit integers become `i4` unless `wide`, because Tensorcom's
/// batches have int32 labels.
///
/// # Errors
/// A number that does not fit 32 bits.
pub(crate) fn chunk(
    tensor: &TensorLayout,
    samples: u32,
    data: Vec<u8>,
    wide: bool,
) -> Result<Chunk> {
    let (code, info) = code(tensor);
    let shape = tensor.shape(samples);
    if tensor.dtype == Dtype::I64 && !wide {
        let data = narrowed(&data).with_context(|| {
            format!("`{}` has a number beyond 32 bits: set publish.labels_wide = true", tensor.name)
        })?;
        return Ok(Chunk { header: header("i4", info, &shape), data });
    }
    Ok(Chunk { header: header(code, info, &shape), data })
}

/// The scales of FP8 elements, as a separate tensor after all others.
pub(crate) fn scale_inv(value: f32) -> Chunk {
    Chunk { header: header("f4", "scaleinv", &[1]), data: value.to_le_bytes().to_vec() }
}

/// All chunks in one frame.
pub(crate) fn in_one_frame(chunks: &[Chunk]) -> Vec<u8> {
    let parts = chunks.iter().flat_map(|chunk| [&chunk.header, &chunk.data]);
    let framed = |len: usize| 2 * FIELD + len.next_multiple_of(CHUNK_ALIGN);
    let mut frame = Vec::with_capacity(parts.map(|part| framed(part.len())).sum());
    write_framed(chunks, &mut frame).expect("memory takes what is written");
    frame
}

/// Writes all chunks in the form of one frame, or of a `.ten` file.
///
/// # Errors
/// Those of `to`.
pub(crate) fn write_framed(chunks: &[Chunk], to: &mut impl Write) -> std::io::Result<()> {
    for part in chunks.iter().flat_map(|chunk| [&chunk.header, &chunk.data]) {
        to.write_all(MAGIC)?;
        to.write_all(&(part.len() as i64).to_le_bytes())?;
        to.write_all(part)?;
        let padding = part.len().next_multiple_of(CHUNK_ALIGN) - part.len();
        to.write_all(&[0; CHUNK_ALIGN][..padding])?;
    }
    Ok(())
}

fn header(code: &str, info: &str, shape: &[u64]) -> Vec<u8> {
    let mut header = Vec::with_capacity(3 * FIELD + shape.len() * FIELD);
    for text in [code, info] {
        let mut field = [0; FIELD];
        let plain = text.bytes().filter(u8::is_ascii);
        field.iter_mut().zip(plain).for_each(|(to, byte)| *to = byte);
        header.extend_from_slice(&field);
    }
    header.extend_from_slice(&(shape.len() as i64).to_le_bytes());
    shape.iter().for_each(|dim| header.extend_from_slice(&(*dim as i64).to_le_bytes()));
    header
}

/// The same numbers in 32 bits; `None` if one does not fit.
fn narrowed(data: &[u8]) -> Option<Vec<u8>> {
    let numbers = data.as_chunks::<8>().0.iter().map(|bytes| i64::from_le_bytes(*bytes));
    let narrow: Option<Vec<[u8; 4]>> =
        numbers.map(|number| i32::try_from(number).ok().map(i32::to_le_bytes)).collect();
    narrow.map(|numbers| numbers.concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tensor(name: &str, dtype: Dtype, row_shape: &[u32]) -> TensorLayout {
        let elements: u32 = row_shape.iter().product();
        TensorLayout {
            name: name.into(),
            dtype,
            is_image: false,
            views: 1,
            row_shape: row_shape.to_vec(),
            offset_bytes: 0,
            row_bytes: u64::from(elements) * dtype.size_bytes(),
        }
    }

    fn hex(text: &str) -> Vec<u8> {
        let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
        let byte = |pair: &[u8]| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap();
        digits.chunks(2).map(byte).collect()
    }

    /// What tensorcom 0.1.0 makes of `[float16 (2, 3) = 0..5 "image", int32 (2,) = {7, -1}]`.
    fn golden() -> [Vec<u8>; 4] {
        [
            hex("6632000000000000 696d616765000000 0200000000000000 0200000000000000
                 0300000000000000"),
            hex("0000003c0040004200440045"),
            hex("6934000000000000 0000000000000000 0100000000000000 0200000000000000"),
            hex("07000000ffffffff"),
        ]
    }

    fn chunks() -> [Chunk; 2] {
        let image = chunk(&tensor("image", Dtype::F16, &[3]), 2, golden()[1].clone(), false);
        let labels: Vec<u8> = [7i64, -1].iter().flat_map(|n| n.to_le_bytes()).collect();
        [image.unwrap(), chunk(&tensor("", Dtype::I64, &[]), 2, labels, false).unwrap()]
    }

    #[test]
    fn chunks_are_those_of_tensorcom() {
        let [image, labels] = chunks();
        assert_eq!([image.header, image.data, labels.header, labels.data], golden());
    }

    #[test]
    fn one_frame_has_magic_length_and_padding_to_64_bytes() {
        let frame = in_one_frame(&chunks());
        // Headers of 40 and 32 bytes, data of 12 and 8: each takes 16 + 64.
        assert_eq!(frame.len(), 4 * 80);
        for (number, part) in golden().iter().enumerate() {
            let at = number * 80;
            assert_eq!(&frame[at..at + 8], b"~TenBin~");
            assert_eq!(frame[at + 8..at + 16], (part.len() as i64).to_le_bytes());
            assert_eq!(&frame[at + 16..at + 16 + part.len()], part);
            assert!(frame[at + 16 + part.len()..at + 80].iter().all(|byte| *byte == 0));
        }
    }

    #[test]
    fn types_that_tensorcom_has_not_travel_as_integers_under_their_name() {
        for (dtype, code, info) in [
            (Dtype::Bf16, "u2", "bf16"),
            (Dtype::Fp8E4m3, "u1", "e4m3"),
            (Dtype::F32, "f4", "global_c"),
            (Dtype::U8, "u1", "global_c"),
        ] {
            let made = chunk(&tensor("global_crops", dtype, &[1]), 0, Vec::new(), false).unwrap();
            let field = |at: usize| {
                let bytes: Vec<u8> = made.header[at..at + 8].to_vec();
                String::from_utf8(bytes).unwrap().trim_end_matches('\0').to_owned()
            };
            assert_eq!((field(0).as_str(), field(8).as_str()), (code, info));
        }
    }

    #[test]
    fn a_label_beyond_32_bits_is_refused_with_the_remedy_or_sent_wide() {
        let labels = tensor("labels", Dtype::I64, &[]);
        let data = (1i64 << 40).to_le_bytes().to_vec();
        let error = chunk(&labels, 1, data.clone(), false).err().unwrap().to_string();
        assert!(error.contains("`labels`") && error.contains("publish.labels_wide"), "{error}");
        let wide = chunk(&labels, 1, data.clone(), true).unwrap();
        assert_eq!((&wide.header[..2], wide.data), (&b"i8"[..], data));
    }
}
