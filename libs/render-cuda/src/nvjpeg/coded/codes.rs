//! Tables of Huffman codes that say how much to skip.

use super::bits::Bits;

/// Bits of a lookup.
const LOOKED_UP_BITS: u32 = 12;
/// Values of those bits.
const SHORT: usize = 1 << LOOKED_UP_BITS;
/// Bits of the longest code.
const LENGTH_MAX: usize = 16;
/// Bits of the largest first coefficient of a block, and of the largest other one, with pixels of 8 bits.
const FIRST_BITS_MAX: u8 = 11;
const OTHER_BITS_MAX: u8 = 10;

/// Coefficients of a block.
const COEFFICIENTS: u32 = 64;
/// What the end-of-block code counts as: more coefficients than there are.
const END_OF_BLOCK: u8 = 128;

/// Which coefficients a table is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// The first of each block.
    First,
    /// All others.
    Others,
}

/// What to skip for one code or two. Lower byte: bits, including the coefficient's bits after each code; 0 for
/// an unknown code. Upper byte: coefficients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Step(u16);

/// What the next bits begin with. Lower half: a [`Step`] over all codes that are complete. Upper half: a
/// [`Step`] over the first code only.
type Steps = u32;

/// A table of codes.
#[derive(Debug)]
pub(super) struct Codes {
    /// By the next bits, for codes that are not longer.
    short: Box<[Steps; SHORT]>,
    /// For each length, the first value after its codes, left-aligned in 16 bits.
    ends: [u32; LENGTH_MAX + 1],
    /// For each length, what to add to a code to get its place in `steps`.
    places: [i64; LENGTH_MAX + 1],
    /// In order of codes.
    steps: Vec<Step>,
}

// === impl Codes ===

impl Codes {
    /// Makes a table from a file's numbers of codes of each length, and the symbols they stand for.
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

    /// Adds a second code where it is complete. Its coefficient's bits need not be.
    fn pair(&mut self, lengths: &[u8; SHORT]) {
        for next in 0..SHORT {
            let first = Step::first(self.short[next]);
            if !(1..LOOKED_UP_BITS).contains(&first.bits()) || first.coefficients() >= COEFFICIENTS
            {
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

    /// Skips the first coefficient of a block; `None` if the code is unknown.
    #[inline]
    pub(super) fn skip_first(&self, bits: &mut Bits<'_>) -> Option<()> {
        bits.fill()?;
        self.skip(Step::first(self.steps(bits)), bits).map(|_| ())
    }

    /// Skips the other coefficients of a block; `None` if a code is unknown, or there are too many.
    #[inline]
    pub(super) fn skip_others(&self, bits: &mut Bits<'_>) -> Option<()> {
        let mut at = 1;
        while at < COEFFICIENTS {
            bits.fill()?;
            at += self.skip_some(at, bits)?;
            if at < COEFFICIENTS {
                at += self.skip_some(at, bits)?;
            }
        }
        (at == COEFFICIENTS || at > END_OF_BLOCK.into()).then_some(())
    }

    /// Skips one code or two. Returns the number of coefficients.
    #[inline]
    fn skip_some(&self, at: u32, bits: &mut Bits<'_>) -> Option<u32> {
        let steps = self.steps(bits);
        let first = Step::first(steps);
        // The code after the last coefficient is in another table.
        let within = at + first.coefficients() < COEFFICIENTS;
        self.skip(if within { Step::all(steps) } else { first }, bits)
    }

    #[inline]
    fn skip(&self, mut step: Step, bits: &mut Bits<'_>) -> Option<u32> {
        if step.bits() == 0 {
            step = self.find(bits.peek())?;
        }
        bits.skip(step.bits());
        Some(step.coefficients())
    }

    #[inline]
    fn steps(&self, bits: &Bits<'_>) -> Steps {
        self.short[(bits.peek() >> (64 - LOOKED_UP_BITS)) as usize]
    }

    /// Finds a code that is not in `short`: it is longer, or unknown.
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

    /// A step over a code of that length and what its symbol stands for.
    fn of(kind: Kind, length: u8, symbol: u8) -> Self {
        let (zeros, size) = (symbol >> 4, symbol & 15);
        match kind {
            Kind::First if symbol <= FIRST_BITS_MAX => Self::new(length + size, 1),
            // Zeros to the end of the block, or sixteen zeros.
            Kind::Others if symbol == 0 => Self::new(length, END_OF_BLOCK),
            Kind::Others if symbol == 0xf0 => Self::new(length, 16),
            Kind::Others if (1..=OTHER_BITS_MAX).contains(&size) => {
                Self::new(length + size, zeros + 1)
            }
            // Not used with pixels of 8 bits.
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

    /// The entry of a table where no second code follows.
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
