//! Writing whole arrays.

use std::io::{self, Write};

use crate::header::MAGIC;

/// Bytes of magic, version and length, before the dictionary.
const START_BYTES: usize = 10;
/// Elements begin at a multiple of this, as NumPy has it.
const ALIGN_BYTES: usize = 64;

/// Writes a `.npy` file, as `numpy.save` does: elements of the type `descr`, such as `<i8`, in C order.
///
/// # Errors
/// `to` cannot be written to.
///
/// # Panics
/// The shape has more axes than a header of version 1 has room for.
pub fn write<const BYTES: usize>(
    to: &mut impl Write,
    descr: &str,
    shape: &[usize],
    elements: impl IntoIterator<Item = [u8; BYTES]>,
) -> io::Result<()> {
    let sides: Vec<String> = shape.iter().map(|side| format!("{side},")).collect();
    let sides = sides.join(" ");
    // A tuple of one has a comma, a longer one need not.
    let sides = if shape.len() > 1 { sides.trim_end_matches(',') } else { &sides };
    let mut header =
        format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({sides}), }}");
    let end = (START_BYTES + header.len() + 1).next_multiple_of(ALIGN_BYTES);
    header.extend(std::iter::repeat_n(' ', end - START_BYTES - header.len() - 1));
    header.push('\n');
    let length = u16::try_from(header.len()).expect("a header of few axes is short");
    to.write_all(&MAGIC)?;
    to.write_all(&[1, 0])?;
    to.write_all(&length.to_le_bytes())?;
    to.write_all(header.as_bytes())?;
    elements.into_iter().try_for_each(|element| to.write_all(&element))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Extent, Header};

    #[test]
    fn a_written_array_is_the_one_that_is_read() {
        for shape in [vec![], vec![5], vec![2, 3], vec![1, 2, 3]] {
            let count: usize = shape.iter().product();
            let elements: Vec<[u8; 4]> = (0..count as u32).map(|n| (n * 7).to_le_bytes()).collect();
            let mut file = Vec::new();
            write(&mut file, "<u4", &shape, elements.iter().copied()).expect("memory");
            let extent = Extent::of(&file).expect("a header");
            assert_eq!(extent.end % 64, 0, "{shape:?}");
            let header = Header::parse(&file, extent).expect("a header");
            let sides: Vec<u64> = shape.iter().map(|&side| side as u64).collect();
            assert_eq!((header.shape, header.is_fortran), (sides, false));
            assert_eq!(file[extent.end as usize..], elements.concat());
        }
    }

    /// `numpy.save(file, numpy.array([[1, 2], [3, 4]], "<i8"))` of NumPy 2.2.
    #[test]
    fn a_header_is_numpys() {
        let mut file = Vec::new();
        let elements = [1_i64, 2, 3, 4].map(i64::to_le_bytes);
        write(&mut file, "<i8", &[2, 2], elements).expect("memory");
        let text = "{'descr': '<i8', 'fortran_order': False, 'shape': (2, 2), }";
        let expected = [b"\x93NUMPY\x01\0v\0", text.as_bytes()].concat();
        assert_eq!(file[..expected.len()], expected);
        assert!(file[expected.len()..127].iter().all(|&byte| byte == b' '));
        assert_eq!((file[127], file.len()), (b'\n', 128 + 32));
    }
}
