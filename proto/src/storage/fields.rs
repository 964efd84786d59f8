//! Which fields of a sample are wanted.

use crate::augment::{MessageError, fault};

/// Largest number of fields one request may name, alternatives included.
pub const FIELDS_WANTED_MAX: usize = 256;

/// Names of the fields wanted, each perhaps a list of alternatives. Names are compared without
/// regard to ASCII case, as WebDataset does (`JPEG` is `jpeg`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSelection {
    /// Alternatives, first choice first. No name at all: every field.
    wanted: Vec<Vec<String>>,
}

// === impl FieldSelection ===

impl FieldSelection {
    /// Every field of the sample.
    #[must_use]
    pub fn all() -> Self {
        Self::default()
    }

    /// Reads names of fields; `jpg|jpeg|png` is the first one of these that a sample has. No name
    /// at all selects every field.
    ///
    /// # Errors
    /// An empty name, or more than [`FIELDS_WANTED_MAX`] names.
    pub fn parse<S: AsRef<str>>(names: &[S]) -> Result<Self, MessageError> {
        let wanted: Vec<Vec<String>> = names
            .iter()
            .map(|name| name.as_ref().split('|').map(str::to_owned).collect())
            .collect();
        let count = wanted.iter().map(Vec::len).sum::<usize>();
        if count > FIELDS_WANTED_MAX {
            return Err(fault("fields", format!("has {count} names, limit {FIELDS_WANTED_MAX}")));
        }
        if let Some(at) = wanted.iter().position(|names| names.iter().any(String::is_empty)) {
            let name = names[at].as_ref();
            return Err(fault("fields", format!("holds `{name}`, in which a name is empty")));
        }
        Ok(Self { wanted })
    }

    /// The names as they are written, the inverse of [`FieldSelection::parse`].
    #[must_use]
    pub fn to_names(&self) -> Vec<String> {
        self.wanted.iter().map(|names| names.join("|")).collect()
    }

    /// Positions in `present` of the fields wanted, in the order in which they are wanted, each
    /// once. What is not present is left out: the caller sees that it is missing.
    #[must_use]
    pub fn pick<'a>(&self, present: impl Iterator<Item = &'a str> + Clone) -> Vec<usize> {
        if self.wanted.is_empty() {
            return (0..present.count()).collect();
        }
        let mut picked = Vec::with_capacity(self.wanted.len());
        for names in &self.wanted {
            let found = names
                .iter()
                .find_map(|name| present.clone().position(|p| p.eq_ignore_ascii_case(name)));
            picked.extend(found.filter(|at| !picked.contains(at)));
        }
        picked
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pick(names: &[&str], present: &[&str]) -> Vec<usize> {
        FieldSelection::parse(names).unwrap().pick(present.iter().copied())
    }

    #[test]
    fn the_first_alternative_present_is_taken_in_the_order_wanted() {
        assert_eq!(pick(&["cls", "jpg|jpeg|png"], &["png", "jpeg", "cls"]), [2, 1]);
        assert_eq!(pick(&["jpg"], &["JPG"]), [0]);
        assert_eq!(pick(&["jpg", "json"], &["cls", "jpg"]), [1]);
        assert_eq!(pick(&["jpg|png", "png|jpg"], &["jpg", "png"]), [0, 1]);
        assert_eq!(pick(&["jpg|png", "jpg"], &["jpg"]), [0], "each field once");
        assert_eq!(pick(&[], &["a", "b"]), [0, 1]);
    }

    #[test]
    fn an_empty_name_is_refused() {
        let error = FieldSelection::parse(&["jpg", "cls||txt"]).unwrap_err().to_string();
        assert!(error.contains("`cls||txt`"), "{error}");
        assert!(FieldSelection::parse(&[""]).is_err());
        assert!(FieldSelection::parse(&vec!["x"; FIELDS_WANTED_MAX + 1]).is_err());
    }

    #[test]
    fn names_come_back_as_written() {
        let names = ["jpg|png", "cls"];
        assert_eq!(FieldSelection::parse(&names).unwrap().to_names(), names);
    }
}
