//! Class numbers as rows of zeros and ones.

use headwater_core::Dtype;

use crate::part::shown;

/// Sets the class of each number to 1 in a row of zeros. No number is no class.
pub(super) fn read(dtype: Dtype, bytes: &[u8], row: &mut [u8]) -> Result<(), String> {
    let bytes = bytes.trim_ascii();
    if bytes.starts_with(b"[") {
        let numbers: Vec<u64> = serde_json::from_slice(bytes)
            .map_err(|error| format!("it is no JSON list of class numbers: {error}"))?;
        return numbers.into_iter().try_for_each(|number| set(dtype, number, row));
    }
    let text = std::str::from_utf8(bytes).ok();
    let text = text.ok_or_else(|| format!("{} are no class numbers", shown(bytes)))?;
    let words = text.split(|c: char| c.is_ascii_whitespace() || c == ',');
    for word in words.filter(|word| !word.is_empty()) {
        let number = word.parse();
        let no_number = |_| format!("`{}` is no class number", shown(word.as_bytes()));
        set(dtype, number.map_err(no_number)?, row)?;
    }
    Ok(())
}

fn set(dtype: Dtype, number: u64, row: &mut [u8]) -> Result<(), String> {
    let width = dtype.size_bytes() as usize;
    let classes = row.len() / width;
    let class = usize::try_from(number).ok().filter(|class| *class < classes);
    let class = class.ok_or_else(|| format!("class {number} is not below {classes}, `classes`"))?;
    let element = &mut row[class * width..][..width];
    match dtype {
        Dtype::F32 => element.copy_from_slice(&1f32.to_le_bytes()),
        _ => element[0] = 1,
    }
    Ok(())
}
