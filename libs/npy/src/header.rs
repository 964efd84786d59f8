//! The header of a `.npy` file: <https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html>.
//!
//! Magic, version, length, and a Python dictionary in which only these forms occur: strings, `True`
//! and `False`, and tuples of whole numbers.

use std::borrow::Cow;

use crate::element::Element;

/// First bytes of every `.npy` file.
pub const MAGIC: [u8; 6] = *b"\x93NUMPY";
/// Bytes of magic, version, and the length in its longer form.
pub const PREFIX_BYTES: u64 = 12;
/// Longest dictionary. NumPy's own reader stops at 10,000 bytes.
const DICTIONARY_BYTES_MAX: u64 = 1 << 16;
/// Most axes; NumPy's limit.
const AXES_MAX: usize = 64;

/// Where an array's header ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    start: u64,
    /// First byte of the elements.
    pub end: u64,
}

/// What a header says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// Type of its elements.
    pub element: Element,
    /// Its shape.
    pub shape: Vec<u64>,
    /// Its first axis varies fastest. Never of an array with one axis that is longer than 1 at most.
    pub is_fortran: bool,
}

/// Why a header cannot be used.
#[derive(Debug, PartialEq, Eq)]
pub enum Fault {
    /// It is none.
    Broken(String),
    /// It is one, of an array that is not served.
    Unserved(String),
}

enum Value<'a> {
    Text(&'a str),
    Truth(bool),
    Numbers(Vec<u64>),
    /// A list: the fields of a structured type.
    List,
}

// === impl Extent ===

impl Extent {
    /// From a file's first bytes, up to [`PREFIX_BYTES`] of them.
    ///
    /// # Errors
    /// They are not those of a `.npy` file, or its header is too long.
    pub fn of(prefix: &[u8]) -> Result<Self, Fault> {
        if prefix.len() < 10 || prefix[..6] != MAGIC {
            return Err(Fault::Broken("it does not begin as a `.npy` file does".to_owned()));
        }
        let (start, bytes) = match (prefix[6], prefix.get(8..12)) {
            (1, _) => (10, u64::from(u16::from_le_bytes([prefix[8], prefix[9]]))),
            (2 | 3, Some(&[a, b, c, d])) => (12, u64::from(u32::from_le_bytes([a, b, c, d]))),
            (version, _) => {
                return Err(Fault::Broken(format!("version {version} of the header is not known")));
            }
        };
        if bytes > DICTIONARY_BYTES_MAX {
            let fault = format!("the header has {bytes} bytes, limit {DICTIONARY_BYTES_MAX}");
            return Err(Fault::Broken(fault));
        }
        Ok(Self { start, end: start + bytes })
    }
}

// === impl Header ===

impl Header {
    /// From all bytes before the elements.
    ///
    /// # Errors
    /// They are no header, or one of an array that is not read here.
    pub fn parse(bytes: &[u8], extent: Extent) -> Result<Self, Fault> {
        let broken = |what: &str| Fault::Broken(what.to_owned());
        let dictionary = bytes.get(extent.start as usize..extent.end as usize);
        let dictionary = dictionary.ok_or_else(|| broken("the header is cut off"))?;
        let text = match bytes[6] {
            1 | 2 => latin_1(dictionary),
            _ => std::str::from_utf8(dictionary)
                .map_err(|_| broken("the header is not text"))?
                .into(),
        };
        let no_dictionary = || broken("the header is no dictionary");
        let mut rest = text.trim().strip_prefix('{').ok_or_else(no_dictionary)?;
        let (mut descr, mut fortran, mut shape) = (None, None, None);
        loop {
            rest = rest.trim_start();
            if rest.starts_with('}') {
                break;
            }
            let (key, after) = quoted(rest).ok_or_else(no_dictionary)?;
            let after = after.trim_start().strip_prefix(':').ok_or_else(no_dictionary)?;
            let (value, after) = value(after.trim_start()).ok_or_else(no_dictionary)?;
            match (key, value) {
                ("descr", found) => descr = Some(found),
                ("fortran_order", Value::Truth(found)) => fortran = Some(found),
                ("shape", Value::Numbers(found)) => shape = Some(found),
                _ => return Err(Fault::Broken(format!("the header's `{key}` is not understood"))),
            }
            rest = after.trim_start();
            rest = rest.strip_prefix(',').unwrap_or(rest);
        }
        let (Some(descr), Some(fortran), Some(shape)) = (descr, fortran, shape) else {
            return Err(broken("the header lacks `descr`, `fortran_order` or `shape`"));
        };
        let element = element(descr)?;
        let is_fortran = fortran && shape.iter().filter(|&&length| length > 1).count() > 1;
        Ok(Self { element, shape, is_fortran })
    }

    /// The same, of an array whose rows are to be read where they lie.
    ///
    /// # Errors
    /// It is in Fortran order, which has no rows.
    pub fn with_rows(self) -> Result<Self, Fault> {
        if self.is_fortran {
            let remedy = "write it anew after `array = numpy.ascontiguousarray(array)`";
            return Err(Fault::Unserved(format!("it is in Fortran order: {remedy}")));
        }
        Ok(self)
    }
}

/// The text of versions 1 and 2. Names of fields may have letters that are not ASCII's.
fn latin_1(bytes: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(bytes) {
        Ok(text) if text.is_ascii() => text.into(),
        _ => bytes.iter().map(|&byte| char::from(byte)).collect::<String>().into(),
    }
}

fn element(descr: Value<'_>) -> Result<Element, Fault> {
    let Value::Text(name) = descr else {
        let remedy = "write each of its fields as an array of its own";
        return Err(Fault::Unserved(format!("its type is structured: {remedy}")));
    };
    if name.trim_start_matches(['|', '<', '>', '=']).starts_with('O') {
        let remedy = "write arrays of numbers or of strings of a fixed width";
        return Err(Fault::Unserved(format!("it holds Python objects: {remedy}")));
    }
    let unknown = || Fault::Unserved(format!("its type `{}` is not known", name.escape_debug()));
    Element::parse(name).ok_or_else(unknown)
}

/// A string in quotes without escapes, and what follows it.
fn quoted(text: &str) -> Option<(&str, &str)> {
    let quote = text.chars().next().filter(|char| matches!(char, '\'' | '"'))?;
    text[1..].split_once(quote)
}

fn value(text: &str) -> Option<(Value<'_>, &str)> {
    if let Some(rest) = text.strip_prefix("True") {
        return Some((Value::Truth(true), rest));
    }
    if let Some(rest) = text.strip_prefix("False") {
        return Some((Value::Truth(false), rest));
    }
    if let Some(rest) = text.strip_prefix('(') {
        let (inside, rest) = rest.split_once(')')?;
        let numbers = inside.split(',').map(str::trim).filter(|number| !number.is_empty());
        let plain = |number: &str| {
            // Python 2 wrote long numbers with an L.
            let number = number.strip_suffix('L').unwrap_or(number);
            number.bytes().all(|byte| byte.is_ascii_digit()).then(|| number.parse().ok())?
        };
        let numbers: Vec<u64> = numbers.map(plain).collect::<Option<_>>()?;
        return (numbers.len() <= AXES_MAX).then_some((Value::Numbers(numbers), rest));
    }
    if let Some(rest) = text.strip_prefix('[') {
        return Some((Value::List, rest.rsplit_once(']')?.1));
    }
    quoted(text).map(|(text, rest)| (Value::Text(text), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(dictionary: &str) -> Result<Header, Fault> {
        let mut bytes = [&MAGIC[..], &[1, 0], &(dictionary.len() as u16).to_le_bytes()].concat();
        bytes.extend_from_slice(dictionary.as_bytes());
        let extent = Extent::of(&bytes[..12.min(bytes.len())])?;
        assert_eq!(extent.end, bytes.len() as u64);
        Header::parse(&bytes, extent)?.with_rows()
    }

    #[test]
    fn what_numpy_writes_is_understood() {
        let read = header("{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2), }  \n");
        assert_eq!(read.unwrap().shape, [3, 2]);
        let read = header("{\"descr\":\"|u1\",\"shape\":(7L,),\"fortran_order\":True}").unwrap();
        assert_eq!((read.shape, read.element.bytes), (vec![7], 1));
        let read = header("{'descr': '<f4', 'fortran_order': False, 'shape': ()}").unwrap();
        assert!(read.shape.is_empty());
    }

    #[test]
    fn what_is_not_served_is_refused_by_name() {
        let refused = |descr: &str, order: &str| {
            let text = format!("{{'descr': {descr}, 'fortran_order': {order}, 'shape': (3, 2), }}");
            match header(&text) {
                Err(Fault::Unserved(reason)) => reason,
                other => panic!("{other:?}"),
            }
        };
        assert!(refused("'<f4'", "True").contains("Fortran order"));
        assert!(refused("'|O'", "False").contains("Python objects"));
        assert!(refused("[('a', '<f4'), ('b', '<i2')]", "False").contains("structured"));
        assert!(refused("'<q9'", "False").contains("`<q9`"));
    }

    /// NumPy writes a field `é` as one byte in versions 1 and 2, and in UTF-8 in version 3.
    #[test]
    fn names_of_fields_are_in_the_encoding_of_the_version() {
        let read = |version: u8, name: &[u8]| {
            let text =
                [b"{'descr': [('", name, b"', '<i4')], 'fortran_order': False, 'shape': (5,), }"];
            let (text, length_bytes) = (text.concat(), if version == 1 { 2 } else { 4 });
            let length = (text.len() as u32).to_le_bytes();
            let bytes = [&MAGIC[..], &[version, 0], &length[..length_bytes], &text].concat();
            Header::parse(&bytes, Extent::of(&bytes[..12])?)
        };
        let cases = [
            (1, &b"\xe9"[..], true),
            (2, b"\xe9", true),
            (3, b"\xc3\xa9", true),
            (3, b"\xe9", false),
        ];
        for (version, name, is_text) in cases {
            let said = match read(version, name) {
                Err(Fault::Unserved(reason)) if is_text => {
                    reason.contains("its type is structured")
                }
                Err(Fault::Broken(reason)) => !is_text && reason == "the header is not text",
                _ => false,
            };
            assert!(said, "version {version}, {name:?}");
        }
    }

    #[test]
    fn what_is_no_header_is_broken() {
        for text in ["", "{", "{'descr'", "{'shape': (1, -2)}", "{'descr': '<f4', 'shape': (1,)}"] {
            assert!(matches!(header(text), Err(Fault::Broken(_))), "{text}");
        }
        assert!(matches!(Extent::of(b"\x93NUMPY\x09\0\0\0\0\0"), Err(Fault::Broken(_))));
        assert!(matches!(Extent::of(b"\x93NUMPY\x02\0\0\0\0\x7f"), Err(Fault::Broken(_))));
    }
}
