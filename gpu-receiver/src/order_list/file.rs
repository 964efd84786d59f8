//! Files of lists: NumPy's `.npy`, or text with a number a line. The first bytes decide, never a name.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use headwater_core::sampler::{LIST_ENTRIES_MAX, Rows};
use headwater_inventory::Machine;
use headwater_npy::{Extent, Fault, Header, MAGIC, PREFIX_BYTES};

use super::number::{self, Element, Number};

/// Longest line of text, in bytes.
const LINE_BYTES_MAX: u64 = 256;
/// Entries of text that memory is taken for at first.
const ENTRIES_FIRST: usize = 1 << 16;
/// Bytes that are read at a time.
const BUFFER_BYTES: usize = 1 << 20;

/// Reads a list. Memory follows from the size that the file has, never from what its header says.
///
/// # Errors
/// What is wrong with the file, and where.
pub(super) fn read<T: TryFrom<Number, Error = String>>(path: &Path) -> Result<Rows<T>, String> {
    let metadata = std::fs::metadata(path).map_err(unreadable)?;
    if !metadata.is_file() {
        return Err("it is not a file: give a `.npy` file, or text with a number a line".to_owned());
    }
    let file = File::open(path).map_err(unreadable)?;
    let mut reader = BufReader::with_capacity(BUFFER_BYTES, file);
    let prefix = first_bytes(&mut reader, PREFIX_BYTES)?;
    if prefix.starts_with(&MAGIC) {
        read_array(prefix, reader, metadata.len())
    } else {
        read_text(BufReader::new(io::Cursor::new(prefix).chain(reader)))
    }
}

fn read_array<T: TryFrom<Number, Error = String>>(
    mut head: Vec<u8>,
    mut reader: impl BufRead,
    file_bytes: u64,
) -> Result<Rows<T>, String> {
    let extent = Extent::of(&head).map_err(fault)?;
    // A header of the shortest form may end before the prefix does.
    let missing = extent.end.saturating_sub(head.len() as u64);
    head.extend(first_bytes(&mut reader, missing)?);
    let header = Header::parse(&head, extent).and_then(Header::with_rows).map_err(fault)?;
    let Header { element, shape, .. } = header;
    let element = Element::of(element)?;
    let entries = number::entries(&shape)?;
    let (wanted, held) = (entries * element.bytes as u64, file_bytes.saturating_sub(extent.end));
    if wanted != held {
        return Err(format!(
            "its header says {entries} elements of {} bytes, and {held} bytes follow it",
            element.bytes
        ));
    }
    let begun = head.split_off((extent.end as usize).min(head.len()));
    let mut elements = io::Cursor::new(begun).chain(reader);
    let mut failure = None;
    let numbers = (0..entries).map_while(|_| {
        let mut bytes = [0; 8];
        match elements.read_exact(&mut bytes[..element.bytes]) {
            Ok(()) => Some(element.number(&bytes[..element.bytes])),
            Err(error) => {
                failure = Some(unreadable(error));
                None
            }
        }
    });
    let values = number::values(numbers, &shape)?;
    match failure {
        Some(failure) => Err(failure),
        None => number::in_rows(&shape, values),
    }
}

fn read_text<T: TryFrom<Number, Error = String>>(
    mut reader: impl BufRead,
) -> Result<Rows<T>, String> {
    let (mut values, mut line, mut number) = (Vec::new(), Vec::new(), 0_u64);
    loop {
        line.clear();
        number += 1;
        let read = reader.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line);
        if read.map_err(unreadable)? == 0 {
            return Ok(Rows::one(values));
        }
        let at = |fault: String| format!("line {number}: {fault}");
        if line.len() as u64 == LINE_BYTES_MAX {
            return Err(at(format!(
                "it has {LINE_BYTES_MAX} bytes or more: write a number a line"
            )));
        }
        let text = std::str::from_utf8(&line).map_err(|_| at("it is not text".to_owned()))?.trim();
        if text.is_empty() {
            continue;
        }
        if values.len() as u64 == LIST_ENTRIES_MAX {
            return Err(at(format!("the limit is {LIST_ENTRIES_MAX} entries")));
        }
        if values.len() == values.capacity() {
            let more = values.len().max(ENTRIES_FIRST) as u64;
            number::reserve(&mut values, more, Machine::this().memory_room()).map_err(at)?;
        }
        values.push(Number::parse(text).and_then(T::try_from).map_err(at)?);
    }
}

/// So many bytes, or those up to the end.
fn first_bytes(reader: &mut impl Read, most: u64) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    reader.by_ref().take(most).read_to_end(&mut bytes).map_err(unreadable)?;
    Ok(bytes)
}

fn fault(fault: Fault) -> String {
    let (Fault::Broken(reason) | Fault::Unserved(reason)) = fault;
    reason
}

fn unreadable(error: io::Error) -> String {
    format!("it cannot be read: {error}")
}
