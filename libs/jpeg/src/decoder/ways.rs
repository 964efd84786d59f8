//! Which way the bits of an image are read in.

use headwater_simd::Simd;
#[cfg(target_arch = "x86_64")]
use headwater_simd::Vbmi2;

use super::{Decoder, places_apart};
use crate::choice::{Choice, Speeds, Way};
use crate::entries::Entries;
use crate::entropy::{End, Known, Nothing, Place, Scan, Sink};
use crate::header::Frame;
use crate::planes::Wanted;

/// What lanes need.
#[cfg(target_arch = "x86_64")]
type Proof = Vbmi2;
#[cfg(not(target_arch = "x86_64"))]
type Proof = std::convert::Infallible;

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
    /// and gives the way that it came to, and the entries if they are to be recorded.
    pub(super) fn speculate(
        &mut self,
        frame: &Frame,
        wanted: Option<Wanted>,
        to: u32,
        record: bool,
    ) -> Result<(Way, Option<Entries>), OutOfStep> {
        let Choice { streams, speculates_from, windows_from, .. } = self.choice();
        let is_from = |from: Option<u32>| from.is_some_and(|from| to >= from);
        let lanes: Option<Proof> = match self.simd {
            #[cfg(target_arch = "x86_64")]
            Simd::Avx512(proof) => proof.vbmi2(),
            _ => None,
        };
        let lanes = lanes.filter(|_| is_from(speculates_from));
        if self.simd == Simd::Plain || lanes.is_none() && !is_from(windows_from) {
            return Err(OutOfStep);
        }
        let Self { stream, lookups, places, planes, .. } = self;
        places.clear();
        let bits = stream.bits();
        let all = frame.mcus_across() * frame.mcus_down();
        let end = End::of_scan(bits, to == all);
        let scan = Scan { frame, bits, to, end };
        let mut painter = wanted.map(|wanted| planes.painter(self.simd, frame, wanted));
        let sink: &mut dyn Sink = match &mut painter {
            Some(painter) => painter,
            None => &mut Nothing,
        };
        let mut known = Known::start(record.then_some((&mut *places, places_apart(all))));
        #[cfg(target_arch = "x86_64")]
        if let Some(proof) = lanes {
            let outcome = self.lanes.fall_into_step(proof, &scan, stream.words(), &mut known, sink);
            outcome.or(Err(OutOfStep))?;
        }
        let Place { bit, mcu, predictors, .. } = known.place();
        let outcome = if mcu == to {
            end.check(bit, &predictors)
        } else {
            lookups.prepare(frame);
            let ways = (self.simd, if windows_from.is_some() { streams } else { 1 });
            let from = (&scan, stream.padded());
            self.interleaved.fall_into_step(ways, lookups, from, &mut known, sink)
        };
        outcome.or(Err(OutOfStep))?;
        let way = if known.is_in_step { Way::Speculative } else { Way::One };
        Ok((way, record.then(|| Entries::choose(&self.places, scan.symbols()))))
    }
}
