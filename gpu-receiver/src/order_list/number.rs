//! Numbers as files and arrays hold them, and what they can be in a list.

use headwater_core::sampler::{LIST_ENTRIES_MAX, Rows};
use headwater_inventory::{Machine, MemoryRoom};
use headwater_npy::Kind;

/// A number before it is known what it is for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Number {
    /// Not negative.
    Uint(u64),
    /// Negative.
    Int(i64),
    /// With a point, or not finite.
    Float(f64),
}

/// Type of an array's elements: whole numbers, or floats of 4 or 8 bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Element {
    kind: Kind,
    pub(super) bytes: usize,
    big_endian: bool,
}

// === impl Element ===

impl Element {
    /// From NumPy's name of the type.
    pub(super) fn parse(descr: &str) -> Result<Self, String> {
        headwater_npy::Element::parse(descr).ok_or_else(|| no_number(descr)).and_then(Self::of)
    }

    pub(super) fn of(element: headwater_npy::Element) -> Result<Self, String> {
        let headwater_npy::Element { kind, bytes, big_endian } = element;
        match (kind, bytes) {
            (Kind::Int | Kind::Uint, _) | (Kind::Float, 4 | 8) => {
                Ok(Self { kind, bytes: bytes as usize, big_endian })
            }
            _ => Err(no_number(&element.name())),
        }
    }

    /// The number of one element's bytes.
    pub(super) fn number(self, bytes: &[u8]) -> Number {
        let mut little = [0; 8];
        little[..self.bytes].copy_from_slice(bytes);
        if self.big_endian {
            little[..self.bytes].reverse();
        }
        let unsigned = u64::from_le_bytes(little);
        let unused = 64 - 8 * self.bytes;
        let signed = ((unsigned << unused) as i64) >> unused;
        match (self.kind, self.bytes) {
            (Kind::Float, 4) => Number::Float(f32::from_bits(unsigned as u32).into()),
            (Kind::Float, _) => Number::Float(f64::from_bits(unsigned)),
            (Kind::Int, _) if signed < 0 => Number::Int(signed),
            _ => Number::Uint(unsigned),
        }
    }
}

fn no_number(descr: &str) -> String {
    let descr = descr.escape_debug();
    format!(
        "its type `{descr}` is not one of whole numbers or floats of 4 or 8 bytes: convert it by \
         `array.astype(numpy.int64)`"
    )
}

// === impl Number ===

impl Number {
    /// From a line of text.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let whole = text.parse().map(Self::Uint).or_else(|_| text.parse().map(Self::Int));
        let number = whole.or_else(|_| text.parse().map(Self::Float));
        number.map_err(|_| format!("`{}` is not a number", text.escape_debug()))
    }
}

impl TryFrom<Number> for u64 {
    type Error = String;

    fn try_from(number: Number) -> Result<Self, String> {
        match number {
            Number::Uint(number) => Ok(number),
            Number::Int(number) => Err(format!("{number} is negative: numbers begin at 0")),
            Number::Float(number) => Err(format!(
                "{number:?} is not a whole number: write integers, `array.astype(numpy.int64)` or \
                 `numpy.savetxt(path, array, fmt=\"%d\")`"
            )),
        }
    }
}

impl TryFrom<Number> for u32 {
    type Error = String;

    fn try_from(number: Number) -> Result<Self, String> {
        let number = u64::try_from(number)?;
        number.try_into().map_err(|_| format!("{number} is over the limit of groups, {}", u32::MAX))
    }
}

impl TryFrom<Number> for f64 {
    type Error = String;

    fn try_from(number: Number) -> Result<Self, String> {
        Ok(match number {
            Number::Uint(number) => number as Self,
            Number::Int(number) => number as Self,
            Number::Float(number) => number,
        })
    }
}

/// Elements of an array of one or two axes.
pub(super) fn entries(shape: &[u64]) -> Result<u64, String> {
    if !matches!(shape.len(), 1 | 2) {
        let axes = shape.len();
        return Err(format!("it has {axes} axes: give one, or two for a row each epoch"));
    }
    let entries = shape.iter().try_fold(1_u64, |product, &axis| product.checked_mul(axis));
    let within = entries.filter(|&entries| entries <= LIST_ENTRIES_MAX);
    within.ok_or_else(|| {
        format!("its shape {shape:?} is over the limit of {LIST_ENTRIES_MAX} entries")
    })
}

/// Numbers as entries of a list, at most as many as the shape has; says where one is that cannot be one.
pub(super) fn values<T: TryFrom<Number, Error = String>>(
    numbers: impl Iterator<Item = Number>,
    shape: &[u64],
) -> Result<Vec<T>, String> {
    let columns = shape.last().copied().unwrap_or(1).max(1);
    let at = |place: u64| match shape.len() {
        1 => format!("entry {place}"),
        _ => format!("row {}, place {}", place / columns, place % columns),
    };
    // At once: a list that grows would take twice its memory for a while.
    let mut values = Vec::new();
    reserve(&mut values, shape.iter().product::<u64>(), Machine::this().memory_room())?;
    for (place, number) in (0..).zip(numbers) {
        values.push(T::try_from(number).map_err(|fault| format!("{}: {fault}", at(place)))?);
    }
    Ok(values)
}

/// Takes memory for `entries` entries, where there is twice as much: the check of a list sorts a copy of it.
/// The system would give more than it has, and end some process when that is written to.
pub(super) fn reserve<T>(
    values: &mut Vec<T>,
    entries: u64,
    room: Option<MemoryRoom>,
) -> Result<(), String> {
    let bytes = entries.saturating_mul(size_of::<T>() as u64);
    if let Some(MemoryRoom { free_bytes, from }) = room
        && bytes.saturating_mul(2) > free_bytes
    {
        return Err(format!(
            "its {entries} entries take {bytes} bytes, and as many while they are checked; {free_bytes} are free \
             ({}): give fewer, or more memory",
            from.display()
        ));
    }
    let reserved = values.try_reserve_exact(entries as usize);
    reserved.map_err(|_| {
        format!("its {entries} entries take {bytes} bytes, which the system does not give")
    })
}

/// Entries in the rows of an array.
pub(super) fn in_rows<T>(shape: &[u64], values: Vec<T>) -> Result<Rows<T>, String> {
    match shape {
        [_, columns] => {
            let rows = Rows::of_columns(*columns as usize, values);
            rows.ok_or_else(|| format!("its shape {shape:?} has empty rows"))
        }
        _ => Ok(Rows::one(values)),
    }
}
