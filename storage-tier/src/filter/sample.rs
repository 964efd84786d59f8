//! Samples as filters see them: in a shard that is read in place, or as they are unpacked.

use std::ops::Range;

use headwater_core::IndexedField;
use headwater_proto::storage::SAMPLE_MAX_BYTES;
use headwater_storage_client::IndexedShard;

use super::Filters;
use super::judge::{Answer, Judge, Question, Verdict};
use crate::StorageError;
use crate::format::{Packed, SampleSink};

/// Samples whose fields are read at a time, at most.
const TOGETHER: usize = 64;
/// Bytes of them, about; a sample may have more by itself.
const TOGETHER_BYTES: u64 = 16 << 20;

/// Judges samples as they are unpacked.
struct JudgingSink<'a> {
    judge: Judge<'a>,
    sample: Option<Unpacked>,
}

/// A sample that is being unpacked, by question.
#[derive(Default)]
struct Unpacked {
    answers: Vec<Option<Answer>>,
    /// Which of its names each question has found: the first counts.
    ranks: Vec<usize>,
}

/// Judges all samples of a shard that is read in place. Blocking.
///
/// # Errors
/// Bytes that cannot be read now.
pub(super) fn judge_in_place(
    filters: &Filters,
    shard: &IndexedShard,
) -> Result<Verdict, StorageError> {
    let mut judge = Judge::new(filters)?;
    let mut group = Vec::new();
    let mut bytes = 0;
    let samples = shard.index().samples();
    for number in 0..samples {
        let fields: Vec<_> = shard.index().fields(number).collect();
        let found: Vec<_> =
            judge.questions.iter().map(|question| named(&fields, question)).collect();
        let wanted = found.iter().zip(&judge.questions);
        bytes += wanted
            .filter_map(|(field, (_, asked))| field.map(|field| asked.wants(field.bytes)))
            .sum::<u64>();
        group.push(found);
        if bytes >= TOGETHER_BYTES || group.len() == TOGETHER || number + 1 == samples {
            judge_group(&mut judge, shard, &group)?;
            (group, bytes) = (Vec::new(), 0);
        }
    }
    // After the bytes have been read: they are then those that were indexed.
    shard.object().check_unchanged()?;
    Ok(judge.verdict())
}

/// Judges samples by the fields that answer the questions, which are read together.
fn judge_group(
    judge: &mut Judge<'_>,
    shard: &IndexedShard,
    group: &[Vec<Option<IndexedField<'_>>>],
) -> Result<(), StorageError> {
    let asked: Vec<_> = judge.questions.iter().map(|(_, asked)| *asked).collect();
    let range = |(field, at): (&Option<IndexedField<'_>>, usize)| {
        let in_object = field.filter(|field| field.inline.is_none());
        in_object.map_or(0..0, |f| f.offset..f.offset + asked[at].wants(f.bytes))
    };
    let ranges: Vec<Range<u64>> =
        group.iter().flat_map(|found| found.iter().zip(0..).map(range)).collect();
    let mut read = shard.object().read_many(&ranges)?.into_iter();
    let mut answers: Vec<Vec<Option<Answer>>> = Vec::with_capacity(group.len());
    let mut larger = Vec::new();
    for (sample, found) in group.iter().enumerate() {
        let mut of_sample = Vec::with_capacity(asked.len());
        for (question, field) in found.iter().enumerate() {
            let read = read.next().unwrap_or_default();
            let Some(field) = field else {
                of_sample.push(None);
                continue;
            };
            let read = field.inline.unwrap_or(&read);
            let answer = judge.answer(asked[question], field.bytes, read)?;
            if answer.is_none() {
                larger.push((sample, question, field.offset..field.offset + field.bytes));
            }
            // What stands for a field that is too large to be sent, and so is not read.
            of_sample.push(Some(answer.unwrap_or(Answer::Extent(None))));
        }
        answers.push(of_sample);
    }
    larger.retain(|(.., range)| range.end - range.start <= SAMPLE_MAX_BYTES);
    while !larger.is_empty() {
        let mut bytes = 0;
        let is_among = |(.., range): &&(usize, usize, Range<u64>)| {
            let before = bytes;
            bytes += range.end - range.start;
            before < TOGETHER_BYTES
        };
        let count = larger.iter().take_while(is_among).count();
        let together: Vec<_> = larger.drain(..count).collect();
        let ranges: Vec<_> = together.iter().map(|(.., range)| range.clone()).collect();
        let read = shard.object().read_many(&ranges)?;
        for ((sample, question, range), read) in together.into_iter().zip(read) {
            let bytes = range.end - range.start;
            answers[sample][question] = judge.answer(asked[question], bytes, &read)?;
        }
    }
    answers.iter().for_each(|answers| judge.take(answers));
    Ok(())
}

/// The field that a question is about: the first of its names that a sample has.
fn named<'a>(fields: &[IndexedField<'a>], (field, _): &Question<'_>) -> Option<IndexedField<'a>> {
    let mut names = field.split('|');
    names.find_map(|name| fields.iter().find(|f| f.name.eq_ignore_ascii_case(name)).copied())
}

/// Judges all samples of a shard that has to be unpacked. Blocking.
///
/// # Errors
/// Bytes that cannot be unpacked.
pub(super) fn judge_packed(
    filters: &Filters,
    packed: &mut dyn Packed,
) -> Result<Verdict, StorageError> {
    let mut sink = JudgingSink { judge: Judge::new(filters)?, sample: None };
    packed.unpack(&mut sink)?;
    sink.end_sample();
    Ok(sink.judge.verdict())
}

// === impl JudgingSink ===

impl JudgingSink<'_> {
    fn end_sample(&mut self) {
        if let Some(sample) = self.sample.take() {
            self.judge.take(&sample.answers);
        }
    }
}

impl SampleSink for JudgingSink<'_> {
    fn sample(&mut self, _: &str) -> Result<(), StorageError> {
        self.end_sample();
        let questions = self.judge.questions.len();
        let answers = (0..questions).map(|_| None).collect();
        self.sample = Some(Unpacked { answers, ranks: vec![usize::MAX; questions] });
        Ok(())
    }

    fn field(&mut self, name: &str, bytes: &[u8]) -> Result<(), StorageError> {
        let Some(sample) = &mut self.sample else { return Ok(()) };
        for number in 0..self.judge.questions.len() {
            let (field, asked) = self.judge.questions[number];
            let mut names = field.split('|');
            let Some(rank) = names.position(|one| one.eq_ignore_ascii_case(name)) else { continue };
            if rank < sample.ranks[number] {
                sample.answers[number] = self.judge.answer(asked, bytes.len() as u64, bytes)?;
                sample.ranks[number] = rank;
            }
        }
        Ok(())
    }
}
