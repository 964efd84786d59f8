//! `[[filter]]`: which samples of a dataset are served. What is left out follows only from a sample's own bytes, so every
//! node leaves out the same ones, and an epoch has its length before the first step.

mod decide;
mod judge;
mod sample;

use headwater_config_derive::Keys;
use headwater_core::fields::{IMAGE_FIELD, check_selector};
use headwater_core::{Digest, Digester};
use serde::{Deserialize, Serialize};

use crate::StorageError;
pub(crate) use decide::Filtering;

/// Beyond it, a bound that a file or a keyword gives may have become another whole number.
const EXACT_BELOW: f64 = (1_u64 << 53) as f64;
/// Conditions of one dataset.
const FILTERS_MAX: usize = 64;

/// A condition for the samples of a dataset. Those that do not meet it are left out.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, Keys)]
#[serde(deny_unknown_fields, default)]
pub struct FilterConfig {
    /// Name of the dataset. Empty: all datasets.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub dataset: String,
    /// What is compared: `width`, `height`, `pixels` (their product) or `aspect` (width / height) of an
    /// image; `number`: a number in a field; `bytes`: the size of a field; `present`: whether a sample has
    /// the field.
    pub kind: FilterKind,
    /// Field; `|` between alternatives. Empty: the image, as in `receiver.image_field` of the same
    /// configuration.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub field: String,
    /// For `number`: where it is in a JSON document, as a JSON pointer (RFC 6901): `/scores/similarity`.
    /// Empty: the field is the number.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub path: String,
    /// Least value that stays.
    #[key(unit = "none")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min: Option<f64>,
    /// Largest value that stays.
    #[key(unit = "none")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max: Option<f64>,
}

/// What a filter compares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FilterKind {
    /// Columns of an image.
    Width,
    /// Rows of an image.
    Height,
    /// Columns times rows.
    Pixels,
    /// Columns over rows.
    Aspect,
    /// Bytes of a field.
    Bytes,
    /// A number in a field.
    Number,
    /// Whether there is a field.
    #[default]
    Present,
}

/// Samples that the filters of a dataset left out: one number a filter.
pub(crate) type LeftOutCounts = Vec<u64>;

/// The conditions of one dataset, in order: a sample is left out by the first that it does not meet.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Filters {
    all: Vec<FilterConfig>,
}

// === impl FilterKind ===

impl FilterKind {
    fn name(self) -> &'static str {
        match self {
            Self::Width => "width",
            Self::Height => "height",
            Self::Pixels => "pixels",
            Self::Aspect => "aspect",
            Self::Bytes => "bytes",
            Self::Number => "number",
            Self::Present => "present",
        }
    }
}

// === impl FilterConfig ===

impl FilterConfig {
    /// Checks all values.
    ///
    /// # Errors
    /// The first key whose value cannot work.
    pub fn validate(&self) -> Result<(), StorageError> {
        let fault = |key, value: &dyn ToString, remedy| {
            Err(StorageError::Config { key, value: value.to_string(), remedy })
        };
        let kind = self.kind.name();
        let has_space = self.field.split('|').any(|name| name != name.trim());
        if has_space || check_selector(self.field()).is_err() {
            return fault(
                "filter.field",
                &self.field,
                "name a field, or several with `|` and no space between",
            );
        }
        if self.field.is_empty() && self.kind == FilterKind::Number {
            return fault("filter.field", &self.field, "name the field that has the number");
        }
        if !self.path.is_empty() && self.kind != FilterKind::Number {
            return fault("filter.path", &self.path, "it goes with `kind = \"number\"` only");
        }
        if !(self.path.is_empty() || self.path.starts_with('/')) {
            return fault(
                "filter.path",
                &self.path,
                "write a JSON pointer, as \"/scores/similarity\"",
            );
        }
        let pointer = self.path.split('~').skip(1);
        if pointer.into_iter().any(|rest| !rest.starts_with(['0', '1'])) {
            return fault(
                "filter.path",
                &self.path,
                "write `~` as `~0`, and `/` in a name as `~1`",
            );
        }
        let given = [("filter.min", self.min), ("filter.max", self.max)];
        let mut given = given.iter().filter_map(|(key, value)| Some((*key, (*value)?)));
        if self.kind == FilterKind::Present {
            return given.next().map_or(Ok(()), |(key, value)| {
                let remedy = "`kind = \"present\"` compares no number: leave it out, or say what it is about by \
                              `kind`";
                fault(key, &value, remedy)
            });
        }
        if self.min.is_none() && self.max.is_none() {
            return fault("filter.kind", &kind, "give `min`, `max` or both");
        }
        if let Some((key, value)) = given.clone().find(|(_, value)| value.is_nan()) {
            return fault(key, &value, "must be a number");
        }
        let is_large = |value: f64| value.is_finite() && value.abs() >= EXACT_BELOW;
        if let Some((key, value)) = given.find(|(_, value)| is_large(*value)) {
            let remedy = "values are compared as 64-bit floats, in which whole numbers are exact below 2^53 only: \
                          give a bound within";
            return fault(key, &value, remedy);
        }
        let (min, max) = self.range();
        if min > max {
            return fault("filter.min", &min, "must not be above `max`");
        }
        Ok(())
    }

    /// Names of the field.
    fn field(&self) -> &str {
        if self.field.is_empty() { IMAGE_FIELD } else { &self.field }
    }

    fn range(&self) -> (f64, f64) {
        (self.min.unwrap_or(f64::NEG_INFINITY), self.max.unwrap_or(f64::INFINITY))
    }

    /// In a person's words, for logs and metrics: `width from 256`.
    fn words(&self) -> String {
        let mut words = self.kind.name().to_owned();
        if !self.field.is_empty() {
            words.push_str(&format!(" {}{}", self.field, self.path));
        }
        for (word, bound) in [("from", self.min), ("to", self.max)] {
            if let Some(bound) = bound {
                words.push_str(&format!(" {word} {bound}"));
            }
        }
        words
    }
}

// === impl Filters ===

impl Filters {
    /// Those that are about a dataset of this name; `None` where there is none.
    ///
    /// # Errors
    /// More than a dataset may have.
    pub(crate) fn of(dataset: &str, all: &[FilterConfig]) -> Result<Option<Self>, StorageError> {
        let is_meant =
            |filter: &&FilterConfig| filter.dataset.is_empty() || filter.dataset == dataset;
        let mut kept: Vec<FilterConfig> = Vec::new();
        for filter in all.iter().filter(is_meant) {
            let filter = FilterConfig { dataset: String::new(), ..filter.clone() };
            if !kept.contains(&filter) {
                kept.push(filter);
            }
        }
        if kept.len() > FILTERS_MAX {
            let (value, remedy) = (kept.len().to_string(), "a dataset has 64 filters at most");
            return Err(StorageError::Config { key: "filter", value, remedy });
        }
        Ok((!kept.is_empty()).then_some(Self { all: kept }))
    }

    /// Follows from what they compare and not from the dataset's name; and from the release, as another decoder may read
    /// the size of another image.
    pub(crate) fn digest(&self) -> Digest {
        let mut digester = Digester::new("headwater filters 1");
        digester.bytes(env!("CARGO_PKG_VERSION").as_bytes());
        for filter in &self.all {
            let (min, max) = filter.range();
            digester.bytes(filter.kind.name().as_bytes()).bytes(filter.field().as_bytes());
            digester.bytes(filter.path.as_bytes()).number(min.to_bits()).number(max.to_bits());
        }
        digester.finish()
    }

    /// Names of all fields that they are about.
    fn fields(&self) -> String {
        self.all.iter().map(FilterConfig::field).collect::<Vec<_>>().join("|")
    }

    /// What each compares, in a person's words.
    pub(crate) fn words(&self) -> impl Iterator<Item = String> {
        self.all.iter().map(FilterConfig::words)
    }

    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(kind: FilterKind) -> FilterConfig {
        FilterConfig { kind, min: Some(1.0), ..FilterConfig::default() }
    }

    #[test]
    fn a_filter_that_cannot_work_is_named_with_its_key() {
        let number = FilterConfig { field: "json".into(), ..filter(FilterKind::Number) };
        for good in [
            filter(FilterKind::Width),
            number.clone(),
            FilterConfig { path: "/a/0".into(), ..number.clone() },
            FilterConfig { field: "txt".into(), ..FilterConfig::default() },
            FilterConfig { min: None, max: Some(f64::INFINITY), ..filter(FilterKind::Aspect) },
        ] {
            assert!(good.validate().is_ok(), "{good:?}");
        }
        for (key, bad) in [
            ("filter.field", filter(FilterKind::Number)),
            ("filter.field", FilterConfig { field: "a||b".into(), ..filter(FilterKind::Bytes) }),
            ("filter.path", FilterConfig { path: "/a".into(), ..filter(FilterKind::Bytes) }),
            ("filter.path", FilterConfig { path: "a".into(), ..number.clone() }),
            ("filter.kind", FilterConfig { min: None, ..filter(FilterKind::Width) }),
            ("filter.min", FilterConfig { max: Some(0.5), ..filter(FilterKind::Width) }),
            ("filter.min", FilterConfig { min: Some(f64::NAN), ..filter(FilterKind::Width) }),
            ("filter.min", FilterConfig { min: Some(EXACT_BELOW), ..number.clone() }),
            ("filter.max", FilterConfig { max: Some(1e300), ..number.clone() }),
            ("filter.min", filter(FilterKind::Present)),
            ("filter.max", FilterConfig { max: Some(1.0), ..FilterConfig::default() }),
            ("filter.field", FilterConfig { field: "a | b".into(), ..filter(FilterKind::Bytes) }),
            ("filter.path", FilterConfig { path: "/a~2".into(), ..number.clone() }),
        ] {
            let said = bad.validate().unwrap_err().sentence();
            assert!(said.contains(key), "{said}");
        }
    }

    #[test]
    fn filters_of_another_dataset_do_not_count() {
        let of =
            |dataset: &str| FilterConfig { dataset: dataset.into(), ..filter(FilterKind::Width) };
        let all = [of("a"), of("b"), of("")];
        assert_eq!(Filters::of("a", &all).unwrap().unwrap().len(), 1, "twice the same");
        assert_eq!(Filters::of("c", &all).unwrap().unwrap().len(), 1);
        assert_eq!(Filters::of("c", &all[..2]).unwrap(), None);
        let digest = |dataset| Filters::of(dataset, &all[..2]).unwrap().unwrap().digest();
        assert_eq!(digest("a"), digest("b"));
        let other = [FilterConfig { min: Some(2.0), ..of("a") }];
        assert_ne!(Filters::of("a", &other).unwrap().unwrap().digest(), digest("a"));
    }
}
