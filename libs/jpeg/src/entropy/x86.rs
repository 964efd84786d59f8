//! One stream with shifts by any register (BMI2), which the least of 64-bit x86 lacks.
#![allow(unsafe_code)]

use headwater_simd::Avx2;

use crate::declined::Declined;
use crate::entropy::one::Job;
use crate::entropy::{One, Sink};

/// As [`One::decode_scalar`].
pub(super) fn decode(
    _proof: Avx2,
    one: &mut One,
    job: Job<'_>,
    sink: &mut dyn Sink,
) -> Result<(), Declined> {
    // SAFETY: the proof exists only where the processor has these sets.
    unsafe { decode_bmi2(one, job, sink) }
}

#[target_feature(enable = "bmi1,bmi2,lzcnt")]
fn decode_bmi2(one: &mut One, job: Job<'_>, sink: &mut dyn Sink) -> Result<(), Declined> {
    one.decode_scalar(job, sink)
}
