//! Types of elements.

use hdf5_reader::messages::datatype::{StringPadding, VarLenKind};
use hdf5_reader::{ByteOrder, Datatype, StringSize};

use crate::format::arrays::{Element, Padding, Varying};

/// What an array's elements are.
pub(super) enum Elements {
    /// Of one size, with the axes that a single one has.
    Fixed(Element, Vec<u64>),
    /// Each of its own length: strings, or bytes.
    Varying(Varying),
}

// === impl Elements ===

impl Elements {
    /// By their type in the file; `None` where they are not served.
    pub(super) fn of(datatype: &Datatype) -> Option<Self> {
        match datatype {
            Datatype::String { size: StringSize::Variable, .. }
            | Datatype::VarLen { kind: VarLenKind::String, .. } => {
                Some(Self::Varying(Varying::Text))
            }
            Datatype::VarLen { kind: VarLenKind::Sequence, base, .. } => {
                let bytes = matches!(**base, Datatype::FixedPoint { size: 1, signed: false, .. });
                bytes.then_some(Self::Varying(Varying::Bytes))
            }
            fixed_size => fixed(fixed_size).map(|(element, axes)| Self::Fixed(element, axes)),
        }
    }
}

/// The type of elements of one size, and the axes that a single one has.
fn fixed(datatype: &Datatype) -> Option<(Element, Vec<u64>)> {
    let big = |order: &ByteOrder| {
        if *order == ByteOrder::BigEndian { '>' } else { '<' }
    };
    let name = match datatype {
        Datatype::FixedPoint { size, signed, byte_order } => {
            format!("{}{}{size}", big(byte_order), if *signed { 'i' } else { 'u' })
        }
        Datatype::FloatingPoint { size, byte_order } => format!("{}f{size}", big(byte_order)),
        Datatype::String { size: StringSize::Fixed(size), .. } => format!("|S{size}"),
        Datatype::Opaque { size, .. } => format!("|V{size}"),
        Datatype::Bitfield { size, byte_order } => format!("{}u{size}", big(byte_order)),
        Datatype::Enum { base, members } => {
            let names: Vec<&str> = members.iter().map(|member| member.name.as_str()).collect();
            let (element, axes) = fixed(base)?;
            let truth = element.bytes == 1 && names == ["FALSE", "TRUE"];
            return Some((if truth { Element::parse("|b1")? } else { element }, axes));
        }
        Datatype::Array { base, dims } => {
            let (element, inner) = fixed(base)?;
            return Some((element, [&dims[..], &inner].concat()));
        }
        _ => return None,
    };
    Some((Element::parse(&name)?, Vec::new()))
}

/// What fills up strings of a fixed width.
pub(super) fn padding(datatype: &Datatype) -> Padding {
    match datatype {
        Datatype::Array { base, .. } => padding(base),
        Datatype::String { size: StringSize::Fixed(_), padding, .. } => match padding {
            StringPadding::NullTerminate => Padding::FirstNull,
            StringPadding::NullPad => Padding::Nulls,
            StringPadding::SpacePad => Padding::Spaces,
        },
        _ => Padding::Nulls,
    }
}
