//! The loop with shifts by any register (BMI2), which the least of 64-bit x86 lacks.
#![allow(unsafe_code)]

use headwater_simd::Avx2;

use super::step::{Layout, Stopped, Stream};
use super::{Rooms, STREAMS_MAX, step};

/// As [`step::run`].
pub(super) fn run(
    _proof: Avx2,
    live: usize,
    streams: &mut [Stream; STREAMS_MAX],
    layout: &Layout<'_>,
    rooms: &mut Rooms,
) -> (usize, Stopped) {
    // SAFETY: the proof exists only where the processor has these sets.
    unsafe { run_bmi2(live, streams, layout, rooms) }
}

#[target_feature(enable = "bmi1,bmi2,lzcnt")]
fn run_bmi2(
    live: usize,
    streams: &mut [Stream; STREAMS_MAX],
    layout: &Layout<'_>,
    rooms: &mut Rooms,
) -> (usize, Stopped) {
    step::run(live, streams, layout, rooms)
}
