//! Checksums of whole objects, from the `SHA256SUMS` beside them, as `sha256sum` writes it.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use headwater_core::hex;
use headwater_storage_client::{Object, ObjectError};
use sha2::{Digest as _, Sha256};

use super::Place;

/// Name of the file of checksums beside shards.
pub const SUMS_FILE: &str = "SHA256SUMS";
/// The longest one that is read, in bytes.
const FILE_BYTES_MAX: u64 = 64 << 20;
/// Bytes that are fetched and digested at a time.
const STEP_BYTES: u64 = 16 << 20;
/// Bytes of one piece of those.
const PIECE_BYTES: u64 = 4 << 20;

/// SHA-256 of an object.
pub type Sum = [u8; 32];

/// What the objects of a folder should be, by the last part of their names.
type FolderSums = Arc<BTreeMap<String, Sum>>;

/// What objects should be, read once for each folder.
#[derive(Debug, Default)]
pub(crate) struct Sums {
    by_folder: Mutex<HashMap<String, FolderSums>>,
}

/// Other bytes than they should be.
#[derive(Debug, thiserror::Error)]
#[error(
    "its SHA-256 is {got}, but `{SUMS_FILE}` next to it says {wanted}: copy the shard there \
     again, or make `{SUMS_FILE}` again"
)]
struct OtherSum {
    got: String,
    wanted: String,
}

/// A line of a file of sums that says nothing.
#[derive(Debug, thiserror::Error)]
#[error("line {0}: write it by `sha256sum *.tar > {SUMS_FILE}`")]
struct BadLine(usize);

// === impl Sums ===

impl Sums {
    /// What an object should be, if that is written down beside it.
    ///
    /// # Errors
    /// The file of sums cannot be read.
    pub(crate) fn of(&self, place: &Place) -> Result<Option<Sum>, ObjectError> {
        Ok(self.beside(place)?.get(&place.file_name()).copied())
    }

    /// The objects that the files of sums beside these have, and that are not there.
    ///
    /// # Errors
    /// A file of sums cannot be read, or a source does not answer.
    pub(crate) fn missing(&self, places: &[Place]) -> Result<Vec<Place>, ObjectError> {
        let mut known: HashSet<String> = places.iter().map(Place::name).collect();
        let mut missing = Vec::new();
        for place in places {
            for name in self.beside(place)?.keys() {
                let named = place.beside(name);
                if known.insert(named.name()) && named.open_if_there()?.is_none() {
                    missing.push(named);
                }
            }
        }
        Ok(missing)
    }

    /// What is written in the folder of an object.
    fn beside(&self, place: &Place) -> Result<FolderSums, ObjectError> {
        let beside = place.beside(SUMS_FILE);
        let folder = beside.name();
        let known =
            self.by_folder.lock().unwrap_or_else(PoisonError::into_inner).get(&folder).cloned();
        if let Some(sums) = known {
            return Ok(sums);
        }
        let read = Arc::new(read_sums(&beside)?);
        let mut known = self.by_folder.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(known.entry(folder).or_insert(read).clone())
    }
}

fn read_sums(file: &Place) -> Result<BTreeMap<String, Sum>, ObjectError> {
    let Some(object) = file.open_if_there()? else { return Ok(BTreeMap::new()) };
    let name = object.name();
    let bad = |line| ObjectError::Read { name: name.clone(), source: Box::new(BadLine(line)) };
    if object.bytes() > FILE_BYTES_MAX {
        return Err(bad(1));
    }
    let bytes = object.read(0..object.bytes())?;
    let text = String::from_utf8_lossy(&bytes);
    let mut sums = BTreeMap::new();
    for (at, line) in text.lines().enumerate() {
        let (sum, object) = sum_of_line(line).ok_or_else(|| bad(at + 1))?;
        sums.insert(object.to_owned(), sum);
    }
    Ok(sums)
}

/// SHA-256 and name of a line as `sha256sum` writes it, or `None` for any other; a `*` before the name
/// says that the file is binary.
#[must_use]
pub fn sum_of_line(line: &str) -> Option<(Sum, &str)> {
    let (hex, name) = line.split_once(' ')?;
    let name = name.strip_prefix([' ', '*'])?;
    let digits: Vec<_> = hex.chars().map(|digit| digit.to_digit(16)).collect::<Option<_>>()?;
    if name.is_empty() || name.contains('/') || digits.len() != 64 {
        return None;
    }
    let mut sum = [0; 32];
    for (byte, digits) in sum.iter_mut().zip(digits.chunks(2)) {
        *byte = (digits[0] * 16 + digits[1]) as u8;
    }
    Some((sum, name))
}

/// Hands on ranges of an object, in order. What was handed on before an error is for nothing.
///
/// # Errors
/// It cannot be read, or what the sink says.
pub(crate) fn read_spans<E: From<ObjectError>>(
    object: &dyn Object,
    spans: &[Range<u64>],
    sink: &mut dyn FnMut(&[u8]) -> Result<(), E>,
) -> Result<(), E> {
    for span in spans {
        let mut at = span.start;
        while at < span.end {
            let end = span.end.min(at + STEP_BYTES);
            let starts = (at..end).step_by(PIECE_BYTES as usize);
            let pieces: Vec<_> = starts.map(|start| start..end.min(start + PIECE_BYTES)).collect();
            for bytes in object.read_many(&pieces)? {
                sink(&bytes)?;
            }
            at = end;
        }
    }
    // What was read is of the version that was opened.
    Ok(object.check_unchanged()?)
}

/// Hands on a whole object, in order, and holds it against `sum`. What was handed on before an error is
/// for nothing: whoever keeps it begins anew, once if [`is_other_sum`].
///
/// # Errors
/// It cannot be read, is something else, or what the sink says.
pub(crate) fn read_whole<E: From<ObjectError>>(
    object: &dyn Object,
    sum: Option<&Sum>,
    sink: &mut dyn FnMut(&[u8]) -> Result<(), E>,
) -> Result<(), E> {
    let mut digest = Sha256::new();
    read_spans(object, std::slice::from_ref(&(0..object.bytes())), &mut |bytes| {
        if sum.is_some() {
            digest.update(bytes);
        }
        sink(bytes)
    })?;
    let Some(wanted) = sum else { return Ok(()) };
    let got: Sum = digest.finalize().into();
    if got == *wanted {
        return Ok(());
    }
    let source = Box::new(OtherSum { got: hex(&got), wanted: hex(wanted) });
    Err(ObjectError::Read { name: object.name(), source }.into())
}

/// Whether an object was something else than its checksum says.
pub(crate) fn is_other_sum(error: &ObjectError) -> bool {
    matches!(error, ObjectError::Read { source, .. } if source.is::<OtherSum>())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// FIPS 180-2, appendix B.1.
    const OF_ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    #[test]
    fn lines_are_those_of_sha256sum() {
        let sum: Sum = Sha256::digest(b"abc").into();
        assert_eq!(sum_of_line(&format!("{OF_ABC}  a b.tar")), Some((sum, "a b.tar")));
        assert_eq!(sum_of_line(&format!("{OF_ABC} *a.tar")), Some((sum, "a.tar")));
        let upper = OF_ABC.to_ascii_uppercase();
        assert_eq!(sum_of_line(&format!("{upper}  a.tar")), Some((sum, "a.tar")));
        let signed = OF_ABC.replacen("ba", "+a", 1);
        let bad = ["", "abc  a.tar", &format!("{signed}  a.tar"), &format!("{OF_ABC}  ../a.tar")];
        for bad in [&bad[..], &[&format!("{OF_ABC} a.tar"), &format!("{OF_ABC}  ")]].concat() {
            assert_eq!(sum_of_line(bad), None, "{bad}");
        }
    }
}
