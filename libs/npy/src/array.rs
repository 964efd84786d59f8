//! A whole array out of a file in memory.

use std::borrow::Cow;
use std::io::Read;
use std::ops::Range;

use bytes::Bytes;
use flate2::Crc;
use flate2::bufread::DeflateDecoder;

use crate::header::{Extent, Fault, Header, PREFIX_BYTES};
use crate::zip::{Archive, Readable, ZipError};

/// An array and its elements, as they lie in the file.
#[derive(Debug)]
pub struct Array<'a> {
    /// What its header says.
    pub header: Header,
    /// The elements: as many bytes as the header says.
    pub elements: Cow<'a, [u8]>,
}

/// Why there is no array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArrayFault(pub String);

/// The bytes of an archive.
struct InMemory<'a>(&'a [u8]);

impl Readable for InMemory<'_> {
    type Error = String;

    fn bytes(&self) -> u64 {
        self.0.len() as u64
    }

    fn read(&self, range: Range<u64>) -> Result<Bytes, String> {
        let bytes = self.0.get(range.start as usize..range.end as usize);
        let bytes = bytes.ok_or_else(|| "the archive is cut off".to_owned())?;
        Ok(Bytes::copy_from_slice(bytes))
    }
}

/// The array of a `.npy` file.
///
/// # Errors
/// The bytes are none, or have another length than the header says.
pub fn npy(bytes: &[u8]) -> Result<Array<'_>, ArrayFault> {
    let (header, start) = header_of(bytes)?;
    let elements = Cow::Borrowed(&bytes[start..]);
    Array { header, elements }.checked()
}

/// The array named `member` of a `.npz` archive.
///
/// # Errors
/// The archive is broken or has no such array, the array is not one, or it has more than `bytes_max` bytes after
/// its header.
pub fn npz<'a>(archive: &'a [u8], member: &str, bytes_max: u64) -> Result<Array<'a>, ArrayFault> {
    let file = InMemory(archive);
    let found = Archive::read(&file)?;
    let is_wanted = |name: &str| name.strip_suffix(".npy").unwrap_or(name) == member;
    let Some(found) = found.members.iter().find(|found| is_wanted(&found.name)) else {
        return Err(ArrayFault(format!("the archive has no array `{member}`")));
    };
    let start = found.start(&file)? as usize;
    let held = &archive[start..start + found.held_bytes as usize];
    if !found.deflated {
        return npy(held);
    }
    // No more is unpacked than what can be used.
    let most = bytes_max.saturating_add(1 << 17).min(found.bytes);
    let mut unpacked = Vec::new();
    let read = DeflateDecoder::new(held).take(most + 1).read_to_end(&mut unpacked);
    read.map_err(|error| ArrayFault(format!("`{member}` cannot be unpacked: {error}")))?;
    let mut crc = Crc::new();
    crc.update(&unpacked);
    let Array { header, elements } = match npy(&unpacked) {
        Ok(array) if crc.sum() == found.crc32 => array,
        Ok(_) => return Err(ArrayFault(format!("`{member}` does not have its checksum"))),
        Err(fault) => return Err(fault),
    };
    Ok(Array { header, elements: Cow::Owned(elements.into_owned()) })
}

fn header_of(bytes: &[u8]) -> Result<(Header, usize), ArrayFault> {
    let extent = Extent::of(&bytes[..bytes.len().min(PREFIX_BYTES as usize)])?;
    Ok((Header::parse(bytes, extent)?, extent.end as usize))
}

// === impl Array ===

impl Array<'_> {
    fn checked(self) -> Result<Self, ArrayFault> {
        let Self { header, elements } = &self;
        let sides = header.shape.iter().copied();
        let bytes = sides.chain([header.element.bytes.into()]).try_fold(1u64, u64::checked_mul);
        if bytes == Some(elements.len() as u64) {
            return Ok(self);
        }
        let (shape, name, held) = (&header.shape, header.element.name(), elements.len());
        Err(ArrayFault(format!("its header says {name}{shape:?}, and {held} bytes follow it")))
    }
}

// === impl ArrayFault ===

impl From<Fault> for ArrayFault {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Broken(reason) | Fault::Unserved(reason) => Self(reason),
        }
    }
}

impl From<ZipError<String>> for ArrayFault {
    fn from(error: ZipError<String>) -> Self {
        match error {
            ZipError::Read(reason) | ZipError::Unserved(reason) => Self(reason),
            ZipError::Broken { place, fault } => Self(format!("{place}: {fault}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(dictionary: &str, elements: &[u8]) -> Vec<u8> {
        let mut bytes = b"\x93NUMPY\x01\0".to_vec();
        bytes.extend_from_slice(&(dictionary.len() as u16).to_le_bytes());
        bytes.extend_from_slice(dictionary.as_bytes());
        bytes.extend_from_slice(elements);
        bytes
    }

    fn said(bytes: &[u8]) -> String {
        npy(bytes).unwrap_err().0
    }

    #[test]
    fn an_array_has_as_many_bytes_as_its_header_says() {
        let text = "{'descr': '<i2', 'fortran_order': False, 'shape': (2, 3), }";
        let array = file(text, &[7; 12]);
        assert_eq!(npy(&array).unwrap().elements[..], [7; 12]);
        for elements in [11, 13, 0] {
            let wrong = said(&file(text, &vec![7; elements]));
            assert_eq!(wrong, format!("its header says <i2[2, 3], and {elements} bytes follow it"));
        }
        let huge = "{'descr': '<i2', 'fortran_order': False, 'shape': (9223372036854775807, 3), }";
        assert!(said(&file(huge, &[7; 12])).contains("9223372036854775807"));
        assert!(said(b"").contains("does not begin"));
        assert!(said(&array[..20]).contains("cut off"));
    }
}
