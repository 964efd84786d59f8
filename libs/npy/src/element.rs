//! Types of an array's elements, by NumPy's names.

/// Largest element in bytes: strings of a fixed width are the large ones.
const ELEMENT_BYTES_MAX: u32 = 1 << 20;

/// What an element is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Truth: 0 or 1 in a byte.
    Bool,
    /// A signed integer.
    Int,
    /// An unsigned integer.
    Uint,
    /// A floating-point number.
    Float,
    /// Two floating-point numbers.
    Complex,
    /// Bytes of a fixed width, filled up with zeros.
    Bytes,
    /// Code points of four bytes each, filled up with zeros.
    Text,
    /// Bytes without a meaning.
    Opaque,
    /// Nanoseconds, days: an integer with a unit.
    Time,
    /// A difference of times: an integer with a unit.
    Duration,
}

/// Type of an array's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Element {
    /// What it is.
    pub kind: Kind,
    /// Size of one, in bytes.
    pub bytes: u32,
    /// The most significant byte comes first.
    pub big_endian: bool,
}

// === impl Element ===

impl Element {
    /// An element of one of NumPy's names, as `<f4`, `|u1`, `<U12`; `None` where it has another form,
    /// or a size that its kind does not have.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut chars = text.chars();
        let order = chars.next()?;
        let kind = match chars.next()? {
            'b' => Kind::Bool,
            'i' => Kind::Int,
            'u' => Kind::Uint,
            'f' => Kind::Float,
            'c' => Kind::Complex,
            'S' => Kind::Bytes,
            'U' => Kind::Text,
            'V' => Kind::Opaque,
            'M' => Kind::Time,
            'm' => Kind::Duration,
            _ => return None,
        };
        // Times have their unit behind their size: `<M8[ns]`.
        let size = chars.as_str();
        let size = match kind {
            Kind::Time | Kind::Duration => size.split('[').next()?,
            _ => size,
        };
        if size.len() > 8 || !size.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let mut bytes: u32 = size.parse().ok()?;
        if kind == Kind::Text {
            bytes = bytes.checked_mul(4)?;
        }
        let fits = match kind {
            Kind::Bool => bytes == 1,
            Kind::Int | Kind::Uint => matches!(bytes, 1 | 2 | 4 | 8),
            Kind::Float => matches!(bytes, 2 | 4 | 8),
            Kind::Complex => matches!(bytes, 8 | 16),
            Kind::Time | Kind::Duration => bytes == 8,
            Kind::Bytes | Kind::Text | Kind::Opaque => (1..=ELEMENT_BYTES_MAX).contains(&bytes),
        };
        let big_endian = match order {
            '<' | '|' | '=' => false,
            '>' => bytes > 1 && !matches!(kind, Kind::Bytes | Kind::Opaque),
            _ => return None,
        };
        fits.then_some(Self { kind, bytes, big_endian })
    }

    /// NumPy's name of it.
    #[must_use]
    pub fn name(self) -> String {
        let letter = match self.kind {
            Kind::Bool => 'b',
            Kind::Int => 'i',
            Kind::Uint => 'u',
            Kind::Float => 'f',
            Kind::Complex => 'c',
            Kind::Bytes => 'S',
            Kind::Text => 'U',
            Kind::Opaque => 'V',
            Kind::Time => 'M',
            Kind::Duration => 'm',
        };
        let unordered = self.bytes == 1 || matches!(self.kind, Kind::Bytes | Kind::Opaque);
        let order = match self.big_endian {
            _ if unordered => '|',
            true => '>',
            false => '<',
        };
        let size = if self.kind == Kind::Text { self.bytes / 4 } else { self.bytes };
        format!("{order}{letter}{size}")
    }

    /// Whether one is a value that is written as text: a number, a string.
    #[must_use]
    pub fn has_text(self) -> bool {
        !matches!(self.kind, Kind::Complex | Kind::Opaque)
    }

    /// An element as text: numbers in ASCII decimal, truth as 0 and 1, strings in UTF-8, times as
    /// numbers of their unit. `None` where it has no such form, or is a string that is not UTF-8.
    #[must_use]
    pub fn text(self, bytes: &[u8]) -> Option<String> {
        let mut little = [0; 8];
        if !matches!(self.kind, Kind::Bytes | Kind::Text | Kind::Complex | Kind::Opaque) {
            let held = little.get_mut(..self.bytes as usize)?;
            held.copy_from_slice(bytes);
            if self.big_endian {
                held.reverse();
            }
        }
        let unsigned = u64::from_le_bytes(little);
        let unused = 64 - 8 * self.bytes.min(8);
        let signed = ((unsigned << unused) as i64) >> unused;
        match self.kind {
            Kind::Bool => Some(u8::from(unsigned != 0).to_string()),
            Kind::Uint => Some(unsigned.to_string()),
            Kind::Int | Kind::Time | Kind::Duration => Some(signed.to_string()),
            Kind::Float => match self.bytes {
                2 => Some(format!("{:?}", half::f16::from_bits(unsigned as u16).to_f32())),
                4 => Some(format!("{:?}", f32::from_bits(unsigned as u32))),
                _ => Some(format!("{:?}", f64::from_bits(unsigned))),
            },
            Kind::Bytes => {
                let end = bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
                String::from_utf8(bytes[..end].to_vec()).ok()
            }
            Kind::Text => self.code_points(bytes),
            Kind::Complex | Kind::Opaque => None,
        }
    }

    fn code_points(self, bytes: &[u8]) -> Option<String> {
        let point = |four: &[u8]| {
            let four = [four[0], four[1], four[2], four[3]];
            if self.big_endian { u32::from_be_bytes(four) } else { u32::from_le_bytes(four) }
        };
        let points: Vec<u32> = bytes.chunks_exact(4).map(point).collect();
        let end = points.iter().rposition(|&point| point != 0).map_or(0, |last| last + 1);
        points[..end].iter().map(|&point| char::from_u32(point)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_back_and_others_are_refused() {
        for name in ["<f4", "|u1", "|b1", ">i8", "<U12", "|S7", "<c8", "|V3", "<f2", "<m8"] {
            assert_eq!(Element::parse(name).map(Element::name).as_deref(), Some(name));
        }
        assert_eq!(Element::parse("<M8[ns]").unwrap().bytes, 8);
        for name in ["", "f4", "<f3", "<i16", "|O", "<f99999999999", "<U0", "<f+4", "?b1", "<ü"] {
            assert_eq!(Element::parse(name), None, "{name}");
        }
    }

    #[test]
    fn values_are_written_as_label_parsers_read_them() {
        let text = |name: &str, bytes: &[u8]| Element::parse(name).unwrap().text(bytes);
        assert_eq!(text("<i2", &[0xfe, 0xff]).as_deref(), Some("-2"));
        assert_eq!(text(">i2", &[0xff, 0xfe]).as_deref(), Some("-2"));
        assert_eq!(text("<u8", &[0xff; 8]).as_deref(), Some("18446744073709551615"));
        assert_eq!(text("<f4", &1.5f32.to_le_bytes()).as_deref(), Some("1.5"));
        assert_eq!(text("<f2", &0x3c00u16.to_le_bytes()).as_deref(), Some("1.0"));
        assert_eq!(text(">f8", &(-0.1f64).to_be_bytes()).as_deref(), Some("-0.1"));
        assert_eq!(text("|b1", &[1]).as_deref(), Some("1"));
        assert_eq!(text("|S4", b"ab\0\0").as_deref(), Some("ab"));
        assert_eq!(text("|S2", b"\xff\xff"), None);
        assert_eq!(text("<U2", &[0xe9, 0, 0, 0, 0, 0, 0, 0]).as_deref(), Some("\u{e9}"));
        assert_eq!(text("<U1", &[0, 0xd8, 0, 0]), None);
    }
}
