//! LZF, the filter that h5py registers: <http://oldhome.schmorp.de/marc/liblzf.html>.

use hdf5_reader::error::Error;
use hdf5_reader::messages::filter_pipeline::FilterDescription;

/// Its number among HDF5's filters.
pub(super) const FILTER: u16 = 32000;
/// Control bytes below this begin bytes as they are.
const LITERALS: u8 = 32;
/// A pair of bytes becomes no more than this.
const COPY_BYTES_MAX: usize = 264;
const CHUNK_BYTES_MAX: usize = 256 << 20;

/// Undoes the filter.
pub(super) fn undo(_: &FilterDescription, bytes: &[u8], _: usize) -> Result<Vec<u8>, Error> {
    unpack(bytes).ok_or_else(|| Error::InvalidData("a chunk is no whole LZF stream".to_owned()))
}

fn unpack(bytes: &[u8]) -> Option<Vec<u8>> {
    let (mut unpacked, mut at) = (Vec::new(), 0);
    while let Some(&control) = bytes.get(at) {
        at += 1;
        if unpacked.len() + COPY_BYTES_MAX > CHUNK_BYTES_MAX {
            return None;
        }
        if control < LITERALS {
            let end = at + usize::from(control) + 1;
            unpacked.extend_from_slice(bytes.get(at..end)?);
            at = end;
            continue;
        }
        let mut length = usize::from(control >> 5);
        if length == 7 {
            length += usize::from(*bytes.get(at)?);
            at += 1;
        }
        let back = (usize::from(control & 0x1f) << 8) + usize::from(*bytes.get(at)?) + 1;
        at += 1;
        let start = unpacked.len().checked_sub(back)?;
        // What is copied may overlap with what it makes.
        for from in start..start + length + 2 {
            let byte = unpacked[from];
            unpacked.push(byte);
        }
    }
    Some(unpacked)
}

#[cfg(test)]
mod tests {
    use super::unpack;

    #[test]
    fn runs_are_copied_over_themselves() {
        // Two bytes as they are, then seven from two back.
        assert_eq!(unpack(&[1, b'a', b'b', 5 << 5, 1]).unwrap(), b"ababababa");
        assert_eq!(unpack(&[0, b'a', 7 << 5, 3, 0]).unwrap(), b"aaaaaaaaaaaaa");
        for broken in [&[1, b'a'][..], &[0, b'a', 5 << 5, 1], &[0, b'a', 7 << 5]] {
            assert_eq!(unpack(broken), None);
        }
    }
}
