//! Which way the bits of an image are read in.

use headwater_simd::Simd;
#[cfg(target_arch = "x86_64")]
use headwater_simd::Vbmi2;

use super::{Decoder, places_apart};
use crate::choice::{Choice, Speeds};
use crate::entries::Entries;
use crate::entropy::{End, Nothing, Scan, Sink};
use crate::header::Frame;
use crate::planes::Wanted;

/// Falling into step has not come to the end: the image must be read as one stream.
pub(super) struct OutOfStep;

// === impl Decoder ===

impl Decoder {
    fn choice(&self) -> Choice {
        self.choice.unwrap_or_else(|| Speeds::of(self.simd).choice)
    }

    /// Segments that take turns, 1 where there are none.
    pub(super) fn streams(&self) -> usize {
        if self.segments.len() > 1 { self.choice().streams } else { 1 }
    }

    /// Whether there are enough segments for lanes.
    #[cfg(target_arch = "x86_64")]
    pub(super) fn lanes(&self) -> Option<Vbmi2> {
        let Simd::Avx512(proof) = self.simd else { return None };
        if self.segments.len() < 2 {
            return None;
        }
        let from = self.choice().lanes_from?;
        proof.vbmi2().filter(|_| self.segments.len() >= from)
    }

    /// Decodes the MCUs before number `to` by falling into step, to the planes of components if some of them are `wanted`,
    /// and gives the entries if they are to be recorded. All MCUs are looked at if lanes do it.
    pub(super) fn speculate(
        &mut self,
        frame: &Frame,
        wanted: Option<Wanted>,
        to: u32,
        record: bool,
    ) -> Result<Option<Entries>, OutOfStep> {
        let mcus = frame.mcus_across() * frame.mcus_down();
        let choice = self.choice();
        #[cfg(target_arch = "x86_64")]
        if to >= mcus / 2
            && choice.speculates_from.is_some_and(|from| mcus >= from)
            && let Ok(entries) = self.speculate_in_lanes(frame, wanted, to, record)
        {
            return Ok(entries);
        }
        if self.simd == Simd::Plain || choice.windows_from.is_none_or(|from| to < from) {
            return Err(OutOfStep);
        }
        self.lookups.prepare(frame);
        let Self { stream, lookups, places, planes, .. } = self;
        places.clear();
        let bits = stream.bits();
        let bit = bits;
        let end = if to == mcus { End::Padded { bit } } else { End::Open { before: bit } };
        let scan = Scan { frame, lookups, bytes: stream.padded(), bits, to, end };
        let mut painter = wanted.map(|wanted| planes.painter(self.simd, frame, wanted));
        let sink: &mut dyn Sink = match &mut painter {
            Some(painter) => painter,
            None => &mut Nothing,
        };
        let ways = (self.simd, choice.streams);
        let recorded = record.then_some((&mut *places, places_apart(mcus)));
        let symbols = self.interleaved.fall_into_step(ways, scan, recorded, sink);
        symbols
            .map(|symbols| record.then(|| Entries::choose(&self.places, symbols)))
            .map_err(|_| OutOfStep)
    }

    #[cfg(target_arch = "x86_64")]
    fn speculate_in_lanes(
        &mut self,
        frame: &Frame,
        wanted: Option<Wanted>,
        to: u32,
        record: bool,
    ) -> Result<Option<Entries>, OutOfStep> {
        let Simd::Avx512(proof) = self.simd else { return Err(OutOfStep) };
        let proof = proof.vbmi2().ok_or(OutOfStep)?;
        let bits = self.stream.bits();
        let words = (self.stream.words(), bits);
        let mut painter = wanted.map(|wanted| self.planes.painter(self.simd, frame, wanted));
        let sink: &mut dyn Sink = match &mut painter {
            Some(painter) => painter,
            None => &mut Nothing,
        };
        let found = self.speculator.decode(proof, frame, words, to, &mut self.lanes, sink);
        found.map(|entries| record.then(|| Entries::found(entries))).ok_or(OutOfStep)
    }
}
