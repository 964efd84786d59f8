use headwater_simd::Simd;

use super::*;
use crate::samples::{Sample, samples};
use crate::stream::Stream;

/// Keeps all coefficients.
#[derive(Debug, Default, PartialEq)]
struct Kept {
    mcus: Vec<u32>,
    blocks: Vec<Block>,
}

impl Sink for Kept {
    fn take(&mut self, mcu: u32, blocks: &mut [Block]) -> Result<(), Declined> {
        self.mcus.push(mcu);
        self.blocks.extend_from_slice(blocks);
        blocks.fill([0; 64]);
        Ok(())
    }
}

fn whole(frame: &Frame, bits: u32) -> Segment {
    let mcus = frame.mcus_across() * frame.mcus_down();
    Segment { bit: 0, mcu: 0, mcus, predictors: [0; 3], end: End::Padded { bit: bits } }
}

fn stream(sample: &Sample, frame: &Frame) -> Stream {
    let mut stream = Stream::default();
    stream.fill(Simd::Plain, &sample.file[frame.scan..], frame.restarts()).unwrap();
    stream
}

fn plain(frame: &Frame, stream: &Stream, segment: &Segment) -> Result<Kept, Declined> {
    let mut kept = Kept::default();
    Plain::new(frame, stream.padded(), stream.bits()).decode(segment, &mut kept)?;
    Ok(kept)
}

fn one(one: &mut One, frame: &Frame, stream: &Stream, segment: &Segment) -> Result<Kept, Declined> {
    let mut kept = Kept::default();
    let mut lookups = Lookups::new();
    lookups.prepare(frame);
    let (bytes, bits, lookups) = (stream.padded(), stream.bits(), &lookups);
    let job = Job { frame, lookups, bytes, bits, segment, places: None };
    one.decode(Simd::best(), job, &mut kept)?;
    Ok(kept)
}

#[test]
fn one_stream_with_lookups_gives_what_single_bits_give() {
    for sample in samples() {
        let frame = Frame::read(&sample.file).unwrap();
        let stream = stream(&sample, &frame);
        let segment = whole(&frame, stream.bits());
        let expected = plain(&frame, &stream, &segment).unwrap();
        assert!(expected.blocks.iter().any(|block| block[1..] != [0; 63]));
        let found = one(&mut One::default(), &frame, &stream, &segment).unwrap();
        assert!(found.blocks == expected.blocks, "{}", sample.name);
    }
}

#[test]
fn damage_is_found_by_both_or_gives_both_the_same() {
    let mut doubts = 0;
    // An image that was given up leaves nothing behind.
    let mut reused = One::default();
    for sample in samples() {
        let frame = Frame::read(&sample.file).unwrap();
        for at in (frame.scan..sample.file.len() - 2).step_by(97) {
            let mut damaged = sample.file.clone();
            damaged[at] ^= 1 << (at % 8);
            let mut stream = Stream::default();
            if stream.fill(Simd::Plain, &damaged[frame.scan..], frame.restarts()).is_err() {
                continue;
            }
            let segment = whole(&frame, stream.bits());
            let expected = plain(&frame, &stream, &segment).map(|kept| kept.blocks);
            let found = one(&mut reused, &frame, &stream, &segment).map(|kept| kept.blocks);
            assert!(found == expected, "{} damaged at {at}", sample.name);
            doubts += usize::from(found.is_err());
        }
    }
    assert!(doubts > 100, "{doubts}");
}

/// Puts MCUs where they belong.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Placed {
    pub(super) blocks: Vec<Block>,
    mcu_blocks: usize,
}

impl Placed {
    pub(super) fn new(frame: &Frame) -> Self {
        let mcu_blocks = frame.mcu_blocks();
        let mcus = frame.mcus_across() * frame.mcus_down();
        Self { blocks: vec![[1; 64]; mcus as usize * mcu_blocks], mcu_blocks }
    }
}

impl Sink for Placed {
    fn take(&mut self, mcu: u32, blocks: &mut [Block]) -> Result<(), Declined> {
        let at = mcu as usize * self.mcu_blocks;
        self.blocks[at..at + blocks.len()].copy_from_slice(blocks);
        blocks.fill([0; 64]);
        Ok(())
    }
}

/// The segments that `count` lanes have, from a decode by one stream.
fn segments(frame: &Frame, stream: &Stream, count: usize) -> Vec<Segment> {
    let (mut one, mut places) = (One::default(), Vec::new());
    let mut lookups = Lookups::new();
    lookups.prepare(frame);
    let all = whole(frame, stream.bits());
    let (bytes, bits, lookups) = (stream.padded(), stream.bits(), &lookups);
    let job = Job { frame, lookups, bytes, bits, segment: &all, places: Some((&mut places, 1)) };
    one.decode(Simd::Plain, job, &mut Kept::default()).unwrap();
    let mut chosen: Vec<_> = (0..count).map(|n| places[n * places.len() / count]).collect();
    chosen.dedup();
    let starts = chosen.iter();
    let ends = chosen[1..].iter().map(Some).chain([None]);
    let segment = |(place, next): (&Place, Option<&Place>)| Segment {
        bit: place.bit,
        mcu: place.mcu,
        mcus: next.map_or(all.mcus, |next| next.mcu) - place.mcu,
        predictors: place.predictors,
        end: next.map_or(all.end, |next| End::At { bit: next.bit, predictors: next.predictors }),
    };
    starts.zip(ends).map(segment).collect()
}

#[cfg(target_arch = "x86_64")]
#[test]
fn lanes_give_what_single_bits_give() {
    let Simd::Avx512(proof) = Simd::best() else { return };
    let Some(proof) = proof.vbmi2() else { return };
    let mut lanes = Lanes::default();
    for sample in samples() {
        let frame = Frame::read(&sample.file).unwrap();
        let mut stream = stream(&sample, &frame);
        let expected = plain(&frame, &stream, &whole(&frame, stream.bits())).unwrap();
        for count in [1, 2, 7, 16, 17, 32, 33, 40] {
            let segments = segments(&frame, &stream, count);
            let bits = stream.bits();
            let blocks = vec![[1; 64]; expected.blocks.len()];
            let mut found = Placed { blocks, mcu_blocks: frame.mcu_blocks() };
            lanes.decode(proof, &frame, (stream.words(), bits), &segments, &mut found).unwrap();
            assert!(found.blocks == expected.blocks, "{} in {count}", sample.name);
        }
    }
}

fn interleaved(
    interleaved: &mut Interleaved,
    (simd, streams): (Simd, usize),
    (frame, stream): (&Frame, &Stream),
    segments: &[Segment],
    blocks: usize,
) -> Result<Vec<Block>, Declined> {
    let mut found = Placed { blocks: vec![[1; 64]; blocks], mcu_blocks: frame.mcu_blocks() };
    let mut lookups = Lookups::new();
    lookups.prepare(frame);
    let from = (stream.padded(), stream.bits());
    interleaved.decode((simd, streams), (frame, &lookups), from, segments, &mut found)?;
    Ok(found.blocks)
}

/// What segments one after the other give.
fn one_by_one(
    frame: &Frame,
    stream: &Stream,
    segments: &[Segment],
    blocks: usize,
) -> Result<Vec<Block>, Declined> {
    let mut found = Placed { blocks: vec![[1; 64]; blocks], mcu_blocks: frame.mcu_blocks() };
    let plain = Plain::new(frame, stream.padded(), stream.bits());
    segments.iter().try_for_each(|segment| plain.decode(segment, &mut found))?;
    Ok(found.blocks)
}

/// Instructions and numbers of streams.
fn interleaved_ways() -> impl Iterator<Item = (Simd, usize)> {
    Simd::available().iter().flat_map(|simd| (1..=STREAMS_MAX).map(|streams| (*simd, streams)))
}

#[test]
fn interleaved_streams_give_what_single_bits_give() {
    let mut reused = Interleaved::new();
    for sample in samples() {
        let frame = Frame::read(&sample.file).unwrap();
        let stream = stream(&sample, &frame);
        let expected = plain(&frame, &stream, &whole(&frame, stream.bits())).unwrap().blocks;
        for count in [1, 2, 3, 4, 5, 7, 32, 40] {
            let segments = segments(&frame, &stream, count);
            for way in interleaved_ways() {
                let from = (&frame, &stream);
                let found = interleaved(&mut reused, way, from, &segments, expected.len());
                assert!(found.unwrap() == expected, "{} in {count}, {way:?}", sample.name);
            }
        }
    }
}

/// The reason, too, is that of the first segment that is declined.
#[test]
fn interleaved_streams_find_the_damage_that_one_after_the_other_finds() {
    let mut reused = Interleaved::new();
    let mut doubts = std::collections::HashMap::new();
    for (n, sample) in samples().into_iter().enumerate() {
        let frame = Frame::read(&sample.file).unwrap();
        let whole_stream = stream(&sample, &frame);
        let segments = segments(&frame, &whole_stream, 3 + n % 7);
        let blocks = (frame.mcus_across() * frame.mcus_down()) as usize * frame.mcu_blocks();
        let mut check = |stream: &Stream, segments: &[Segment], what: &str| {
            let expected = one_by_one(&frame, stream, segments, blocks);
            for way in interleaved_ways() {
                let found = interleaved(&mut reused, way, (&frame, stream), segments, blocks);
                assert!(found == expected, "{}, {what}, {way:?}", sample.name);
            }
            *doubts.entry(expected.err()).or_insert(0) += 1;
        };
        for at in (frame.scan..sample.file.len() - 2).step_by(601) {
            let mut damaged = sample.file.clone();
            damaged[at] ^= 1 << (at % 8);
            let mut stream = Stream::default();
            if stream.fill(Simd::Plain, &damaged[frame.scan..], frame.restarts()).is_ok() {
                check(&stream, &segments, &format!("damaged at {at}"));
            }
        }
        for wrong in 1..segments.len() {
            let mut moved = segments.clone();
            moved[wrong].bit += 1;
            check(&whole_stream, &moved, &format!("segment {wrong} begins later"));
            moved[wrong - 1].end =
                End::At { bit: moved[wrong].bit, predictors: moved[wrong].predictors };
            check(&whole_stream, &moved, &format!("entry {wrong} is one later"));
            let mut other = segments.clone();
            other[wrong].predictors[0] += 1;
            check(&whole_stream, &other, &format!("segment {wrong} has other predictors"));
        }
    }
    for doubt in [Declined::Damage, Declined::Entry] {
        assert!(doubts.get(&Some(doubt)).is_some_and(|count| *count > 50), "{doubts:?}");
    }
    assert!(doubts.contains_key(&None), "{doubts:?}");
}
