//! Numbers whose bits are not those of a plain type. The crate's types do not say where a number's bits lie, so the
//! message of the type is parsed here.

/// A layout of floats: size, then of precision, exponent and mantissa what the message has.
struct Float {
    bytes: u32,
    exponent: [u8; 2],
    mantissa_bits: u8,
    bias: u32,
}

/// IEEE's binary16, binary32 and binary64.
const FLOATS: [Float; 3] = [
    Float { bytes: 2, exponent: [10, 5], mantissa_bits: 10, bias: 15 },
    Float { bytes: 4, exponent: [23, 8], mantissa_bits: 23, bias: 127 },
    Float { bytes: 8, exponent: [52, 11], mantissa_bits: 52, bias: 1023 },
];

/// What is not plain about a type's numbers, and NumPy's name of a plain type that holds them. `None` where they are
/// integers of all bits of their bytes, floats of IEEE, or no numbers.
///
/// The layout of the message is that of "The Datatype Message" in HDF5's file format specification.
pub(super) fn unusual(mut message: &[u8]) -> Option<(String, String)> {
    loop {
        let (&[kind, flags, sign, _], rest) = message.split_first_chunk()?;
        let (size, properties) = rest.split_first_chunk()?;
        let bytes = u32::from_le_bytes(*size);
        match kind & 0x0f {
            0 | 4 => {
                let letter = if flags & 8 != 0 { 'i' } else { 'u' };
                return bits(bytes, properties).map(|bits| {
                    (
                        format!("integers of {bits}"),
                        format!("{letter}{}", bytes.next_power_of_two()),
                    )
                });
            }
            1 => return float(bytes, [flags, sign], properties),
            // Enumerations and sequences have the type of their elements next.
            8 | 9 => message = properties,
            10 => {
                let lengths = 4 * usize::from(*properties.first()?);
                let skipped = if kind >> 4 < 3 { 4 + 2 * lengths } else { 1 + lengths };
                message = properties.get(skipped..)?;
            }
            _ => return None,
        }
    }
}

/// Which of its bits a number has, unless it has all.
fn bits(bytes: u32, properties: &[u8]) -> Option<String> {
    let &[low, high, bits_low, bits_high] = properties.first_chunk()?;
    let (first, count) =
        (u16::from_le_bytes([low, high]), u16::from_le_bytes([bits_low, bits_high]));
    let is_plain = first == 0 && u64::from(count) == 8 * u64::from(bytes);
    (!is_plain).then(|| format!("{count} bits from bit {first} in {bytes} bytes"))
}

fn float(bytes: u32, [flags, sign]: [u8; 2], properties: &[u8]) -> Option<(String, String)> {
    let &[_, _, _, _, exponent, exponent_bits, mantissa, mantissa_bits, b0, b1, b2, b3] =
        properties.first_chunk()?;
    let bias = u32::from_le_bytes([b0, b1, b2, b3]);
    // Bit 6 of the flags is VAX's order, bits 4 and 5 say that the mantissa's first bit is implied.
    let is_ordered = flags & 0x40 == 0 && flags >> 4 & 3 == 2;
    let is_of = |float: &Float| {
        float.bytes == bytes
            && float.exponent == [exponent, exponent_bits]
            && (mantissa, mantissa_bits) == (0, float.mantissa_bits)
            && float.bias == bias
            && u32::from(sign) == 8 * bytes - 1
    };
    if is_ordered && bits(bytes, properties).is_none() && FLOATS.iter().any(is_of) {
        return None;
    }
    let said = format!(
        "floats of {bytes} bytes, with {exponent_bits} bits of exponent and {mantissa_bits} of mantissa"
    );
    let holds = if exponent_bits > 8 || mantissa_bits > 23 { "f8" } else { "f4" };
    Some((said, holds.to_owned()))
}
