use headwater_simd::{Simd, Vbmi2};

use super::*;
use crate::entropy::tests::Placed;
use crate::entropy::{Block, End, Plain, Segment};
use crate::header::Frame;
use crate::samples::{Sample, made_for_lanes};
use crate::stream::Stream;

fn proof() -> Option<Vbmi2> {
    let Simd::Avx512(proof) = Simd::best() else { return None };
    proof.vbmi2()
}

/// What single bits give: the blocks, and the predictors after them.
fn plain(frame: &Frame, stream: &Stream) -> Result<Vec<Block>, Declined> {
    let mut placed = Placed::new(frame);
    let mcus = frame.mcus_across() * frame.mcus_down();
    let end = End::Padded { bit: stream.bits() };
    let all = Segment { bit: 0, mcu: 0, mcus, predictors: [0; 3], end };
    Plain::new(frame, stream.padded(), stream.bits()).decode(&all, &mut placed)?;
    Ok(placed.blocks)
}

/// The blocks that lanes give, the place that they come to, and whether a guess came true.
fn found(
    (lanes, proof): (&mut Lanes, Vbmi2),
    frame: &Frame,
    stream: &mut Stream,
) -> Result<(Vec<Block>, Place, bool), Declined> {
    let mut placed = Placed::new(frame);
    let to = frame.mcus_across() * frame.mcus_down();
    let bits = stream.bits();
    let end = End::Padded { bit: bits };
    let mut known = Known::start(None);
    let scan = Scan { frame, bits, to, end };
    lanes.fall_into_step(proof, &scan, stream.words(), &mut known, &mut placed)?;
    let place = known.place();
    if place.mcu == to {
        end.check(place.bit, &place.predictors)?;
    }
    placed.blocks.truncate(place.mcu as usize * frame.mcu_blocks());
    Ok((placed.blocks, place, known.is_in_step))
}

#[test]
fn guesses_fall_into_step_and_give_what_single_bits_give() {
    let Some(proof) = proof() else { return };
    let mut lanes = Lanes::default();
    let mut whole = 0;
    let samples = made_for_lanes();
    let count = samples.len();
    for Sample { name, file } in samples {
        let frame = Frame::read(&file).unwrap();
        let mut stream = Stream::default();
        stream.fill(Simd::Plain, &file[frame.scan..], frame.restarts()).unwrap();
        let expected = plain(&frame, &stream).unwrap();
        let (blocks, _, is_in_step) = found((&mut lanes, proof), &frame, &mut stream).unwrap();
        // Blocks that are all full have no end by which a guess could find a place in them.
        assert!(is_in_step || name.contains("quality 100"), "{name} is not in step");
        assert!(blocks == expected[..blocks.len()], "{name}");
        whole += usize::from(blocks.len() == expected.len());
        assert!(lanes.blocks.first(LANES_MAX * ROOM).iter().all(|value| *value == 0), "{name}");
    }
    assert!(4 * whole > 3 * count, "{whole} of {count} to the end");
}

#[test]
fn what_is_damaged_is_not_decoded_or_as_single_bits_say() {
    let Some(proof) = proof() else { return };
    let mut lanes = Lanes::default();
    let (mut same, mut bad) = (0, 0);
    for Sample { name, file } in made_for_lanes().into_iter().step_by(5) {
        let frame = Frame::read(&file).unwrap();
        let all = (frame.mcus_across() * frame.mcus_down()) as usize * frame.mcu_blocks();
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
                let found = found((&mut lanes, proof), &frame, &mut stream);
                if let Ok((blocks, ..)) = found
                    && blocks.len() == all
                {
                    assert!(Ok(blocks) == expected, "{name} damaged at {at}");
                    same += 1;
                }
            }
        }
    }
    assert!(same > 10 && bad > 10, "{same} the same, {bad} bad");
}

#[test]
fn lanes_meet_where_both_begin_an_mcu_once_the_first_one_is_right() {
    let next = [100, 130, 160, 200];
    assert_eq!(meet(&[0, 40, 80, 120, 160], 0, &next), Some((4, 2)));
    assert_eq!(meet(&[0, 40, 100, 140, 160], 0, &next), Some((2, 0)));
    assert_eq!(meet(&[0, 40, 100, 140, 160], 3, &next), Some((4, 2)), "garbage may meet garbage");
    assert_eq!(meet(&[0, 40, 80, 120, 170], 0, &next), None);
    assert_eq!(meet(&[0, 40, 80], 0, &[]), None);
}

/// An image's frame, and lanes with its tables.
fn prepared() -> (Frame, Lanes) {
    let Sample { file, .. } = made_for_lanes().swap_remove(0);
    let (frame, mut lanes) = (Frame::read(&file).unwrap(), Lanes::default());
    lanes.prepare(&frame);
    (frame, lanes)
}

/// A first word that ends with the AC symbol and `more` bits of zeros, zeros after it, and where the symbol begins.
fn words_with(frame: &Frame, symbol: u8, more: u32) -> (Vec<u32>, u32) {
    let code = frame.ac_code(&frame.components()[0]);
    let found = |bits: u64| code.find(bits << 48).filter(|found| found.symbol == symbol);
    let (bits, len) = (0..1 << 16).find_map(|bits| Some((bits, found(bits)?.bits))).unwrap();
    let begins = 32 - len - more;
    let mut words = vec![(bits as u32) << 16 >> begins];
    words.resize(64, 0);
    (words, begins)
}

/// Garbage may be followed by the block that two lanes meet at, and must leave nothing in it.
#[test]
fn what_goes_beyond_a_block_is_not_written() {
    let Some(proof) = proof() else { return };
    let (frame, lanes) = prepared();
    // A run of ten zeros and then a value of one bit. The lane stops with the first word.
    let (words, begins) = words_with(&frame, 0xa1, 1);
    let run = Run::new(&frame, (&words, 64), &[]);
    for (at, is_beyond) in [(40, false), (60, true)] {
        for alone in [false, true] {
            let mut blocks = vec![0; LANES_MAX * ROOM];
            let mut state = State::default();
            (state.bit[0], state.at[0], state.end[0]) = (begins, at, END as u32);
            (state.table[0], state.limit[0], state.active) = (run.phases.ac[0], 32, 1);
            if alone {
                let memory = (&mut blocks[..], &lanes.tables[..]);
                run.alone((&mut state, 0), memory, &mut vec![0], (32, 9), &[]);
            } else {
                let mut log = Log::default();
                log.clear();
                let (phases, code) = (&run.phases, (&words[..], &lanes.tables[..]));
                avx512::run_freely(proof, 1, &mut state, phases, code, &mut blocks, &mut log);
            }
            assert_eq!(state.bit[0], 32);
            assert_eq!(state.doubt[0], if is_beyond { at } else { 0 }, "{alone}");
            let written = blocks.iter().position(|value| *value != 0);
            assert_eq!(written, (!is_beyond).then_some(at as usize + 10), "{alone}");
            assert_eq!(state.at[0], if is_beyond { 64 } else { at + 11 }, "{alone}");
        }
    }
}

/// A scatter writes two coefficients: what follows the last block of a room is not the next lane's.
#[test]
fn a_full_room_leaves_the_next_one_as_it_is() {
    let Some(proof) = proof() else { return };
    let (frame, lanes) = prepared();
    // The end of a block, which puts a zero on its last place if it has one coefficient.
    let (words, begins) = words_with(&frame, 0, 0);
    let run = Run::new(&frame, (&words, 64), &[]);
    for lane in [0, LANES_MAX - 1] {
        let mut blocks = vec![5; LANES_MAX * ROOM];
        let mut state = State::default();
        let end = lane * ROOM + END;
        (state.bit[0], state.at[0], state.end[0]) = (begins, end as u32 - 63, end as u32);
        (state.table[0], state.limit[0], state.active) = (run.phases.ac[0], 32, 1);
        let mut log = Log::default();
        log.clear();
        let (phases, code) = (&run.phases, (&words[..], &lanes.tables[..]));
        avx512::run_freely(proof, 1, &mut state, phases, code, &mut blocks, &mut log);
        assert_eq!(state.at[0] as usize, end);
        assert_eq!(blocks[end - 1], 0);
        let next = (lane + 1) * ROOM;
        assert!(blocks[next..].iter().all(|value| *value == 5), "lane {lane}");
    }
}
