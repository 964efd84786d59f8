use headwater_simd::{Simd, Vbmi2};

use super::*;
use crate::declined::Declined;
use crate::entropy::tests::Placed;
use crate::entropy::{Block, End, Plain};
use crate::samples::{Sample, made_for_lanes};
use crate::stream::Stream;

fn proof() -> Option<Vbmi2> {
    let Simd::Avx512(proof) = Simd::best() else { return None };
    proof.vbmi2()
}

fn plain(frame: &Frame, stream: &Stream) -> Result<Vec<Block>, Declined> {
    let mut placed = Placed::new(frame);
    let mcus = frame.mcus_across() * frame.mcus_down();
    let end = End::Padded { bit: stream.bits() };
    let all = Segment { bit: 0, mcu: 0, mcus, predictors: [0; 3], end };
    Plain::new(frame, stream.padded(), stream.bits()).decode(&all, &mut placed)?;
    Ok(placed.blocks)
}

/// The blocks and the entries of an image that is decoded as a whole.
fn found(
    (speculator, lanes, proof): (&mut Speculator, &mut Lanes, Vbmi2),
    frame: &Frame,
    stream: &mut Stream,
) -> Option<(Vec<Block>, Vec<Entry>)> {
    let mut placed = Placed::new(frame);
    let mcus = frame.mcus_across() * frame.mcus_down();
    let bits = stream.bits();
    let words = (stream.words(), bits);
    let entries = speculator.decode(proof, frame, words, mcus, lanes, &mut placed)?;
    Some((placed.blocks, entries.to_vec()))
}

#[test]
fn guesses_fall_into_step_and_give_what_single_bits_give() {
    let Some(proof) = proof() else { return };
    let (mut speculator, mut lanes) = (Speculator::default(), Lanes::default());
    for Sample { name, file } in made_for_lanes() {
        let frame = Frame::read(&file).unwrap();
        let mut stream = Stream::default();
        stream.fill(Simd::Plain, &file[frame.scan..], frame.restarts()).unwrap();
        let expected = plain(&frame, &stream).unwrap();
        let found = found((&mut speculator, &mut lanes, proof), &frame, &mut stream);
        let Some((blocks, entries)) = found else {
            // Blocks that are all full have no end by which a guess could find a place in them.
            assert!(name.contains("quality 100"), "{name} is not in step");
            continue;
        };
        assert!(blocks == expected, "{name}");
        assert!(entries.len() >= 24, "{name}: {}", entries.len());
    }
}

#[test]
fn what_is_damaged_is_not_decoded_or_as_single_bits_say() {
    let Some(proof) = proof() else { return };
    let (mut speculator, mut lanes) = (Speculator::default(), Lanes::default());
    let (mut same, mut bad) = (0, 0);
    for Sample { name, file } in made_for_lanes().into_iter().step_by(5) {
        let frame = Frame::read(&file).unwrap();
        for at in (frame.scan..file.len() - 2).step_by(file.len() / 40) {
            let mut flipped = file.clone();
            flipped[at] ^= 1 << (at % 8);
            let cut = [&file[..at], &[0xff, 0xd9]].concat();
            for damaged in [flipped, cut] {
                let mut stream = Stream::default();
                if stream.fill(Simd::Plain, &damaged[frame.scan..], frame.restarts()).is_err() {
                    continue;
                }
                let expected = plain(&frame, &stream);
                bad += usize::from(expected.is_err());
                let found = found((&mut speculator, &mut lanes, proof), &frame, &mut stream);
                if let Some((blocks, _)) = found {
                    assert!(Ok(blocks) == expected, "{name} damaged at {at}");
                    same += 1;
                }
            }
        }
    }
    assert!(same > 10 && bad > 10, "{same} the same, {bad} bad");
}

#[test]
fn a_lane_that_has_met_nobody_is_named() {
    let lane = |start, next, bits: &[u32]| {
        let mut lane = Lane::default();
        lane.begin(start, next);
        bits.iter().for_each(|&bit| {
            lane.push(Start { bit, mcu: 0, sums: [3, 0, -1], step: bit / 2 }, 1);
        });
        lane
    };
    let first = lane(0, 100, &[40, 80, 120, 160]);
    let late = [&first, &lane(100, 200, &[130, 170, 210])].map(|lane| lane.starts.clone());
    let lanes = [first, lane(100, 200, &[130, 160, 200])];
    let mut joints = Joints::default();
    assert_eq!(joints.join(&lanes), 0);
    let mut entries = Vec::new();
    joints.entries(&lanes, 1000, &mut entries);
    // Each MCU adds the same; the first lane has begun its fifth one at bit 160, the other one its third at 200.
    let at_bit = |bit| entries.iter().find(|entry| entry.bit == bit).copied();
    let predictors = [3, 0, -1];
    assert_eq!(at_bit(120), Some(Entry { bit: 120, mcu: 3, predictors }));
    assert_eq!(at_bit(200), Some(Entry { bit: 200, mcu: 5, predictors }));
    let [starts, others] = late;
    let lanes = [
        Lane { starts, start: 0, ..Lane::default() },
        Lane { starts: others, start: 100, ..Lane::default() },
    ];
    assert_eq!(joints.join(&lanes), 1, "the first lane");
}
