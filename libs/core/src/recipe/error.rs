//! Why a recipe cannot be used.

use super::names::PRESETS;

/// Why a recipe cannot be used; names the key.
#[derive(Debug, thiserror::Error)]
pub enum RecipeError {
    /// No preset has this name.
    #[error("no recipe preset `{name}`: known are {}", preset_names())]
    NoPreset {
        /// The name asked for.
        name: String,
    },
    /// A value out of its range.
    #[error("`recipe.{key}` is {value}: {rule}")]
    Value {
        /// Path of the key.
        key: String,
        /// The value as text.
        value: String,
        /// What it should be.
        rule: String,
    },
}

fn preset_names() -> String {
    let names: Vec<&str> = PRESETS.iter().map(|(name, _)| *name).collect();
    names.join(", ")
}

pub(crate) fn wrong(key: String, value: impl ToString, rule: impl Into<String>) -> RecipeError {
    RecipeError::Value { key, value: value.to_string(), rule: rule.into() }
}
