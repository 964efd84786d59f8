//! Which layer a key's value came from.

use figment::Figment;

/// What a key that nobody set is said to come from.
pub const FROM_DEFAULT: &str = "default";

/// Name of the layer that a key came from.
pub(crate) fn origin(figment: &Figment, key: &str) -> Option<String> {
    figment.find_metadata(key).map(|metadata| metadata.name.to_string())
}

/// Whether no layer above the defaults has the key.
pub(crate) fn is_default(figment: &Figment, key: &str) -> bool {
    origin(figment, key).is_none_or(|name| name == FROM_DEFAULT)
}
