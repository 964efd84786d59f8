//! Pillow's blend in bytes.
//!
//! The degenerate level is a whole number, and so the blend is that level plus factor times the value's distance
//! from it, rounded down: a value moves by a step that follows only from the distance, up or down, away from the
//! level or towards it, as the factor is above 1 or below. A step down is longer by 1, since it is rounded down
//! too. That holds unless a product is so near a whole number that the sum is rounded to it.
//!
//! A step up is floor(distance * |factor - 1|). Fractions of numbers up to 255 lie so far apart that a
//! multiplier of 16 bits gives all 256 steps.

use crate::ops::level::rounded_to_zero;

/// More than a sum of a level and a product moves when it is rounded.
const NEAR: f32 = 1.0 / 65536.0;

/// How values move by a factor.
#[derive(Clone, Copy, Debug)]
pub(in crate::ops) struct Steps {
    /// By distance, up.
    pub(in crate::ops) up: [u8; 256],
    /// Whether values go away from the level.
    pub(in crate::ops) away: bool,
    amount: f64,
}

/// A step up is the upper half of 257 times the distance times this, shifted to the right.
#[derive(Clone, Copy, Debug)]
pub(in crate::ops) struct Multiplier {
    pub(in crate::ops) factor: u16,
    pub(in crate::ops) shift: u32,
}

// === impl Steps ===

impl Steps {
    /// The steps of a factor from 0 to 2, unless a product is too near a whole number.
    #[inline(always)]
    pub(in crate::ops) fn of(factor: f32) -> Option<Self> {
        // What is no number is in no range.
        if !(0.0..2.0).contains(&factor) {
            return None;
        }
        let away = factor >= 1.0;
        let mut up = [0; 256];
        let mut clear = true;
        for (distance, up) in up.iter_mut().enumerate().skip(1) {
            let distance = distance as i32;
            let product = factor * distance as f32;
            let whole = rounded_to_zero(f64::from(product));
            let rest = product - whole as f32;
            clear &= (rest > NEAR) & (rest < 1.0 - NEAR);
            *up = if away { whole - distance } else { distance - 1 - whole } as u8;
        }
        clear.then_some(Self { up, away, amount: (f64::from(factor) - 1.0).abs() })
    }

    /// The multiplier that gives these steps; one of the two next to the exact one does.
    #[inline(always)]
    pub(in crate::ops) fn multiplier(&self) -> Option<Multiplier> {
        let exact = |shift: u32| self.amount * f64::from(1u32 << (16 + shift)) / 257.0;
        // As many bits as there is room for.
        let shift = (8..16).rev().find(|shift| exact(*shift) < 65535.0)?;
        let below = exact(shift) as u16;
        let mut tries = [below, below + 1].map(|factor| Multiplier { factor, shift }).into_iter();
        tries.find(|multiplier| self.are_of(*multiplier))
    }

    #[inline(always)]
    fn are_of(&self, Multiplier { factor, shift }: Multiplier) -> bool {
        let mut equal = true;
        for (distance, up) in self.up.iter().enumerate() {
            let product = 257 * distance as u32 * u32::from(factor);
            equal &= product >> (16 + shift) == u32::from(*up);
        }
        equal
    }
}
