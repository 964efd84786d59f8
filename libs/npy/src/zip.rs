//! The members of a zip archive, as far as NumPy writes them: stored or deflated, with 64-bit sizes
//! or without. <https://pkware.cachefly.net/webdocs/casestudies/APPNOTE.TXT>
//!
//! Not by a crate: what is needed is where the members lie, so that rows can be read in place.

use std::ops::Range;

use bytes::Bytes;

const END_BYTES: usize = 22;
const END_SIGNATURE: [u8; 4] = *b"PK\x05\x06";
const LOCATOR_BYTES: u64 = 20;
const LOCATOR_SIGNATURE: [u8; 4] = *b"PK\x06\x07";
const END64_SIGNATURE: [u8; 4] = *b"PK\x06\x06";
const ENTRY_BYTES: usize = 46;
const ENTRY_SIGNATURE: [u8; 4] = *b"PK\x01\x02";
const LOCAL_BYTES: u64 = 30;
const LOCAL_SIGNATURE: [u8; 4] = *b"PK\x03\x04";
/// Maximum bytes of a comment after the end record.
const COMMENT_BYTES_MAX: u64 = 0xffff;
/// Largest list of members.
const DIRECTORY_BYTES_MAX: u64 = 64 << 20;
/// What a byte of deflated data may become at most, by the format.
const DEFLATE_RATIO_MAX: u64 = 1032;

/// One file in an archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its name.
    pub name: String,
    /// Whether it is deflated; else it is stored.
    pub deflated: bool,
    /// Checksum of the file.
    pub crc32: u32,
    /// Bytes as they lie in the archive.
    pub held_bytes: u64,
    /// Bytes of the file.
    pub bytes: u64,
    /// Where the header before them lies.
    header: u64,
}

/// The members of an archive.
#[derive(Debug)]
pub struct Archive {
    /// The members, in their order.
    pub members: Vec<Member>,
    /// The directory's bytes: names, sizes, offsets and checksums of all members.
    pub directory: Bytes,
}

/// Bytes that are read in ranges.
pub trait Readable {
    /// Why they cannot be read.
    type Error;

    /// How many there are.
    fn bytes(&self) -> u64;

    /// The bytes of one range.
    ///
    /// # Errors
    /// The range goes beyond the end, or the bytes are not available.
    fn read(&self, range: Range<u64>) -> Result<Bytes, Self::Error>;
}

/// Why an archive cannot be used.
#[derive(Debug)]
pub enum ZipError<E> {
    /// Its bytes cannot be read.
    Read(E),
    /// It is none.
    Broken {
        /// Where in it.
        place: String,
        /// What is wrong there.
        fault: String,
    },
    /// It is one that is not read here.
    Unserved(String),
}

impl<E> From<E> for ZipError<E> {
    fn from(error: E) -> Self {
        Self::Read(error)
    }
}

fn broken<E>(place: &str, fault: impl Into<String>) -> ZipError<E> {
    ZipError::Broken { place: place.to_owned(), fault: fault.into() }
}

fn number(bytes: &[u8], at: usize, width: usize) -> Option<u64> {
    let mut little = [0; 8];
    little[..width].copy_from_slice(bytes.get(at..at + width)?);
    Some(u64::from_le_bytes(little))
}

// === impl Archive ===

impl Archive {
    /// Reads the directory at the archive's end.
    ///
    /// # Errors
    /// Bytes that are no zip archive; members that are encrypted or compressed otherwise.
    pub fn read<R: Readable>(object: &R) -> Result<Self, ZipError<R::Error>> {
        let whole = object.bytes();
        let tail_start = whole.saturating_sub(END_BYTES as u64 + COMMENT_BYTES_MAX);
        let tail = object.read(tail_start..whole)?;
        let ends = tail.windows(END_BYTES).rposition(|bytes| bytes[..4] == END_SIGNATURE);
        let Some(end) = ends else {
            return Err(broken("end", "there is no zip directory: the file is cut off"));
        };
        let field = |at: usize, width: usize| number(&tail, end + at, width).unwrap_or(0);
        let (mut bytes, mut start) = (field(12, 4), field(16, 4));
        if field(10, 2) == 0xffff || bytes == 0xffff_ffff || start == 0xffff_ffff {
            (bytes, start) = read_end64(object, tail_start + end as u64)?;
        }
        let inside = start.checked_add(bytes).is_some_and(|end| end <= whole);
        if !inside || bytes > DIRECTORY_BYTES_MAX {
            let fault = format!("the zip directory of {bytes} bytes at {start} is not in the file");
            return Err(broken("end", fault));
        }
        let directory = object.read(start..start + bytes)?;
        let (mut members, mut rest) = (Vec::new(), &directory[..]);
        while !rest.is_empty() {
            let (member, after) = Member::parse(whole, rest)?;
            members.push(member);
            rest = after;
        }
        Ok(Self { members, directory })
    }
}

/// Size and offset of the directory in an archive with 64-bit numbers.
fn read_end64<R: Readable>(object: &R, end: u64) -> Result<(u64, u64), ZipError<R::Error>> {
    let fault = || broken("end", "the zip directory's 64-bit end is not there");
    let locator = object.read(end.checked_sub(LOCATOR_BYTES).ok_or_else(fault)?..end)?;
    let at = number(&locator, 8, 8).filter(|_| locator[..4] == LOCATOR_SIGNATURE);
    let at =
        at.filter(|at| at.checked_add(56).is_some_and(|past| past <= end)).ok_or_else(fault)?;
    let record = object.read(at..at + 56)?;
    if record[..4] != END64_SIGNATURE {
        return Err(fault());
    }
    number(&record, 40, 8).zip(number(&record, 48, 8)).ok_or_else(fault)
}

// === impl Member ===

impl Member {
    fn parse<E>(whole: u64, entry: &[u8]) -> Result<(Self, &[u8]), ZipError<E>> {
        let cut = || broken("zip directory", "an entry is cut off");
        if entry.len() < ENTRY_BYTES || entry[..4] != ENTRY_SIGNATURE {
            return Err(cut());
        }
        let field = |at: usize, width: usize| number(entry, at, width).unwrap_or(0);
        let (flags, method, crc32) = (field(8, 2), field(10, 2), field(16, 4) as u32);
        let name_end = ENTRY_BYTES + field(28, 2) as usize;
        let extra_end = name_end + field(30, 2) as usize;
        let end = extra_end + field(32, 2) as usize;
        if entry.len() < end {
            return Err(cut());
        }
        let name = String::from_utf8_lossy(&entry[ENTRY_BYTES..name_end]).into_owned();
        let mut numbers = [field(24, 4), field(20, 4), field(42, 4)];
        widen(&entry[name_end..extra_end], &mut numbers).ok_or_else(cut)?;
        let [bytes, held_bytes, header] = numbers;
        let member = Self { name, deflated: method == 8, crc32, held_bytes, bytes, header };
        if flags & 1 != 0 || !matches!(method, 0 | 8) {
            let member = member.name.escape_debug();
            let reason = format!(
                "`{member}` in it is encrypted or compressed by method {method}: write it with \
                 `numpy.savez` or `numpy.savez_compressed`"
            );
            return Err(ZipError::Unserved(reason));
        }
        if !member.is_plausible(whole) {
            let place = format!("zip directory, `{}`", member.name.escape_debug());
            return Err(broken(&place, "its sizes do not fit the file"));
        }
        Ok((member, &entry[end..]))
    }

    fn is_plausible(&self, whole: u64) -> bool {
        let bytes = match self.deflated {
            true => self.held_bytes.saturating_mul(DEFLATE_RATIO_MAX),
            false => self.held_bytes,
        };
        let end =
            self.header.checked_add(LOCAL_BYTES).and_then(|at| at.checked_add(self.held_bytes));
        end.is_some_and(|end| end <= whole)
            && if self.deflated { self.bytes <= bytes } else { self.bytes == bytes }
    }

    /// Where its bytes begin in the archive.
    ///
    /// # Errors
    /// The header before them is not one, or they reach beyond the end.
    pub fn start<R: Readable>(&self, object: &R) -> Result<u64, ZipError<R::Error>> {
        let local = object.read(self.header..self.header + LOCAL_BYTES)?;
        let lengths = number(&local, 26, 2).zip(number(&local, 28, 2));
        let lengths = lengths.filter(|_| local[..4] == LOCAL_SIGNATURE);
        let start = lengths.map(|(name, extra)| self.header + LOCAL_BYTES + name + extra);
        let start = start.filter(|start| start + self.held_bytes <= object.bytes());
        let fault = "its header is broken, or its bytes are cut off";
        start.ok_or_else(|| broken(&format!("`{}`", self.name.escape_debug()), fault))
    }
}

/// Replaces numbers that did not fit 32 bits by those of the 64-bit extra field, in its order.
fn widen(mut extra: &[u8], numbers: &mut [u64; 3]) -> Option<()> {
    if numbers.iter().all(|&number| number != 0xffff_ffff) {
        return Some(());
    }
    while let Some((id, bytes)) = number(extra, 0, 2).zip(number(extra, 2, 2)) {
        let content = extra.get(4..4 + bytes as usize)?;
        if id == 1 {
            let mut at = 0;
            for wide in numbers.iter_mut().filter(|number| **number == 0xffff_ffff) {
                *wide = number(content, at, 8)?;
                at += 8;
            }
            return Some(());
        }
        extra = &extra[4 + bytes as usize..];
    }
    None
}
