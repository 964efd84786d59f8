//! Rules for the keys of operations.

use std::ops::RangeInclusive;

use crate::recipe::{Interpolation, RecipeError, wrong};

pub(super) fn probability(at: &str, p: f64) -> Result<(), RecipeError> {
    if (0.0..=1.0).contains(&p) {
        return Ok(());
    }
    Err(wrong(format!("{at}.p"), p, "must be from 0 to 1"))
}

/// `value` = [least, greatest], ordered and within `bounds`; NaN never passes.
pub(crate) fn range(key: String, value: [f64; 2], bounds: [f64; 2]) -> Result<(), RecipeError> {
    let [least, greatest] = value;
    if least <= greatest && least >= bounds[0] && greatest <= bounds[1] {
        return Ok(());
    }
    let rule = if bounds[0] == f64::MIN_POSITIVE {
        format!("must be [least, greatest], above 0 and at most {}", bounds[1])
    } else {
        format!("must be [least, greatest], from {} to {}", bounds[0], bounds[1])
    };
    Err(wrong(key, format!("[{least}, {greatest}]"), rule))
}

/// Pixels are moved, not resized: there is nothing to take the mean of.
pub(super) fn interpolation(at: &str, given: Interpolation) -> Result<(), RecipeError> {
    if given == Interpolation::Box {
        let rule = "must be nearest, bilinear, bicubic or random";
        return Err(wrong(format!("{at}.interpolation"), "box", rule));
    }
    Ok(())
}

pub(super) fn count(
    at: &str,
    key: &str,
    value: u32,
    within: RangeInclusive<u32>,
) -> Result<(), RecipeError> {
    if within.contains(&value) {
        return Ok(());
    }
    let rule = format!("must be from {} to {}", within.start(), within.end());
    Err(wrong(format!("{at}.{key}"), value, rule))
}

/// From 0 to `greatest`; NaN never passes.
pub(super) fn number(at: &str, key: &str, value: f64, greatest: f64) -> Result<(), RecipeError> {
    if (0.0..=greatest).contains(&value) {
        return Ok(());
    }
    Err(wrong(format!("{at}.{key}"), value, format!("must be from 0 to {greatest}")))
}
