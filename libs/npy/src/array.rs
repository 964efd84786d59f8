//! A whole array out of a file in memory.

use std::borrow::Cow;
use std::io::Read;
use std::ops::Range;

use bytes::Bytes;
use flate2::Crc;
use flate2::bufread::DeflateDecoder;

use crate::header::{Extent, Fault, Header, PREFIX_BYTES};
use crate::zip::{Archive, Member, Readable, ZipError};

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
    array_of(Cow::Borrowed(bytes))
}

/// The array named `member` of a `.npz` archive.
///
/// # Errors
/// The archive is broken or has no such array, the array does not have its checksum or is not one, or it has more than
/// `bytes_max` bytes after its header.
pub fn npz<'a>(archive: &'a [u8], member: &str, bytes_max: u64) -> Result<Array<'a>, ArrayFault> {
    let file = InMemory(archive);
    let found = Archive::read(&file)?;
    let is_wanted = |name: &str| name.strip_suffix(".npy").unwrap_or(name) == member;
    let Some(found) = found.members.iter().find(|found| is_wanted(&found.name)) else {
        return Err(ArrayFault(format!("the archive has no array `{member}`")));
    };
    let start = found.start(&file)? as usize;
    let held = &archive[start..start + found.held_bytes as usize];
    let bytes = match found.deflated {
        true => Cow::Owned(inflated(found, held, bytes_max)?),
        false => Cow::Borrowed(held),
    };
    let mut crc = Crc::new();
    crc.update(&bytes);
    if crc.sum() != found.crc32 {
        return Err(ArrayFault(format!("`{member}` does not have its checksum")));
    }
    array_of(bytes)
}

/// The bytes of a deflated member; no more of them than what can be used.
fn inflated(found: &Member, held: &[u8], bytes_max: u64) -> Result<Vec<u8>, ArrayFault> {
    let most = bytes_max.saturating_add(1 << 17).min(found.bytes);
    let mut unpacked = Vec::new();
    let read = DeflateDecoder::new(held).take(most + 1).read_to_end(&mut unpacked);
    let name = found.name.escape_debug();
    read.map_err(|error| ArrayFault(format!("`{name}` cannot be unpacked: {error}")))?;
    if unpacked.len() as u64 > most {
        let fault = "more than the archive says or the recipe's shape has";
        return Err(ArrayFault(format!("`{name}` unpacks to more than {most} bytes, {fault}")));
    }
    Ok(unpacked)
}

fn array_of(bytes: Cow<'_, [u8]>) -> Result<Array<'_>, ArrayFault> {
    let (header, start) = header_of(&bytes)?;
    let elements = match bytes {
        Cow::Borrowed(bytes) => Cow::Borrowed(&bytes[start..]),
        Cow::Owned(mut bytes) => {
            bytes.drain(..start);
            Cow::Owned(bytes)
        }
    };
    Array { header, elements }.checked()
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
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::DeflateEncoder;

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

    /// An archive of one member, as APPNOTE.TXT describes it: local header, bytes, directory, end.
    fn archive(name: &str, content: &[u8], deflated: bool) -> Vec<u8> {
        let mut crc = Crc::new();
        crc.update(content);
        let held = if deflated {
            let mut encoder = DeflateEncoder::new(Vec::new(), Compression::fast());
            encoder.write_all(content).unwrap();
            encoder.finish().unwrap()
        } else {
            content.to_vec()
        };
        let method = if deflated { 8u16 } else { 0 };
        let mut common = [20u16, 0, method, 0, 0].map(u16::to_le_bytes).concat();
        let sizes = [crc.sum(), held.len() as u32, content.len() as u32, name.len() as u32];
        common.extend(sizes.map(u32::to_le_bytes).concat());
        let mut bytes = [b"PK\x03\x04", &common[..], name.as_bytes(), &held].concat();
        let start = bytes.len() as u32;
        bytes.extend([b"PK\x01\x02\x14\0", &common[..], &[0; 14], name.as_bytes()].concat());
        let directory = bytes.len() as u32 - start;
        bytes.extend(b"PK\x05\x06\0\0\0\0\x01\0\x01\0");
        bytes.extend([directory, start].map(u32::to_le_bytes).concat());
        bytes.extend([0, 0]);
        bytes
    }

    #[test]
    fn any_changed_bit_of_a_member_is_found_however_it_is_kept() {
        let text = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }";
        let array = file(text, &[7; 24]);
        for deflated in [false, true] {
            let whole = archive("a.npy", &array, deflated);
            assert_eq!(npz(&whole, "a", 24).unwrap().elements[..], [7; 24]);
            let start = 30 + "a.npy".len();
            let end = whole.windows(4).rposition(|four| four == b"PK\x01\x02").unwrap();
            for bit in 8 * start..8 * end {
                let mut changed = whole.clone();
                changed[bit / 8] ^= 1 << (bit % 8);
                match npz(&changed, "a", 24) {
                    // The last byte of deflated data has bits that mean nothing.
                    Ok(array) => assert!(deflated && array.elements[..] == [7; 24], "{bit}"),
                    Err(ArrayFault(fault)) => {
                        assert!(deflated || fault == "`a` does not have its checksum", "{fault}");
                    }
                }
            }
        }
    }

    #[test]
    fn no_more_is_unpacked_than_the_shape_has() {
        let text = "{'descr': '<f4', 'fortran_order': False, 'shape': (250000,), }";
        let whole = archive("a.npy", &file(text, &vec![0; 1_000_000]), true);
        let fault = npz(&whole, "a", 24).unwrap_err().0;
        assert!(fault.contains("unpacks to more than 131096 bytes"), "{fault}");
        assert_eq!(npz(&whole, "a", 1_000_000).unwrap().elements.len(), 1_000_000);
    }
}
