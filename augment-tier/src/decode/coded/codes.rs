//! Huffman codes, as far as one has to know them to pass over what they stand for.

use super::bits::Bits;

/// Bits that are looked up at once.
const LOOKED_UP_BITS: u32 = 12;
/// Numbers that they may be.
const SHORT: usize = 1 << LOOKED_UP_BITS;
/// Bits of the longest code.
const LENGTH_MAX: usize = 16;
/// Bits of the largest first coefficient and of the largest other one, of pixels of 8 bits.
const FIRST_BITS_MAX: u8 = 11;
const OTHER_BITS_MAX: u8 = 10;

/// Coefficients of a block.
const COEFFICIENTS: u32 = 64;
/// By how much the code for it passes beyond the block.
const END_OF_BLOCK: u8 = 128;

/// Which coefficients a table is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// The first of each block.
    First,
    /// All others.
    Others,
}

/// One code, or two: in the lower byte the bits, with those of the coefficient behind each code, none where
/// such a code is not known; in the upper byte the coefficients that are passed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Step(u16);

/// What the next bits begin with: in the lower half a [`Step`] over as many codes as are there whole, in
/// the upper half over the first of them alone.
type Steps = u32;

/// A table of codes.
#[derive(Debug)]
pub(super) struct Codes {
    /// By the next bits: codes that are not longer than those.
    short: Box<[Steps; SHORT]>,
    /// Of each length the first number that is no code of it any more, in the upper of 16 bits.
    ends: [u32; LENGTH_MAX + 1],
    /// What to add to the number of a code for its place in `steps`.
    places: [i64; LENGTH_MAX + 1],
    /// In order of codes.
    steps: Vec<Step>,
}

// === impl Codes ===

impl Codes {
    /// The table of which a file tells how many codes there are of each length, and what they stand for.
    pub(super) fn new(kind: Kind, counts: &[u8; LENGTH_MAX], symbols: &[u8]) -> Option<Self> {
        let mut codes = Self::default();
        let mut lengths = [0; SHORT];
        let (mut code, mut symbols) = (0u32, symbols.iter());
        for (length, &count) in (1u32..).zip(counts) {
            codes.places[length as usize] = codes.steps.len() as i64 - i64::from(code);
            for _ in 0..count {
                let step = Step::of(kind, length as u8, *symbols.next()?);
                codes.steps.push(step);
                if length <= LOOKED_UP_BITS {
                    let unused = LOOKED_UP_BITS - length;
                    let first = (code as usize) << unused;
                    let places = first..first + (1 << unused);
                    codes.short.get_mut(places.clone())?.fill(step.alone());
                    lengths[places].fill(length as u8);
                }
                code += 1;
            }
            // No code is all ones.
            if code >= 1 << length {
                return None;
            }
            codes.ends[length as usize] = code << (LENGTH_MAX as u32 - length);
            code <<= 1;
        }
        if kind == Kind::Others {
            codes.pair(&lengths);
        }
        Some(codes)
    }

    /// Adds the second code where it is there whole; the bits of its coefficient need not be.
    fn pair(&mut self, lengths: &[u8; SHORT]) {
        for next in 0..SHORT {
            let first = Step::first(self.short[next]);
            if !(1..LOOKED_UP_BITS).contains(&first.bits()) || first.coefficients() >= COEFFICIENTS {
                continue;
            }
            let behind = (next << first.bits()) % SHORT;
            let second = Step::first(self.short[behind]);
            let end = first.bits() + u32::from(lengths[behind]);
            if second.bits() > 0 && end <= LOOKED_UP_BITS {
                self.short[next] += u32::from(second.0);
            }
        }
    }

    /// Passes over the first coefficient of a block; `None` where there is no such code.
    #[inline]
    pub(super) fn pass_first(&self, bits: &mut Bits<'_>) -> Option<()> {
        bits.fill()?;
        self.pass(Step::first(self.steps(bits)), bits).map(|_| ())
    }

    /// Passes over all other coefficients of a block; `None` where there is no such code, or they are more.
    #[inline]
    pub(super) fn pass_others(&self, bits: &mut Bits<'_>) -> Option<()> {
        let mut at = 1;
        while at < COEFFICIENTS {
            bits.fill()?;
            at += self.pass_some(at, bits)?;
            if at < COEFFICIENTS {
                at += self.pass_some(at, bits)?;
            }
        }
        (at == COEFFICIENTS || at > END_OF_BLOCK.into()).then_some(())
    }

    /// Passes over one code or two; gives the number of coefficients.
    #[inline]
    fn pass_some(&self, at: u32, bits: &mut Bits<'_>) -> Option<u32> {
        let steps = self.steps(bits);
        let first = Step::first(steps);
        // Behind the last coefficient comes another table.
        let within = at + first.coefficients() < COEFFICIENTS;
        self.pass(if within { Step::all(steps) } else { first }, bits)
    }

    #[inline]
    fn pass(&self, mut step: Step, bits: &mut Bits<'_>) -> Option<u32> {
        if step.bits() == 0 {
            step = self.find(bits.peek())?;
        }
        bits.pass(step.bits());
        Some(step.coefficients())
    }

    #[inline]
    fn steps(&self, bits: &Bits<'_>) -> Steps {
        self.short[(bits.peek() >> (64 - LOOKED_UP_BITS)) as usize]
    }

    /// A code that was not found in `short`: it is too long, or not known.
    #[cold]
    fn find(&self, next: u64) -> Option<Step> {
        let next = (next >> (64 - LENGTH_MAX)) as u32;
        let length = (1..=LENGTH_MAX).find(|&length| next < self.ends[length])?;
        let place = i64::from(next >> (LENGTH_MAX - length)) + self.places[length];
        let step = self.steps.get(usize::try_from(place).ok()?)?;
        (step.bits() > 0).then_some(*step)
    }
}

impl Default for Codes {
    /// A table without a code.
    fn default() -> Self {
        Self {
            short: Box::new([0; SHORT]),
            ends: [0; LENGTH_MAX + 1],
            places: [0; LENGTH_MAX + 1],
            steps: Vec::new(),
        }
    }
}

// === impl Step ===

impl Step {
    fn new(bits: u8, coefficients: u8) -> Self {
        Self(u16::from_le_bytes([bits, coefficients]))
    }

    /// What a symbol stands for.
    fn of(kind: Kind, length: u8, symbol: u8) -> Self {
        let (zeros, size) = (symbol >> 4, symbol & 15);
        match kind {
            Kind::First if symbol <= FIRST_BITS_MAX => Self::new(length + size, 1),
            // Nothing but zeros up to the end, or sixteen of them.
            Kind::Others if symbol == 0 => Self::new(length, END_OF_BLOCK),
            Kind::Others if symbol == 0xf0 => Self::new(length, 16),
            Kind::Others if (1..=OTHER_BITS_MAX).contains(&size) => {
                Self::new(length + size, zeros + 1)
            }
            // Pixels of 8 bits have no use for it.
            _ => Self::new(0, 0),
        }
    }

    #[inline]
    fn first(steps: Steps) -> Self {
        Self((steps >> 16) as u16)
    }

    #[inline]
    fn all(steps: Steps) -> Self {
        Self(steps as u16)
    }

    /// Of itself alone.
    fn alone(self) -> Steps {
        u32::from(self.0) << 16 | u32::from(self.0)
    }

    #[inline]
    fn bits(self) -> u32 {
        u32::from(self.0 & 0xff)
    }

    #[inline]
    fn coefficients(self) -> u32 {
        u32::from(self.0 >> 8)
    }
}
