//! Values of a sample, held against the filters of its dataset.

use std::collections::HashMap;

use headwater_core::draw::Extent;
use headwater_core::recipe::DecodeLimits;
use headwater_render::decode::{DecodeFailure, Decoder};
use serde_json::Value as Json;

use super::{FilterConfig, FilterKind, Filters, LeftOutCounts};
use crate::StorageError;

/// Bytes of an image that nearly always have its size.
const HEADER_BYTES: u64 = 16 << 10;
/// A number or a document larger than this is none.
const VALUE_BYTES_MAX: u64 = 4 << 20;
/// Begins documents of some editors, and is no part of them.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// What filters ask of a field. Several filters may ask the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Asked {
    /// Its size in bytes.
    Bytes,
    /// The size of the image in it.
    Extent,
    /// The number that it is.
    Number,
    /// The document that it is.
    Document,
}

/// What a field of a sample answers.
#[derive(Debug)]
pub(super) enum Answer {
    Bytes(u64),
    /// None of an image whose header cannot be read.
    Extent(Option<Extent>),
    Number(Option<f64>),
    Document(Option<Json>),
}

/// A question to a sample: alternative names of a field, and what is asked of it.
pub(super) type Question<'a> = (&'a str, Asked);

/// Judges samples of one shard, one after the other.
pub(super) struct Judge<'a> {
    filters: &'a Filters,
    /// Each question once.
    pub(super) questions: Vec<Question<'a>>,
    /// The question of each filter.
    asks: Vec<usize>,
    decoder: Decoder,
    verdict: Verdict,
}

/// What came of it.
#[derive(Debug)]
pub(super) struct Verdict {
    /// Which samples stay.
    pub(super) stays: Vec<bool>,
    /// How many each filter has left out.
    pub(super) left_out: LeftOutCounts,
}

// === impl FilterKind ===

impl FilterConfig {
    fn question(&self) -> Question<'_> {
        let asked = match self.kind {
            FilterKind::Present | FilterKind::Bytes => Asked::Bytes,
            FilterKind::Number if self.path.is_empty() => Asked::Number,
            FilterKind::Number => Asked::Document,
            FilterKind::Width | FilterKind::Height | FilterKind::Pixels | FilterKind::Aspect => {
                Asked::Extent
            }
        };
        (self.field(), asked)
    }

    /// Whether a sample with this answer stays. One without such a value does not.
    fn is_met(&self, answer: &Answer) -> bool {
        let side = |side: fn(Extent) -> f64| match answer {
            Answer::Extent(extent) => extent.map(side),
            _ => None,
        };
        let value = match self.kind {
            FilterKind::Present => return true,
            FilterKind::Width => side(|extent| extent.width.into()),
            FilterKind::Height => side(|extent| extent.height.into()),
            FilterKind::Pixels => side(|extent| f64::from(extent.width) * f64::from(extent.height)),
            FilterKind::Aspect => side(|extent| f64::from(extent.width) / f64::from(extent.height)),
            FilterKind::Bytes | FilterKind::Number => match answer {
                Answer::Bytes(bytes) => Some(*bytes as f64),
                Answer::Number(number) => *number,
                Answer::Document(document) => {
                    document.as_ref().and_then(|document| document.pointer(&self.path)?.as_f64())
                }
                Answer::Extent(_) => None,
            },
        };
        let (min, max) = self.range();
        value.is_some_and(|value| min <= value && value <= max)
    }
}

// === impl Asked ===

impl Asked {
    /// How many of a field's bytes have the answer, nearly always.
    pub(super) fn wants(self, bytes: u64) -> u64 {
        match self {
            Self::Bytes => 0,
            Self::Extent => bytes.min(HEADER_BYTES),
            Self::Number | Self::Document if bytes > VALUE_BYTES_MAX => 0,
            Self::Number | Self::Document => bytes,
        }
    }
}

// === impl Judge ===

impl<'a> Judge<'a> {
    /// # Errors
    /// There is no memory for a decoder.
    pub(super) fn new(filters: &'a Filters) -> Result<Self, StorageError> {
        // Headers take no memory: what may be decoded is for the recipe to say.
        let limits =
            DecodeLimits { pixels_max: DecodeLimits::PIXELS_LIMIT, ..DecodeLimits::default() };
        let decoder = Decoder::new(limits).map_err(|failure| no_answer(&failure))?;
        let (mut questions, mut numbers) = (Vec::new(), HashMap::new());
        let number_of = |filter: &'a FilterConfig| {
            let question = filter.question();
            *numbers.entry(question).or_insert_with(|| {
                questions.push(question);
                questions.len() - 1
            })
        };
        let asks = filters.all.iter().map(number_of).collect();
        let verdict = Verdict { stays: Vec::new(), left_out: vec![0; filters.len()] };
        Ok(Self { filters, questions, asks, decoder, verdict })
    }

    /// What a field of that size in `bytes` answers, if `read` is its first bytes: at least as many as [`Asked::wants`].
    /// `None` if the whole field is needed, and `read` is not the whole.
    ///
    /// # Errors
    /// There is no memory.
    pub(super) fn answer(
        &mut self,
        asked: Asked,
        bytes: u64,
        read: &[u8],
    ) -> Result<Option<Answer>, StorageError> {
        let is_value = bytes <= VALUE_BYTES_MAX;
        Ok(Some(match asked {
            Asked::Bytes => Answer::Bytes(bytes),
            Asked::Number => Answer::Number(is_value.then(|| number_in(read)).flatten()),
            Asked::Document => Answer::Document(is_value.then(|| document_in(read)).flatten()),
            Asked::Extent => match self.decoder.header_of_part(read, bytes) {
                Ok(extent) => Answer::Extent(Some(extent)),
                Err(DecodeFailure::Bytes(_)) if (read.len() as u64) < bytes => return Ok(None),
                Err(DecodeFailure::Bytes(_)) => Answer::Extent(None),
                Err(failure) => return Err(no_answer(&failure)),
            },
        }))
    }

    /// Takes the next sample by its answers to all questions; none where it does not have the field.
    pub(super) fn take(&mut self, answers: &[Option<Answer>]) {
        let answer_to = |filter: usize| answers[self.asks[filter]].as_ref();
        let is_met = |number: usize, filter: &FilterConfig| {
            answer_to(number).is_some_and(|answer| filter.is_met(answer))
        };
        let mut filters = self.filters.all.iter().enumerate();
        let fails = filters.find(|(number, filter)| !is_met(*number, filter));
        if let Some((number, _)) = fails {
            self.verdict.left_out[number] += 1;
        }
        self.verdict.stays.push(fails.is_none());
    }

    pub(super) fn verdict(self) -> Verdict {
        self.verdict
    }
}

fn no_answer(failure: &DecodeFailure) -> StorageError {
    StorageError::NotJudged { reason: failure.to_string() }
}

/// ASCII with space around.
fn number_in(bytes: &[u8]) -> Option<f64> {
    std::str::from_utf8(bytes.trim_ascii()).ok()?.parse().ok()
}

fn document_in(bytes: &[u8]) -> Option<Json> {
    serde_json::from_slice(bytes.strip_prefix(BYTE_ORDER_MARK).unwrap_or(bytes)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_from_text_and_from_documents() {
        for (bytes, value) in
            [(" 7\n", Some(7.0)), ("-0.25", Some(-0.25)), ("7 8", None), ("", None)]
        {
            assert_eq!(number_in(bytes.as_bytes()), value, "{bytes}");
        }
        assert!(number_in(b"nan").unwrap().is_nan(), "no range holds it");
        for (bytes, path, value) in [
            ("{\"a\": {\"b\": [1, 2.5]}}", "/a/b/1", Some(2.5)),
            ("{\"a\": \"2\"}", "/a", None),
            ("{\"a\": 2}", "/b", None),
            ("{\"a\": NaN}", "/a", None),
            ("[3]", "/0", Some(3.0)),
            ("\u{feff}[3]", "/0", Some(3.0)),
        ] {
            let document = document_in(bytes.as_bytes());
            let found = document.and_then(|document| document.pointer(path)?.as_f64());
            assert_eq!(found, value, "{bytes} {path}");
        }
    }
}
