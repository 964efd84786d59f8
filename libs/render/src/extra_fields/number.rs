//! Numbers in ASCII, and numbers as elements of tensors.

use half::f16;
use headwater_core::Dtype;

use crate::part::shown;

/// Reads a whole number of 64 bits, perhaps with space around.
pub(super) fn read_int(bytes: &[u8], row: &mut [u8]) -> Result<(), String> {
    let text = std::str::from_utf8(bytes.trim_ascii()).ok();
    let number: Option<i64> = text.and_then(|text| text.parse().ok());
    let number =
        number.ok_or_else(|| format!("`{}` is not a whole number of 64 bits", shown(bytes)))?;
    row.copy_from_slice(&number.to_le_bytes());
    Ok(())
}

/// Reads a finite number in decimal, perhaps with space around.
pub(super) fn read_float(dtype: Dtype, bytes: &[u8], row: &mut [u8]) -> Result<(), String> {
    let text = std::str::from_utf8(bytes.trim_ascii()).ok();
    let number: Option<f64> = text.and_then(|text| text.parse().ok());
    let number = number.filter(|number| number.is_finite());
    let number = number.ok_or_else(|| format!("`{}` is not a finite number", shown(bytes)))?;
    put_float(dtype, number, row)
}

/// Writes a number, rounded once to a type of floating-point numbers, in which a finite one has to stay finite.
pub(super) fn put_float(dtype: Dtype, number: f64, row: &mut [u8]) -> Result<(), String> {
    let is_finite = match dtype {
        Dtype::F64 => {
            row.copy_from_slice(&number.to_le_bytes());
            true
        }
        Dtype::F32 => {
            row.copy_from_slice(&(number as f32).to_le_bytes());
            (number as f32).is_finite()
        }
        Dtype::F16 => {
            let number = f16::from_f64(number);
            row.copy_from_slice(&number.to_le_bytes());
            number.is_finite()
        }
        _ => return Err(format!("a number does not become {dtype}")),
    };
    if is_finite || !number.is_finite() {
        Ok(())
    } else {
        Err(format!("{number:e} is too large for {dtype}"))
    }
}

/// Writes a whole number in a type of whole numbers.
pub(super) fn put_int(dtype: Dtype, number: i128, row: &mut [u8]) -> Result<(), String> {
    let (least, greatest) = match dtype {
        Dtype::U8 => (0, u8::MAX.into()),
        Dtype::I8 => (i8::MIN.into(), i8::MAX.into()),
        Dtype::U16 => (0, u16::MAX.into()),
        Dtype::I16 => (i16::MIN.into(), i16::MAX.into()),
        Dtype::U32 => (0, u32::MAX.into()),
        Dtype::I32 => (i32::MIN.into(), i32::MAX.into()),
        Dtype::I64 => (i64::MIN.into(), i64::MAX.into()),
        _ => return Err(format!("a whole number does not become {dtype}")),
    };
    if !(least..=greatest).contains(&number) {
        return Err(format!("{number} does not fit {dtype}"));
    }
    // Two's complement: the low bytes are the number in any width that it fits.
    row.copy_from_slice(&number.to_le_bytes()[..row.len()]);
    Ok(())
}
