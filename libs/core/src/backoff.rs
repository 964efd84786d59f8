//! The pause before another try: longer after each failure, and of no two callers alike.

use std::time::Duration;

use crate::Digest;

/// Bounds of the pauses between tries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// The pause after the first failure; doubles with each further one.
    pub first: Duration,
    /// The longest pause.
    pub longest: Duration,
}

// === impl Backoff ===

impl Backoff {
    /// The pause after `failures` failures in a row; 0 counts as 1.
    ///
    /// Keeps between a half and all of the doubled pause, as `draw` says, so that callers who failed
    /// at the same time do not come back at the same time. The caller makes the draw from what tells
    /// it and this try apart. A caller whose runs must replay draws from what replays.
    #[must_use]
    pub fn pause(&self, failures: u32, draw: Digest) -> Duration {
        let doublings = failures.saturating_sub(1).min(31);
        let doubled = self.first.saturating_mul(1 << doublings).min(self.longest);
        let share = f64::from(draw.0 as u32) / f64::from(u32::MAX);
        doubled.mul_f64(0.5 + share / 2.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Digester;

    const BACKOFF: Backoff =
        Backoff { first: Duration::from_millis(100), longest: Duration::from_secs(5) };

    fn draw(caller: u64, number: u64) -> Digest {
        Digester::new("test").number(caller).number(number).finish()
    }

    #[test]
    fn pauses_double_up_to_the_longest_and_keep_a_half_at_least() {
        for (failures, most) in
            [(0, 100), (1, 100), (2, 200), (3, 400), (6, 3200), (7, 5000), (40, 5000)]
        {
            let most = Duration::from_millis(most);
            assert_eq!(BACKOFF.pause(failures, Digest(u128::MAX)), most);
            assert_eq!(BACKOFF.pause(failures, Digest(0)), most / 2);
        }
    }

    #[test]
    fn callers_who_fail_together_do_not_come_back_together() {
        let mut pauses: Vec<Duration> = (0..64).map(|n| BACKOFF.pause(1, draw(n, 1))).collect();
        let tenth = |pause: &Duration| (pause.as_millis() as usize - 50) / 10;
        let mut tenths = [0; 6];
        pauses.iter().for_each(|pause| tenths[tenth(pause)] += 1);
        assert!(tenths[..5].iter().all(|number| *number > 0), "not spread: {tenths:?}");
        pauses.sort_unstable();
        pauses.dedup();
        assert_eq!(pauses.len(), 64, "two of them wait alike");
        assert_ne!(BACKOFF.pause(1, draw(0, 1)), BACKOFF.pause(1, draw(0, 2)));
    }
}
