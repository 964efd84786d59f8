//! Which fields of a sample are its image and its label, and what can be wrong with a sample.

use bytes::Bytes;
use headwater_core::pluralize;
use headwater_proto::augment::MessageError;
use headwater_proto::storage::{BadBytes, EncodedSample, Field, FieldSelection};

use crate::error::BadImage;

/// Maximum bytes of a label that an error message shows.
const LABEL_SHOWN_BYTES: usize = 32;

/// The fields that a job reads.
#[derive(Clone, Debug)]
pub struct SampleFields {
    names: Vec<String>,
    selection: FieldSelection,
    image: Vec<String>,
    label: Vec<String>,
    /// Names of each extra field.
    extra_fields: Vec<Vec<String>>,
}

/// Why a sample cannot be in a batch. The same for everyone who tries: no clock, no machine and
/// no other sample has a part in it. What it is made of are verdicts too, so that no error of a system
/// can become one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SampleFault {
    /// It has none of the fields that may hold an image.
    #[error("no field `{wanted}`")]
    NoImage {
        /// The names, `|` between alternatives.
        wanted: String,
    },
    /// Its label is no number.
    #[error(
        "label `{text}` is not a whole number of 64 bits: write class numbers, as `headwater datasets \
         pack` does, or set receiver.label_field to another field, or to \"\" for no labels"
    )]
    Label {
        /// What stands there, or how much.
        text: String,
    },
    /// Its image cannot be decoded.
    #[error(transparent)]
    Image(BadImage),
    /// Its bytes cannot be sent by anybody.
    #[error(transparent)]
    Unreadable(BadBytes),
}

// === impl SampleFields ===

impl SampleFields {
    /// Names of the fields, `|` between alternatives; an empty `label` means no labels.
    ///
    /// # Errors
    /// An alternative is empty.
    pub fn parse(image: &str, label: &str) -> Result<Self, MessageError> {
        let names: Vec<&str> = [image, label].into_iter().filter(|n| !n.is_empty()).collect();
        Ok(Self {
            selection: FieldSelection::parse(&names)?,
            names: names.into_iter().map(str::to_owned).collect(),
            image: alternatives(image),
            label: if label.is_empty() { Vec::new() } else { alternatives(label) },
            extra_fields: Vec::new(),
        })
    }

    /// The same, with the fields that a recipe reads beside image and label, see
    /// [`Recipe::extra_fields`](headwater_core::Recipe::extra_fields).
    ///
    /// # Errors
    /// An alternative is empty, or there are too many.
    pub fn with_extra_fields(self, extra_fields: &[&str]) -> Result<Self, MessageError> {
        let mut names = self.names;
        names.extend(extra_fields.iter().map(|&name| name.to_owned()));
        let selection = FieldSelection::parse(&names)?;
        let extra_fields = extra_fields.iter().map(|names| alternatives(names)).collect();
        Ok(Self { names, selection, extra_fields, ..self })
    }

    /// What to ask the storage tier for.
    #[must_use]
    pub fn selection(&self) -> &FieldSelection {
        &self.selection
    }

    /// The image's file.
    ///
    /// # Errors
    /// The sample has none, or is bad.
    pub fn image(&self, sample: &EncodedSample) -> Result<Bytes, SampleFault> {
        Ok(self.image_field(sample)?.data.clone())
    }

    /// The field of the image, with what is known of the file beside its bytes.
    ///
    /// # Errors
    /// As [`SampleFields::image`].
    pub fn image_field<'a>(&self, sample: &'a EncodedSample) -> Result<&'a Field, SampleFault> {
        if let Err(verdict) = &sample.fields {
            return Err(SampleFault::Unreadable(verdict.clone()));
        }
        let missing = || SampleFault::NoImage { wanted: self.image.join("|") };
        first(sample, &self.image).ok_or_else(missing)
    }

    /// The bytes of each extra field, in the order in which they were given; `None` where the sample does
    /// not have one.
    #[must_use]
    pub fn extra_fields(&self, sample: &EncodedSample) -> Vec<Option<Bytes>> {
        let bytes = |names: &Vec<String>| first(sample, names).map(|field| field.data.clone());
        self.extra_fields.iter().map(bytes).collect()
    }

    /// The class index: ASCII digits, perhaps with space around; -1 where there is no label.
    ///
    /// # Errors
    /// Something else stands there.
    pub fn label(&self, sample: &EncodedSample) -> Result<i64, SampleFault> {
        let Some(Field { data: bytes, .. }) = first(sample, &self.label) else { return Ok(-1) };
        let text = std::str::from_utf8(bytes.trim_ascii()).ok();
        text.and_then(|text| text.parse().ok())
            .ok_or_else(|| SampleFault::Label { text: shown(bytes) })
    }
}

/// A short word as text; otherwise only its size, because the bytes may be private.
pub(crate) fn shown(bytes: &[u8]) -> String {
    let word = std::str::from_utf8(bytes).ok().filter(|text| {
        let plain = |c: char| c.is_alphanumeric() || " _-.,".contains(c);
        text.len() <= LABEL_SHOWN_BYTES && text.trim().chars().all(plain)
    });
    word.map_or_else(|| pluralize(bytes.len(), "byte"), |word| word.trim().to_owned())
}

fn alternatives(names: &str) -> Vec<String> {
    names.split('|').map(str::to_owned).collect()
}

fn first<'a>(sample: &'a EncodedSample, names: &[String]) -> Option<&'a Field> {
    names.iter().find_map(|name| sample.find(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(fields: &[(&str, &'static [u8])]) -> EncodedSample {
        let fields = fields.iter().map(|(name, data)| Field::new(*name, *data)).collect();
        EncodedSample { index: 0, key: "k".into(), fields: Ok(fields) }
    }

    #[test]
    fn a_verdict_of_the_storage_tier_is_the_samples_fault() {
        let fields = SampleFields::parse("jpg", "cls").unwrap();
        let verdict = BadBytes::verdict("too long");
        let bad = EncodedSample { fields: Err(verdict.clone()), ..sample(&[]) };
        assert_eq!(fields.image(&bad), Err(SampleFault::Unreadable(verdict)));
    }

    #[test]
    fn the_first_alternative_that_is_there_is_the_image() {
        let fields = SampleFields::parse("jpg|png", "cls").unwrap();
        assert_eq!(fields.image(&sample(&[("png", b"p"), ("jpg", b"j")])).unwrap(), b"j"[..]);
        assert_eq!(fields.image(&sample(&[("cls", b"1"), ("PNG", b"p")])).unwrap(), b"p"[..]);
        let entries = Bytes::from_static(b"entries");
        let known = Field { entries: entries.clone(), ..Field::new("png", &b"p"[..]) };
        let known = EncodedSample { fields: Ok(vec![known]), ..sample(&[]) };
        assert_eq!(fields.image_field(&known).unwrap().entries, entries);
        let error = fields.image(&sample(&[("cls", b"1")])).unwrap_err().to_string();
        assert_eq!(error, "no field `jpg|png`");
        assert!(SampleFields::parse("jpg||png", "").is_err());
    }

    #[test]
    fn a_label_is_a_number_or_absent_and_nothing_else() {
        let fields = SampleFields::parse("jpg", "cls").unwrap();
        let label = |bytes| fields.label(&sample(&[("cls", bytes)]));
        assert_eq!(label(b"17").unwrap(), 17);
        assert_eq!(label(b" -9223372036854775808\r\n").unwrap(), i64::MIN);
        for bad in [&b""[..], b"1.0", b"9223372036854775808", b"cat", b"\xff", b"1 2"] {
            assert!(matches!(label(bad), Err(SampleFault::Label { .. })), "{bad:?}");
        }
        assert_eq!(
            label(b"tabby cat").unwrap_err().to_string(),
            "label `tabby cat` is not a whole number of 64 bits: write class numbers, as `headwater \
             datasets pack` does, or set receiver.label_field to another field, or to \"\" for no \
             labels"
        );
        for foreign in
            [&b"ca\"t\xff"[..], b"root:$6$secret", b"a word of more than thirty-two bytes"]
        {
            let said = label(foreign).unwrap_err().to_string();
            assert!(said.starts_with(&format!("label `{} bytes` is", foreign.len())), "{said}");
        }
        assert_eq!(fields.label(&sample(&[("jpg", b"1")])).unwrap(), -1);
        let none = SampleFields::parse("jpg", "").unwrap();
        assert_eq!(none.label(&sample(&[("cls", b"cat")])).unwrap(), -1);
    }
}
